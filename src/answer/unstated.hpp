// SPDX-License-Identifier: Apache-2.0
// A prediction whose question leaves switches out: an interval over all that it may mean.
#pragma once

#include "plansearch/evaluator.hpp"
#include "plansearch/report.hpp"
#include "plansearch/switch_priors.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch {

/// The switches that laboratories ran with (validation/switch_priors.yaml). InputError for anything
/// wrong in the file.
[[nodiscard]] SwitchPriors switch_priors(const ShippedData& data);

/// The prediction of the one plan, with p10 and p90 of all plans that the question may mean. Its
/// evidence says which switches are left out and which matters most. As make_prediction where all
/// are stated, or where the plan is listed stage by stage, or operator by operator.
[[nodiscard]] SearchReport predict_as_asked(const ResolvedPlan& given,
                                            const PlanEvaluator& evaluator,
                                            const SwitchPriors& priors);
[[nodiscard]] SearchReport predict_as_asked(const ResolvedPlan& given, const SwitchPriors& priors);

}  // namespace plansearch
