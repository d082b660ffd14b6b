// SPDX-License-Identifier: Apache-2.0
// Four blocks a, b, c, d in a chain; b's result is also read by c and d, a's by d alone. Who holds,
// sends and passes what follows from who reads it, stage by stage, on paper.
#include "plan/stages/expand.hpp"

#include <doctest/doctest.h>

namespace plansearch::group_edges_test {
namespace {

/// Every block hands on one tensor; further inputs come along edges.
Block block_of(const char* name, std::size_t inputs) {
  Block block;
  block.name = name;
  for (std::size_t i = 0; i < inputs; ++i) {
    block.tensors.push_back({"in" + std::to_string(i), {}});
    block.inputs.push_back(static_cast<TensorId>(i));
  }
  block.tensors.push_back({"out", {}});
  block.outputs = {static_cast<TensorId>(inputs)};
  return block;
}

/// a - b - b - c, c reads a's result and that of the first b.
Network network() {
  Network network;
  network.blocks = {block_of("a", 1), block_of("b", 1), block_of("c", 3)};
  network.order = {{0, 1}, {1, 2}, {2, 1}};
  network.edges = {{.from = 0, .output = 0, .to = 3, .readers = 1, .input = 1},
                   {.from = 1, .output = 0, .to = 3, .readers = 1, .input = 2}};
  return network;
}

/// Inputs first, then outputs.
constexpr BlockPort kResultOfA{0, 1};
constexpr BlockPort kResultOfB{1, 1};

TEST_SUITE("unit") {
  TEST_CASE("the next copy along the chain is a reader too") {
    const std::vector<SharedTensor> tensors = shared_tensors(network());
    REQUIRE(tensors.size() == 2);
    CHECK(tensors[0].handed_on);
    CHECK(tensors[0].readers.size() == 2);
    CHECK(tensors[0].readers[0].first == 1);
    CHECK(tensors[1].last_reader() == 3);
    // Results go on along the chain: a's to b, b's to b and c; c's nowhere.
    CHECK(handed_on(network()) == std::vector<std::vector<bool>>{{true}, {true}, {false}});
  }

  TEST_CASE("one stage: a tensor is one buffer, whoever made it and reads it") {
    const Network net = network();
    const GroupEdges edges =
        group_edges(net, shared_tensors(net), net.order, 0, SkipRoute::Relayed);
    CHECK(edges.leaving.empty());
    CHECK(edges.passing.empty());
    using Holders = std::vector<PortHolders>;
    // a makes it, the first b reads it in its place 0, c in place 1.
    CHECK(edges.shared == std::vector<Holders>{{{{0, 1}, 0, 1}, {{1, 0}, 0, 1}, {{2, 1}, 0, 1}},
                                               {{{1, 1}, 0, 1}, {{1, 0}, 1, 1}, {{2, 2}, 0, 1}}});
  }

  TEST_CASE("relayed: every stage on the way takes what is read behind it") {
    const Network net = network();
    const auto tensors = shared_tensors(net);
    const auto at = [&](std::vector<BlockRun> runs, std::int64_t first) {
      return group_edges(net, tensors, runs, first, SkipRoute::Relayed);
    };
    // a hands its result to b along the chain: no second message.
    CHECK(at({{0, 1}}, 0).leaving.empty());
    // The first b reads a's result and sends it on; its own goes along the chain.
    CHECK(at({{1, 1}}, 1).leaving == std::vector{kResultOfA});
    CHECK(at({{1, 1}}, 1).passing.empty());
    // The second b reads that of the first, and passes a's.
    CHECK(at({{1, 1}}, 2).leaving == std::vector{kResultOfA, kResultOfB});
    CHECK(at({{1, 1}}, 2).passing == std::vector{kResultOfA});
    CHECK(at({{2, 1}}, 3).leaving.empty());
  }

  TEST_CASE("direct: one message from the maker to each stage that reads") {
    const Network net = network();
    const auto tensors = shared_tensors(net);
    const auto messages = [&](const std::vector<std::vector<BlockRun>>& stages) {
      std::vector<OperatorGroup> groups;
      for (const auto& stage : stages)
        groups.push_back({static_cast<int>(groups.size()), 0, stage});
      return direct_messages(net, tensors, groups, groups.size(), 0);
    };
    CHECK(messages({{{0, 1}}, {{1, 1}}, {{1, 1}}, {{2, 1}}}) ==
          std::vector<DirectMessage>{{0, 3, kResultOfA}, {1, 3, kResultOfB}});
    // b and c on one stage read a's result, which comes along the chain.
    CHECK(messages({{{0, 1}}, {{1, 2}, {2, 1}}}).empty());
    // The first b makes another tensor than the second hands on.
    CHECK(messages({{{0, 1}, {1, 2}}, {{2, 1}}}) ==
          std::vector<DirectMessage>{{0, 1, kResultOfA}, {0, 1, kResultOfB}});
    const auto groups = std::vector<OperatorGroup>{
        {0, 0, {{0, 1}, {1, 2}}}, {1, 0, {{2, 1}}}, {1, 1, {{0, 1}, {1, 2}}}, {0, 1, {{2, 1}}}};
    CHECK(direct_messages(net, tensors, groups, 2, 0).size() == 4);  // two replicas
    const GroupEdges straight = group_edges(net, tensors, {{1, 1}}, 2, SkipRoute::Direct);
    CHECK(straight == GroupEdges{});
  }
}

}  // namespace
}  // namespace plansearch::group_edges_test
