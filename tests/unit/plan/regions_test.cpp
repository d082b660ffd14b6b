// SPDX-License-Identifier: Apache-2.0
// Operators that run piece by piece: what may be a region, in words and back.
#include <doctest/doctest.h>

#include "plan/placements/check_placements.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/transformer_builder.hpp"
#include "unit/communication/small_networks.hpp"
#include "unit/workload/descriptions.hpp"

namespace plansearch::regions_test {
namespace {

/// norm -> up (hidden -> ffn) -> gelu -> down (ffn -> hidden) -> add.
struct Mlp {
  Mlp() : framework(test::plain_framework()) {
    choice.operators.resize(network.blocks[0].operators.size());
  }

  [[nodiscard]] DimId dim(DimRole role) const {
    for (std::size_t d = 0; d < network.dimensions.size(); ++d) {
      if (network.dimensions[d].role == role) return static_cast<DimId>(d);
    }
    throw std::runtime_error("no such role");
  }
  [[nodiscard]] std::size_t op(OperatorKind kind, std::size_t skip = 0) const {
    const auto& operators = network.blocks[0].operators;
    for (std::size_t i = 0; i < operators.size(); ++i) {
      if (operators[i].kind == kind && skip-- == 0) return i;
    }
    throw std::runtime_error("no such operator");
  }
  [[nodiscard]] std::string refusal(std::vector<std::size_t> operators, DimRole role,
                                    int pieces = 4, int tensor = 1) const {
    PlanDegrees degrees;
    degrees.tensor_out = tensor;
    const std::vector<int> factors = tensor > 1 ? std::vector<int>{tensor} : std::vector<int>{};
    const PieceRegion region{std::move(operators), {dim(role)}, pieces, PieceRecompute::RunAgain};
    const auto bad =
        check_region(network, network.blocks[0], choice, region, {degrees, framework, factors});
    return bad ? bad->detail : std::string();
  }

  Network network = test::mlp_block(64, 256, 1024);
  Framework framework;
  BlockChoice choice;
};

TEST_SUITE("unit") {
  TEST_CASE("an MLP by its inner width, or by its tokens") {
    const Mlp mlp;
    const std::size_t up = mlp.op(OperatorKind::Matmul);
    const std::size_t down = mlp.op(OperatorKind::Matmul, 1);
    const std::size_t act = mlp.op(OperatorKind::Elementwise);
    CHECK(mlp.refusal({up, act, down}, DimRole::Ffn).empty());
    CHECK(mlp.refusal({up, act, down}, DimRole::Sequence).empty());
    // 1,024 over 8 devices are 128 each: 4 pieces of 32, no 3 pieces.
    CHECK(mlp.refusal({up, act, down}, DimRole::Ffn, 4, 8).empty());
    CHECK(mlp.refusal({up, act, down}, DimRole::Ffn, 3, 8).find("128") != std::string::npos);
  }

  TEST_CASE("what needs the whole of what pieces make is no part of a region") {
    const Mlp mlp;
    const std::size_t norm = mlp.op(OperatorKind::Norm);
    const std::size_t up = mlp.op(OperatorKind::Matmul);
    const std::size_t act = mlp.op(OperatorKind::Elementwise);
    const std::size_t down = mlp.op(OperatorKind::Matmul, 1);
    CHECK(mlp.refusal({norm, up}, DimRole::Hidden).find("normalises") != std::string::npos);
    // The activation stands between its neighbours.
    CHECK(mlp.refusal({up, down}, DimRole::Ffn).find("between") != std::string::npos);
    CHECK(mlp.refusal({norm, up}, DimRole::Ffn).find("no dimension") != std::string::npos);
    // down contracts: its pieces make parts of a sum, which the addition needs whole.
    const std::size_t add = mlp.op(OperatorKind::Elementwise, 1);
    CHECK(mlp.refusal({up, act, down, add}, DimRole::Ffn).find("no dimension") !=
          std::string::npos);
  }

  TEST_CASE("a tensor along an edge comes as its producer left it") {
    test::BlockBuilder b;
    const DimId y = b.dim("y", DimRole::Pixel, 8);
    const DimId v = b.dim("v", DimRole::Pixel, 4);
    Network network = b.network;
    const auto block = [&](const std::string& name, std::vector<DimId> in, std::vector<DimId> out) {
      Block made;
      made.name = name;
      for (const DimId dim : in) made.tensors.push_back({"in", {dim}});
      for (std::size_t i = 0; i < in.size(); ++i) made.inputs.push_back(static_cast<TensorId>(i));
      made.tensors.push_back({"out", std::move(out)});
      made.outputs = {static_cast<TensorId>(in.size())};
      network.blocks.push_back(made);
      network.order.push_back({network.blocks.size() - 1, 1});
    };
    block("first", {y}, {y});
    block("second", {y}, {v});
    block("third", {v, y}, {y});
    network.edges = {{0, 0, 2, 1, 1}};
    std::vector<LayerChoice> layers;
    for (std::size_t i = 0; i < 3; ++i) {
      layers.push_back({i, {}});
      layers.back().choice.leaving = FactorCuts{{i == 1 ? v : y, {0}}};
    }
    const DistinguishedNetwork made = distinguish_layers(network, {2}, layers);
    CHECK(made.placements.blocks[1].entering == FactorCuts{{y, {0}}});
    CHECK(made.placements.blocks[2].entering == FactorCuts{{v, {0}}, {y, {0}}});
  }

  TEST_CASE("names and back") {
    const Network network = build_network(test::gpt(4, 64, 4, 128, 32));
    const Framework framework = test::plain_framework();
    PlanDegrees degrees;
    PlacementNames names;
    names.regions = {
        {{"mlp_in", "activation", "mlp_out"}, {}, {{0, 1}}, {"ffn"}, 2, PieceRecompute::RunAgain}};
    const auto made = resolve_placements(names, network, degrees, framework);
    const auto* placed = std::get_if<DistinguishedNetwork>(&made);
    REQUIRE(placed != nullptr);
    CHECK(placed->placements.in_pieces());
    CHECK(placed->placements.by_role());
    const PlacementNames back = names_of(placed->placements, *placed->network);
    REQUIRE(back.regions.size() == 1);
    CHECK(back.regions[0].layers == names.regions[0].layers);
    CHECK(back.regions[0].operators == names.regions[0].operators);
    CHECK(back.regions[0].pieces == 2);
    const auto again = resolve_placements(back, network, degrees, framework);
    CHECK(std::get<DistinguishedNetwork>(again).placements == placed->placements);
  }
}

}  // namespace
}  // namespace plansearch::regions_test
