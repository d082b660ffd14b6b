// SPDX-License-Identifier: Apache-2.0
// The answer of a search in a space by its name.
#pragma once

#include <doctest/doctest.h>

#include <string_view>
#include <utility>
#include <variant>

#include "plansearch/search.hpp"

namespace plansearch::test {

/// The space holds plans.
inline SearchResult search_space(std::string_view space, const PlanEvaluator& evaluator,
                                 const SearchRequest& request = {},
                                 const SearchOptions& options = {}) {
  auto found = search(evaluator, space, request, options);
  REQUIRE(std::holds_alternative<SearchResult>(found));
  return std::get<SearchResult>(std::move(found));
}

}  // namespace plansearch::test
