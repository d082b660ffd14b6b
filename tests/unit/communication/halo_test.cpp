// SPDX-License-Identifier: Apache-2.0
// Exchanges of borders that follow from windows over cut dimensions, counted by hand.
#include <doctest/doctest.h>

#include <memory>

#include "small_networks.hpp"

namespace plansearch::halo_test {
namespace {

/// [b, y, x, c] -> [b, v, u, d] by taps p, q: every second place.
struct Convolution {
  explicit Convolution(FactorCuts (*cut)(const Convolution&), std::vector<int> factors) {
    test::BlockBuilder b;
    batch = b.dim("b", DimRole::Batch, 1);
    y = b.dim("y", DimRole::Pixel, 64);
    x = b.dim("x", DimRole::Pixel, 64);
    v = b.dim("v", DimRole::Pixel, 32);
    u = b.dim("u", DimRole::Pixel, 32);
    p = b.dim("p", DimRole::Kernel, 3);
    q = b.dim("q", DimRole::Kernel, 3);
    c = b.dim("c", DimRole::Channel, 320);
    d = b.dim("d", DimRole::Channel, 640);
    const TensorId in = b.tensor("in", {batch, y, x, c});
    const TensorId out = b.tensor("out", {batch, v, u, d});
    const ParameterId w = b.parameter("w", {p, q, c, d});
    b.op("down", OperatorKind::Convolution, {batch, v, u, p, q, c, d}, {in}, {w}, {out});
    b.block.operators.front().reads = {{{{{batch, 1}}, 0, 1},
                                        {{{v, 2}, {p, 1}}, -1, 1},
                                        {{{u, 2}, {q, 1}}, -1, 1},
                                        {{{c, 1}}, 0, 1}}};
    b.block.inputs = {in};
    b.block.outputs = {out};
    network = b.finish();
    placements.factors = std::move(factors);
    BlockChoice& choice = placements.blocks.emplace_back();
    choice.operators = {cut(*this)};
    choice.entering = FactorCuts{};
    choice.leaving = FactorCuts{};
    for (const DimensionCut& one : *choice.operators.front()) {
      choice.leaving->push_back(one);
      choice.entering->push_back({one.dim == v ? y : x, one.factors});
    }
  }

  [[nodiscard]] std::vector<Communication> messages() const {
    return test::operator_messages(network, placements);
  }

  DimId batch{}, y{}, x{}, v{}, u{}, p{}, q{}, c{}, d{};
  Network network;
  Placements placements;
};

TEST_SUITE("unit") {
  TEST_CASE("rows in two: one row one way, again for the weights, and back for the input") {
    const Convolution cut([](const Convolution& n) { return FactorCuts{{n.v, {0}}}; }, {2});
    const auto messages = cut.messages();
    REQUIRE(messages.size() == 3);
    for (const Communication& message : messages) {
      CHECK(message.kind == CommunicationKind::SendReceive);
      CHECK(message.elements == 64 * 320);
      CHECK(message.group_size == 2);
      CHECK(message.steps == 1);
    }
    CHECK(messages[0].phase == DemandPhase::Forward);
    CHECK(messages[0].side == Side::Before);
    CHECK(messages[1].phase == DemandPhase::InputGradient);
    CHECK(messages[1].subject == Subject::ActivationGradient);
    CHECK(messages[1].side == Side::After);
    CHECK(messages[2].phase == DemandPhase::WeightGradient);
    CHECK(messages[2].subject == Subject::Activation);
  }

  TEST_CASE("rows and columns in two: two edges and a corner") {
    const Convolution cut(
        [](const Convolution& n) {
          return FactorCuts{{n.v, {1}}, {n.u, {0}}};
        },
        {2, 2});
    const auto messages = cut.messages();
    REQUIRE(!messages.empty());
    CHECK(messages[0].elements == (33 * 33 - 32 * 32) * 320);
    CHECK(messages[0].group_size == 4);
  }

  TEST_CASE("channels alone: no halo, the sum of the input's gradient") {
    const Convolution cut([](const Convolution&) { return FactorCuts{}; }, {2});
    CHECK(cut.messages().empty());
  }
}

}  // namespace
}  // namespace plansearch::halo_test
