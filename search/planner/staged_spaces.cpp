// SPDX-License-Identifier: Apache-2.0
// Computes: the search behind the name of a staged space.
// Source: one row a space; spaces/named_spaces.cpp describes them.
// Assumes: nothing. Units: none.
// Checked by: tests/unit/search/staged_spaces_test.cpp
#include "search/planner/staged_spaces.hpp"

#include <algorithm>
#include <array>

#include "plansearch/error.hpp"
#include "search/planner/end_layers.hpp"
#include "search/planner/full_search.hpp"
#include "search/planner/operator_search.hpp"
#include "search/planner/temporal_search.hpp"

namespace plansearch {
namespace {

UnevenResult search_all_uneven(const PlanEvaluator& evaluator, const StageRequest& request,
                               const SearchOptions& options) {
  return search_uneven(evaluator, request, options);
}

/// What a space does to the operators of a tensor group.
enum class Cuts { ByRole, OneByOne, InSteps };

struct StagedSpace {
  std::string_view name;
  StagedSearch search;
  Cuts cuts;
};

constexpr std::array kStagedSpaces{
    StagedSpace{"layers", search_end_layers, Cuts::ByRole},
    StagedSpace{"operators", search_operators, Cuts::OneByOne},
    StagedSpace{"primepar", search_primepar, Cuts::InSteps},
    StagedSpace{"temporal", search_temporal, Cuts::InSteps},
    StagedSpace{"full", search_full, Cuts::InSteps},
    StagedSpace{"uneven", search_all_uneven, Cuts::ByRole},
};

const StagedSpace* find(std::string_view name) {
  const auto* row = std::find_if(kStagedSpaces.begin(), kStagedSpaces.end(),
                                 [&](const StagedSpace& space) { return space.name == name; });
  return row == kStagedSpaces.end() ? nullptr : row;
}

}  // namespace

StagedSearch staged_search(std::string_view space) {
  const StagedSpace* row = find(space);
  PLANSEARCH_CHECK(row != nullptr);
  return row->search;
}

bool cuts_one_by_one(std::string_view space, const Framework& framework) {
  const StagedSpace* row = find(space);
  if (row == nullptr) return false;
  return row->cuts == Cuts::OneByOne ||
         (row->cuts == Cuts::InSteps && framework.operator_steps == OperatorSteps::Squares);
}

}  // namespace plansearch
