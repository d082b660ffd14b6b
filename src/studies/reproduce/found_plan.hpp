// SPDX-License-Identifier: Apache-2.0
// The fastest plan of a named space.
#pragma once

#include <optional>
#include <string_view>

#include "plansearch/search.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {

/// Absent where none fits; what only may fit counts where nothing else does.
[[nodiscard]] inline std::optional<PlanCandidate> fastest_plan(const PlanEvaluator& evaluator,
                                                               std::string_view space,
                                                               const PinnedDegrees& pinned,
                                                               int threads) {
  const auto made = make_space(space, evaluator.problem(), pinned);
  const auto* plans = std::get_if<SearchSpace>(&made);
  if (plans == nullptr) return std::nullopt;
  SearchOptions options;
  options.top = 1;
  options.threads = threads;
  const SearchResult result = search(evaluator, *plans, options);
  check_stop();
  if (result.ranked.empty()) return std::nullopt;
  return result.ranked.front();
}

}  // namespace plansearch
