// SPDX-License-Identifier: Apache-2.0
// Error bars of predictions.
#pragma once

#include <string>

#include "plansearch/evaluation.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// Standard deviations that a tenth of a normal distribution lies above.
inline constexpr double kNormalP90 = 1.2815515655446004;

/// Quantiles of the step time relative to its median.
struct RelativeInterval {
  double p10 = 1.0;
  double p90 = 1.0;
};

/// Where errors come from, as standard deviations of logarithms. Kernel and link errors weigh by
/// their share of the step; the framework's holds for the step as a whole.
struct ErrorModel {
  double framework = 0.0;
  double kernels = 0.0;    ///< residual of the accelerator's matmul curve
  double links = 0.0;      ///< residual of the collectives inside a node
  double network = 0.0;    ///< of the collectives between nodes
  double borrowed = 0.0;   ///< of kernels on the curve of another kind or architecture
  double experts = 0.0;    ///< further error of experts, weighed by their share of the FLOPs
  double straggler = 0.0;  ///< growth of ln(p90 / median) with every doubling of nodes
  double site = 0.0;       ///< of the factor of the site as a whole
  double scatter = 0.0;    ///< among runs of one site, as measured there; 0: not measured
  int accelerators_per_node = 1;
};

[[nodiscard]] ErrorModel error_model(const Problem& problem);

/// A measurement, and p90 over p10 of a step without and with it.
struct Narrowing {
  std::string what;  ///< "matrix products in fp8"
  std::string how;   ///< the command that takes it
  double before = 1.0;
  double after = 1.0;
};

/// The measurement that narrows the interval of this step most.
[[nodiscard]] Narrowing narrowing(const Problem& problem, const StepTimeBreakdown& step);

/// Independent errors add in quadrature; what only slows down (stragglers) is in p90 alone.
[[nodiscard]] RelativeInterval relative_interval(const ErrorModel& model,
                                                 const StepTimeBreakdown& step, int devices);

/// Standard deviation of ln(b / a), of two steps on one machine of which a value was changed: both
/// are wrong by the same errors, so that only what an error weighs more in one of them is left. No
/// site, no framework and no straggler counts.
[[nodiscard]] double what_if_sigma(const ErrorModel& model, const StepTimeBreakdown& a,
                                   const StepTimeBreakdown& b);

}  // namespace plansearch
