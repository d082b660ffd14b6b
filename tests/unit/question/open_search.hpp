// SPDX-License-Identifier: Apache-2.0
// A search for what a plan file leaves open.
#pragma once

#include <doctest/doctest.h>

#include <utility>
#include <variant>

#include "plansearch/search.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch::test {

inline SearchResult found(const OpenQuestion& open, Pruning pruning, int threads) {
  const PlanEvaluator evaluator(with_gpus(open.asked, *open.asked.gpus));
  SearchRequest request{open.asked.request.degrees, {}};
  request.placements = open.asked.placements;
  request.shared_blocks = open.asked.shared_blocks;
  SearchOptions options;
  options.pruning = pruning;
  options.threads = threads;
  auto result = search(evaluator, "framework", request, options);
  REQUIRE(std::holds_alternative<SearchResult>(result));
  return std::get<SearchResult>(std::move(result));
}

}  // namespace plansearch::test
