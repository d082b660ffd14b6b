// SPDX-License-Identifier: Apache-2.0
// Transforms in words as placements: selectors, factors, regions.
#include "plan/placements/transform.hpp"

#include <doctest/doctest.h>

#include "unit/communication/small_networks.hpp"

namespace plansearch::transform_test {
namespace {

/// norm, up, gelu, down, add over batch, sequence, hidden and ffn.
Network mlp() {
  Network network = test::mlp_block(64, 256, 1024);
  network.blocks[0].name = "mlp";
  network.blocks[0].kind = BlockKind::Layer;
  network.order = {{0, 4}};
  return network;
}

PlacementNames names(const std::vector<TransformEntry>& entries, const Network& network) {
  const auto made = placements_of(entries, network);
  if (const auto* fault = std::get_if<EntryFault>(&made)) FAIL(fault->message);
  return std::get<PlacementNames>(made);
}

std::string fault(const std::vector<TransformEntry>& entries, const Network& network) {
  const auto made = placements_of(entries, network);
  const auto* fault = std::get_if<EntryFault>(&made);
  return fault == nullptr ? "no fault" : fault->message + ": " + fault->hint;
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("unit") {
  TEST_CASE("dimensions of one operator are split over devices of their own") {
    const PlacementNames made =
        names({{.what = {.of = {"*"}}, .split = {{"sequence", 2}, {"ffn", 4}}}}, mlp());
    CHECK(made.factors == std::vector<int>{2, 4});
    // up, gelu and down have both; norm and add have tokens alone, which the block hands on.
    REQUIRE(made.operators.size() == 2);
    CHECK(made.operators[0].operators == std::vector<std::string>{"norm", "add"});
    CHECK(made.operators[0].cut == std::vector<NamedCut>{{"sequence", FactorList{0}}});
    CHECK(made.operators[1].operators == std::vector<std::string>{"up", "gelu", "down"});
    CHECK(made.operators[1].cut ==
          std::vector<NamedCut>{{"sequence", FactorList{0}}, {"ffn", FactorList{1}}});
    REQUIRE(made.edges.size() == 1);
    CHECK(made.edges[0].cut == std::vector<NamedCut>{{"sequence", FactorList{0}}});
  }

  TEST_CASE("dimensions that never meet are split over the same devices") {
    Network network = mlp();
    network.dimensions.push_back({"rows", DimRole::Pixel, 64});
    Block other;
    other.name = "other";
    const auto rows = static_cast<DimId>(network.dimensions.size() - 1);
    other.tensors = {{"in", {rows}}, {"out", {rows}}};
    Operator op;
    op.name = "copy";
    op.loop = {rows};
    op.inputs = {TensorId{0}};
    op.outputs = {TensorId{1}};
    other.operators = {op};
    network.blocks.push_back(other);
    const PlacementNames made =
        names({{.what = {.of = {"*"}}, .split = {{"sequence", 2}, {"rows", 2}}}}, network);
    CHECK(made.factors == std::vector<int>{2});
  }

  TEST_CASE("the value is split over the devices that leave a sum in parts, not over others") {
    // down contracts ffn: add may read its parts. Tokens are cut over other devices, as add has
    // them.
    const PlacementNames made = names(
        {{.what = {.of = {"*/norm"}}, .split = {{"sequence", 2}}},
         {.what = {.of = {"*/up", "*/gelu", "*/down"}}, .split = {{"sequence", 2}, {"ffn", 2}}},
         {.what = {.of = {"*/add"}}, .split = {{"sequence", 2}, {"value", 2}}}},
        mlp());
    CHECK(made.factors == std::vector<int>{2, 2});
    REQUIRE(made.operators.size() == 3);
    CHECK(made.operators[2].cut ==
          std::vector<NamedCut>{{"sequence", FactorList{0}}, {"value", FactorList{1}}});
    REQUIRE(made.edges.size() == 1);
    CHECK(made.edges[0].cut == std::vector<NamedCut>{{"sequence", FactorList{0}}});
    CHECK(says(fault({{.what = {.of = {"*"}}, .pieces = {{"value", 2}}}}, mlp()),
               "no dimension 'value'"));
  }

  TEST_CASE("a split of the value is a placement and comes back by its name") {
    const Network network = mlp();
    PlanDegrees degrees;
    degrees.tensor_out = 2;
    const Framework framework = test::plain_framework();
    PlacementNames asked{{2}, {}, {}, {}};
    asked.operators = {{{"down"}, {"mlp"}, {}, {{"ffn", FactorList{0}}}},
                       {{"add"}, {"mlp"}, {}, {{"value", FactorList{0}}}}};
    const auto resolve = [&] { return resolve_placements(asked, network, degrees, framework); };
    const auto made = resolve();
    if (const auto* bad = std::get_if<PlacementFault>(&made)) FAIL(bad->message);
    const auto& found = std::get<DistinguishedNetwork>(made);
    const PlacementNames back = names_of(found.placements, *found.network);
    REQUIRE(back.operators.size() == 2);
    CHECK(back.operators[1].cut == asked.operators[1].cut);
    // gelu of a sum is no sum of gelus; what layers hand on is whole; a factor cuts once.
    const auto refused = [&](const std::string& part) {
      const auto answer = resolve();
      const auto* bad = std::get_if<PlacementFault>(&answer);
      return bad != nullptr && says(bad->message + ": " + bad->hint, part);
    };
    asked.operators[1].operators = {"norm"};
    CHECK(refused("norm: its value is not split"));
    CHECK(refused("legal: no split (replicas), batch, sequence, hidden"));
    asked.operators[1].operators = {"add"};
    asked.edges = {{{}, {"mlp"}, {}, {{"value", FactorList{0}}}}};
    CHECK(refused("the edge of mlp is whole in its value"));
    asked.edges.clear();
    asked.operators[1].cut.push_back({"sequence", FactorList{0}});
    CHECK(refused("factor t0 is used twice"));
  }

  TEST_CASE("taps of a window are whole") {
    test::BlockBuilder b;
    const DimId y = b.dim("y", DimRole::Other, 16);
    const DimId v = b.dim("v", DimRole::Other, 8);
    const DimId p = b.dim("p", DimRole::Other, 4);
    const DimId c = b.dim("c", DimRole::Other, 8);
    const DimId d = b.dim("d", DimRole::Other, 8);
    const TensorId in = b.tensor("in", {y, c});
    const TensorId out = b.tensor("out", {v, d});
    b.op("conv", OperatorKind::Convolution, {v, p, c, d}, {in}, {b.parameter("w", {p, c, d})},
         {out});
    b.block.operators.front().reads = {{{{{v, 2}, {p, 1}}, -1, 1}, {{{c, 1}}, 0, 1}}};
    b.block.inputs = {in};
    b.block.outputs = {out};
    const Network network = b.finish();
    PlanDegrees degrees;
    degrees.tensor_out = 2;
    const auto answer = [&](const std::string& dimension) {
      const PlacementNames asked{{2}, {{{"conv"}, {}, {}, {{dimension, FactorList{0}}}}}, {}, {}};
      const auto made = resolve_placements(asked, network, degrees, test::plain_framework());
      const auto* bad = std::get_if<PlacementFault>(&made);
      return bad == nullptr ? std::string("fine") : bad->message + ": " + bad->hint;
    };
    CHECK(says(answer("p"),
               "conv: p counts the taps of a window, which are not cut: legal: v, c, d"));
    for (const char* dimension : {"v", "c", "d"}) CHECK(answer(dimension) == "fine");
  }

  TEST_CASE("pieces are regions") {
    const PlacementNames made =
        names({{.what = {.of = {"mlp/up", "mlp/gelu", "mlp/down"}, .layers = {{0, 3}}},
                .pieces = {{"ffn", 4}},
                .recompute = PieceRecompute::RunAgain}},
              mlp());
    CHECK(made.factors.empty());
    REQUIRE(made.regions.size() == 1);
    CHECK(made.regions[0].operators == std::vector<std::string>{"up", "gelu", "down"});
    CHECK(made.regions[0].layers == std::vector<LayerRange>{{0, 3}});
    CHECK(made.regions[0].pieces == 4);
    CHECK(made.regions[0].recompute == PieceRecompute::RunAgain);
  }

  TEST_CASE("what is wrong is named, with what is near") {
    const Network network = mlp();
    CHECK(says(fault({{.what = {.of = {"mlp/upp"}}, .split = {{"ffn", 2}}}}, network), "mlp/up"));
    CHECK(says(fault({{.what = {.of = {"*"}}, .split = {{"fn", 2}}}}, network), "ffn"));
    CHECK(says(fault({{.what = {.of = {"*"}}, .split = {{"ffn", 2}}},
                      {.what = {.of = {"*"}}, .split = {{"ffn", 4}}}},
                     network),
               "into 2 and into 4"));
    CHECK(says(fault({{.what = {.of = {"*"}}, .pieces = {{"ffn", 2}, {"sequence", 4}}}}, network),
               "as many"));
    CHECK(says(fault({{.what = {.of = {"mlp/norm"}}, .split = {{"ffn", 2}}}}, network),
               "no operator"));
  }
}

}  // namespace
}  // namespace plansearch::transform_test
