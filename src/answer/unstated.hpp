// SPDX-License-Identifier: Apache-2.0
// A prediction whose question leaves switches out: an interval over all that it may mean.
#pragma once

#include "plansearch/evaluator.hpp"
#include "plansearch/report.hpp"
#include "plansearch/switch_priors.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch {

/// What laboratories ran (validation/switch_priors.yaml). InputError for anything wrong in the
/// file.
[[nodiscard]] SwitchPriors switch_priors(const ShippedData& data);

/// Makes p10 and p90 of the one plan of the report those of all plans that the question may mean,
/// and says in its evidence which switches are left out and which matters most. Nothing where all
/// are stated, or where the plan is spelled out stage by stage or operator by operator.
void widen_by_unstated(const ResolvedPlan& given, const PlanEvaluator& evaluator,
                       const SwitchPriors& priors, SearchReport& report);

}  // namespace plansearch
