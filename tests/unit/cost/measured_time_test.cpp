// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include "cost/collective/collective_cost.hpp"
#include "io/hardware/profile_reader.hpp"
#include "support/source_directory.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::measured_time_test {
namespace {

constexpr const char* kMachine = R"(
schema: plansearch/profile/v1
name: box
like: dgx-h100
tiers:
  - name: nvlink
    link: {like: nvlink4-switch, measured: [{kind: all-reduce, ranks: 2, sizes: [1 KiB, 16 KiB, 1 MiB], times: [2 us, 8 us, 100 us]}]}
)";

Cluster box(const std::string& text = kMachine) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("box.yaml", text);
  return io::load_cluster(
      path, std::vector{std::filesystem::path(PLANSEARCH_SOURCE_DIR) / "hardware_profiles"});
}

double us(const Cluster& cluster, CommunicationKind kind, double bytes, int ranks) {
  return collective_cost(cluster, kind, Bytes(bytes), {ranks, 1}).time.value() * 1e6;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("times of a table are taken, and others between them") {
    const Cluster cluster = box();
    CHECK(us(cluster, CommunicationKind::AllReduce, 16384.0, 2) == doctest::Approx(8.0));
    // Half of the logarithm from 1 to 16 KiB: sqrt(2 x 8).
    CHECK(us(cluster, CommunicationKind::AllReduce, 4096.0, 2) == doctest::Approx(4.0));
    CHECK(us(cluster, CommunicationKind::AllReduce, 8.0, 2) == doctest::Approx(2.0));
    CHECK(us(cluster, CommunicationKind::AllReduce, 4.0 * (1 << 20), 2) == doctest::Approx(400.0));
  }

  TEST_CASE("other collectives and groups follow the constants") {
    const Cluster cluster = box();
    const Cluster plain = io::load_cluster(
        "dgx-h100",
        std::vector{std::filesystem::path(PLANSEARCH_SOURCE_DIR) / "hardware_profiles"});
    CHECK(us(cluster, CommunicationKind::AllReduce, 16384.0, 4) ==
          us(plain, CommunicationKind::AllReduce, 16384.0, 4));
    CHECK(us(cluster, CommunicationKind::AllGather, 16384.0, 2) ==
          us(plain, CommunicationKind::AllGather, 16384.0, 2));
  }

  TEST_CASE("a curve with a table is written as it is read") {
    const Cluster cluster = box();
    const std::string written = io::curve_text(cluster.tiers[0].curve);
    std::string text = kMachine;
    const std::size_t begin = text.find("{like: nvlink4-switch");
    text.replace(begin, text.rfind('}') + 1 - begin, written);
    CHECK(box(text).tiers[0].link().measured == cluster.tiers[0].link().measured);
  }

  TEST_CASE("tables that are wrong are refused") {
    for (const auto& [from, to] : {std::pair{"[1 KiB, 16 KiB, 1 MiB]", "[1 KiB, 1 MiB]"},
                                   std::pair{"[1 KiB, 16 KiB, 1 MiB]", "[1 KiB, 1 KiB, 1 MiB]"},
                                   std::pair{"[2 us, 8 us, 100 us]", "[2 us, 1 us, 100 us]"},
                                   std::pair{"[2 us, 8 us, 100 us]", "[2, 8, 100]"},
                                   std::pair{"all-reduce", "reduce-all"}}) {
      CAPTURE(to);
      std::string text = kMachine;
      text.replace(text.find(from), std::string(from).size(), to);
      CHECK_THROWS(box(text));
    }
  }
}

}  // namespace plansearch::measured_time_test
