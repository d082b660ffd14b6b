// SPDX-License-Identifier: Apache-2.0
// Squares for all linear operators of a toy GPT (hidden 1024, 16 heads, 512 tokens), by hand.
#include "plan/placements/ring_placements.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "support/toy_problem.hpp"

namespace plansearch::square_placements_test {
namespace {

PlanDegrees degrees(int tensor, int micro_batch) {
  PlanDegrees plan;
  plan.tensor_out = tensor;
  plan.micro_batch = micro_batch;
  return plan;
}

std::string line(const PlacementNames& names, const std::string& op) {
  const auto entry =
      std::find_if(names.operators.begin(), names.operators.end(),
                   [&](const PlacementEntry& e) { return e.operators.front() == op; });
  if (entry == names.operators.end()) return "by role";
  std::string text = cut_text(entry->cut, names.factors);
  for (const NamedSquare& square : entry->squares) {
    text += "; " + square_text(square, names.factors);
  }
  return text;
}

TEST_SUITE("unit") {
  TEST_CASE("squares: products in steps, all else over rows and columns") {
    const Problem toy = test::toy_problem();
    const auto made = square_placements(*toy.network, degrees(8, 2), 2);
    REQUIRE(std::holds_alternative<PlacementNames>(made));
    const auto& names = std::get<PlacementNames>(made);
    CHECK(names.factors == std::vector<int>{2, 2, 2});
    CHECK(line(names, "mlp_in") ==
          "ffn over t2 (2); 2 steps over a square (t1 by t0) of batch, "
          "hidden, ffn");
    CHECK(line(names, "mlp_out") ==
          "ffn over t2 (2); 2 steps over a square (t1 by t0) of batch, "
          "ffn, hidden");
    CHECK(line(names, "projection") ==
          "heads over t2 (2); 2 steps over a square (t1 by t0) of "
          "batch, heads, hidden");
    CHECK(line(names, "attention") == "batch over t1 (2), heads over t2 t0 (4)");
    CHECK(line(names, "norm1") == "batch over t1 (2), hidden over t0 (2)");
    CHECK(line(names, "logits") == "by role");
    REQUIRE_FALSE(names.edges.empty());
    for (const PlacementEntry& edge : names.edges) {
      CHECK(cut_text(edge.cut, names.factors) == "batch over t1 (2), hidden over t0 (2)");
    }
  }

  TEST_CASE("squares: tokens where a micro-batch is too small, heads instead for attention") {
    const Problem toy = test::toy_problem();
    const auto made = square_placements(*toy.network, degrees(4, 1), 2);
    REQUIRE(std::holds_alternative<PlacementNames>(made));
    const auto& names = std::get<PlacementNames>(made);
    CHECK(names.factors == std::vector<int>{2, 2});
    CHECK(line(names, "mlp_in") ==
          "whole; 2 steps over a square (t1 by t0) of sequence, hidden, ffn");
    CHECK(line(names, "attention") == "heads over t1 t0 (4)");
    CHECK(line(names, "norm1") == "sequence over t1 (2), hidden over t0 (2)");
  }

  TEST_CASE("squares: a tensor group they do not fit in") {
    const Problem toy = test::toy_problem();
    const auto made = square_placements(*toy.network, degrees(8, 1), 4);
    REQUIRE(std::holds_alternative<PlacementFault>(made));
    CHECK(std::get<PlacementFault>(made).hint == "--tp 16, or a multiple of it");
  }
}

}  // namespace
}  // namespace plansearch::square_placements_test
