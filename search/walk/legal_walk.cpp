// SPDX-License-Identifier: Apache-2.0
// Computes: at which level of a space every condition of a legal plan can be asked.
// Source: plan/legality/legality.hpp, conditions with the degrees they read.
// Assumes: degrees that a condition does not read cannot change what it says.
// Units: none.
// Checked by: tests/unit/search/named_spaces_test.cpp (equal to the check of whole plans).
#include "search/walk/legal_walk.hpp"

#include <utility>

namespace plansearch {

LegalWalk::LegalWalk(const PlanEvaluator& evaluator, SearchSpace space)
    : walk_(std::move(space)), conditions_(walk_.depth() + 1) {
  const Problem& problem = evaluator.problem();
  for (LegalityCondition& condition :
       legality_conditions(*problem.network, *problem.framework, problem.gpus, problem.precision)) {
    conditions_[walk_.level_above(condition.reads)].push_back(std::move(condition.obstacle));
  }
}

}  // namespace plansearch
