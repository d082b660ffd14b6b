// SPDX-License-Identifier: Apache-2.0
// Beliefs about the step times of some plans on one machine, what trials teach about all of them, and
// which trial teaches most.
#pragma once

#include <cstddef>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/evaluation.hpp"

namespace plansearch {

/// A plan that may be tried, as it was priced.
struct TrialPlan {
  StepTimeBreakdown step;
  PlanDegrees degrees;
  double risk = 0.0;  ///< of running out of memory
};

/// Deviations of ln(measured / predicted) beside those of the parts of a step.
struct TrialErrors {
  double level = 0.0;       ///< that all plans share
  double of_degrees = 0.1;  ///< that plans share the more, the fewer degrees they differ in
  double own = 0.02;        ///< of a plan by itself
  double noise = 0.01;      ///< of a mean over a few steps
  double far_off = 3.0;     ///< deviations beyond which a result is far off
};

/// Deviation of the error of a part (step_part) that is the same in all plans of one machine.
[[nodiscard]] double part_deviation(std::size_t part);

/// Joint normal beliefs about ln(step time) of plans, and their risks of running out of memory. A plan that does not run
/// loses a whole step.
class TrialBeliefs {
 public:
  TrialBeliefs(const std::vector<TrialPlan>& plans, const TrialErrors& errors);

  /// A trial of the plan took so long: every other plan that depends on the same parts moves.
  void see(std::size_t plan, Seconds measured);
  /// A trial of the plan ran out of memory: plans that need about as much are riskier.
  void ran_out(std::size_t plan);
  /// A trial of the plan is under way: nothing moves, what it will teach is known.
  void await(std::size_t plan);

  [[nodiscard]] std::size_t size() const { return mean_.size(); }
  [[nodiscard]] Seconds expected(std::size_t plan) const;
  /// Deviation of ln(step time).
  [[nodiscard]] double deviation(std::size_t plan) const;
  /// The risk of running out of memory; 0 and 1 behind a trial.
  [[nodiscard]] double risk(std::size_t plan) const { return risk_[plan]; }
  /// The plan that is expected to cost least: its time, and its risk of not running.
  [[nodiscard]] std::size_t leader() const;
  /// The plan that is expected to be fastest, but for those that nearly surely run out of memory.
  [[nodiscard]] std::size_t fastest() const;
  /// Probability that no plan that runs is faster by more than `within`, a share of its step.
  [[nodiscard]] double is_best(std::size_t plan, double within) const;
  /// Expected share of the leader's step that is saved by a trial of the plan and going by its
  /// result, a failure included: the knowledge gradient.
  [[nodiscard]] double gain(std::size_t plan) const;

 private:
  [[nodiscard]] double& covariance(std::size_t a, std::size_t b) {
    return covariance_[a * mean_.size() + b];
  }
  [[nodiscard]] double covariance(std::size_t a, std::size_t b) const {
    return covariance_[a * mean_.size() + b];
  }
  void condition(std::size_t plan, double surprise, double variance);
  void remember(std::size_t plan, bool ran_out);
  [[nodiscard]] double cost(std::size_t plan) const { return mean_[plan] + risk_[plan]; }

  TrialErrors errors_;
  std::vector<double> mean_;
  std::vector<double> covariance_;
  std::vector<double> room_;    ///< of a plan in memory, in deviations of its error
  std::vector<double> shared_;  ///< weights of the errors of memory that all plans share
  std::vector<double> risk_;
};

/// Up to `count` plans for trials side by side, of those that are `open`: the fastest, then those that teach most beside
/// the others.
[[nodiscard]] std::vector<std::size_t> choose_trials(TrialBeliefs beliefs, std::vector<bool> open,
                                                     std::size_t count);

}  // namespace plansearch
