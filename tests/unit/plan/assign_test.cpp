// SPDX-License-Identifier: Apache-2.0
// Selectors and sets of devices: patterns by hand, and random sets written and read back.
#include "plan/stages/assign.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

namespace plansearch::assign_test {
namespace {

/// enter, four layers of two blocks in turn, two bridges among them, leave.
Network network() {
  Network made;
  made.name = "toy";
  for (const auto& [name, kind] : {std::pair{"enter", BlockKind::Embedding},
                                   {"decoder", BlockKind::Decoder},
                                   {"decoder_window", BlockKind::Decoder},
                                   {"bridge", BlockKind::Other},
                                   {"leave", BlockKind::Head}}) {
    Block block;
    block.name = name;
    block.kind = kind;
    block.operators.resize(2);
    block.operators[0].name = "mlp_in";
    block.operators[1].name = "mlp_out";
    made.blocks.push_back(block);
  }
  made.order = {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}};
  return made;
}

/// The places that the selections mean, one by one.
std::set<std::size_t> meant(const std::vector<Selection>& selections, const Network& network) {
  std::set<std::size_t> places;
  const std::vector<BlockCopy> copies = block_copies(network);
  for (const Selection& what : selections) {
    for (std::size_t c = 0; c < copies.size(); ++c) {
      const Block& block = network.blocks[copies[c].block];
      if (!selects_copy(what, copies[c]) || !selects(what.of, block, block.operators[0])) continue;
      CHECK(places.insert(c).second);  // no copy by two selections
    }
  }
  return places;
}

TEST_SUITE("unit") {
  TEST_CASE("a star in a selector stands for any letters") {
    const Network toy = network();
    const auto hits = [&](std::string_view selector) {
      std::string found;
      for (const Block& block : toy.blocks) {
        for (const Operator& op : block.operators) {
          found += selects(selector, block, op) ? '1' : '0';
        }
      }
      return found;
    };
    CHECK(hits("*") == "1111111111");
    CHECK(hits("decoder") == "0011000000");
    CHECK(hits("dec*") == "0011110000");
    CHECK(hits("*er") == "1111000000");
    CHECK(hits("d*r*w") == "0000110000");
    CHECK(hits("*/mlp_in") == "1010101010");
    CHECK(hits("*/*_o*t") == "0101010101");
    CHECK(hits("decoder_*/mlp_*") == "0000110000");
    CHECK(hits("decoder/") == "0000000000");
    CHECK(hits("") == "0000000000");
  }

  TEST_CASE("any set of copies is named by selections that mean it and no other") {
    const Network toy = network();
    const std::size_t copies = block_copies(toy).size();
    REQUIRE(copies == 8);
    for (unsigned set = 0; set < 1U << copies; ++set) {
      std::vector<std::size_t> places;
      for (std::size_t c = 0; c < copies; ++c) {
        if ((set >> c & 1U) != 0) places.push_back(c);
      }
      CAPTURE(set);
      CHECK(meant(selections_of(places, toy), toy) ==
            std::set<std::size_t>(places.begin(), places.end()));
    }
  }

  TEST_CASE("sets of devices as ranges") {
    const auto text = [](const std::vector<int>& devices) {
      std::string joined;
      for (const DeviceRange& range : device_ranges(devices)) joined += to_text(range) + " ";
      return joined;
    };
    CHECK(text({3}) == "3 ");
    CHECK(text({0, 1, 2, 3}) == "0-3 ");
    CHECK(text({0, 4, 8}) == "0-8:4 ");
    CHECK(text({8, 9, 72, 73, 136, 137}) == "8-137:64*2 ");
    CHECK(text({0, 1, 4}) == "0-1 4 ");
    CHECK(text({0, 1, 4, 5, 9, 10}) == "0-1 4-5 9-10 ");
    CHECK(devices_of(std::vector<DeviceRange>{{0, 9, 4, 2}}) == std::vector<int>{0, 1, 4, 5, 8, 9});
    CHECK(device_count({0, 8, 4, 2}) == 5);
    CHECK(device_count({0, 1 << 30, 1, 1}) == (std::int64_t{1} << 30) + 1);
    std::mt19937 random(5);
    for (int i = 0; i < 300; ++i) {
      std::vector<int> devices;
      const unsigned share = 1 + random() % 4;
      for (int d = 0; d < 24; ++d) {
        if (random() % share == 0) devices.push_back(d);
      }
      const std::vector<DeviceRange> ranges = device_ranges(devices);
      CHECK(devices_of(ranges) == devices);
      std::int64_t count = 0;
      for (const DeviceRange& range : ranges) count += device_count(range);
      CHECK(count == std::ssize(devices));
    }
  }

  TEST_CASE("consecutive blocks on one set are a chunk, others a chunk more; numbers say it too") {
    const Network toy = network();
    using Chunks = std::vector<std::vector<std::size_t>>;
    const auto stages = [&](const std::vector<AssignEntry>& entries) {
      const auto made = stages_of(entries, toy);
      if (const auto* fault = std::get_if<EntryFault>(&made)) FAIL(fault->message);
      return std::get<std::vector<AssignedStage>>(made);
    };
    const std::vector<DeviceRange> left{{0, 3, 1, 1}};
    const std::vector<DeviceRange> right{{4, 7, 1, 1}};
    const auto turns = stages({{{.of = {"enter"}}, left, {}},
                               {{.of = {"*"}, .layers = {{0, 0}, {2, 2}}}, left, {}},
                               {{.of = {"*"}, .layers = {{1, 1}, {3, 3}}}, right, {}},
                               {{.of = {"bridge", "leave"}}, right, {}}});
    REQUIRE(turns.size() == 2);
    CHECK(turns[0].chunks == Chunks{{0, 1}, {4}});
    CHECK(turns[1].chunks == Chunks{{2, 3}, {5, 6, 7}});
    CHECK(turns[1].devices == std::vector<int>{4, 5, 6, 7});
    const auto numbered = stages({{{.of = {"*"}, .layers = {{2, 3}}}, right, 1},
                                  {{.of = {"bridge", "leave"}}, right, 0},
                                  {{.of = {"enter"}}, left, 0},
                                  {{.of = {"*"}, .layers = {{0, 1}}}, left, 0}});
    CHECK(numbered[0].chunks == Chunks{{3, 6, 7}, {4, 5}});
    CHECK(numbered[1].chunks == Chunks{{0, 1, 2}, {}});
  }
}

}  // namespace
}  // namespace plansearch::assign_test
