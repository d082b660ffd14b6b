// SPDX-License-Identifier: Apache-2.0
// Switches that a question leaves out: the plans it may mean, and how far their steps lie apart.
#pragma once

#include <vector>

#include "evaluate/answer/interval.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/switch_priors.hpp"

namespace plansearch {

/// One of several steps: its median, the deviations of its logarithm below and above, and how
/// likely it is against the others.
struct MixturePart {
  double median = 1.0;
  double below = 0.0;
  double above = 0.0;
  double odds = 1.0;
};

/// Share of the runs of a part that take less than exp(`log_time`).
[[nodiscard]] double share_below(const MixturePart& part, double log_time);
/// The time that a share of all runs stays below; of one part its own quantile.
[[nodiscard]] double mixture_quantile(const std::vector<MixturePart>& parts, double share);

/// A plan that is meant, perhaps.
struct PossiblePlan {
  PlanDegrees plan;
  Estimate estimate;
  double odds = 1.0;  ///< against the others
};

/// Where priors come from, and for when.
struct SwitchEvidence {
  const SwitchPriors& priors;
  int year = 0;
};

/// The switches of `plan` that neither `said` nor a rule of the framework decides: the recompute
/// level, and sequences of a micro-batch under frameworks that accumulate.
[[nodiscard]] std::vector<Degree> open_switches(const PinnedDegrees& said,
                                                const Framework& framework);

/// `assumed` first, then the same with all other values of the open switches that are legal. Odds:
/// by switch, as many as leave it out and run what is assumed, and of the others the share of
/// laboratories with the value; times the probability that the plan has room, but for the assumed
/// one. Micro-batches are powers of two. Alone where no laboratory states the switches.
[[nodiscard]] std::vector<PossiblePlan> possible_plans(const PlanEvaluator& evaluator,
                                                       const PossiblePlan& assumed,
                                                       const std::vector<Degree>& open,
                                                       const SwitchEvidence& evidence,
                                                       EvaluationWorkspace& workspace);

/// p10 and p90 of the steps of all of them at factor 1, relative to the step of the first.
[[nodiscard]] RelativeInterval mixed_interval(const std::vector<PossiblePlan>& plans,
                                              const ErrorModel& errors, int devices);

/// A value of an open switch.
struct SwitchValue {
  int value = 0;
  double share = 0.0;  ///< of the plans that may be meant
  double ratio = 1.0;  ///< step with this value alone over that of the first plan
};

/// An open switch.
struct OpenSwitch {
  Degree degree = Degree::Recompute;
  int assumed = 0;
  std::vector<SwitchValue> values;  ///< those that may be meant, the assumed one first
  double stated = 1.0;              ///< p90 over p10 if it were as assumed and the others open
};

/// The open switches of these plans; the one that narrows the interval most when stated first.
[[nodiscard]] std::vector<OpenSwitch> open_switches_of(const std::vector<PossiblePlan>& plans,
                                                       const std::vector<Degree>& open,
                                                       const ErrorModel& errors, int devices);

}  // namespace plansearch
