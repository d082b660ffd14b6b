// SPDX-License-Identifier: Apache-2.0
// Parts that fits of products, of passes over memory and of links have in common.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/fit/curve_fit.hpp"
#include "measure/fit/fit_tables.hpp"
#include "measure/fit/kernel_fit.hpp"
#include "plansearch/cluster.hpp"

namespace plansearch {

/// Tenth and ninetieth percentile of a normal distribution in standard deviations.
inline constexpr double kTenth = 1.2816;
inline constexpr double kLeastScatter = 0.05;
/// Times so far from what is predicted are another accelerator's, or in other units.
inline constexpr double kOtherKernels = 2.0;
inline constexpr double kOtherLinks = 10.0;

/// Constants of a curve that rows move.
struct GroupProblem {
  std::string part;
  const KernelSample& sample;
  std::size_t parameters = 0;
  std::function<Cluster(std::span<const double>)> apply;  ///< the base with its constants moved
  double usual = 0.0;                                     ///< scatter of a row
  double between = 0.0;                                   ///< spread between machines
  double other = 0.0;  ///< the ratio of times from which they are another machine's
  Carried carried = Carried::Rates;
};

struct GroupFit {
  CurveFit curve;
  KernelGroupFit group;  ///< without its changes
};

/// Throws FitRefusal.
[[nodiscard]] GroupFit fit_group(const GroupProblem& problem);

/// Shares of what the data sheet promises end at all of it.
[[nodiscard]] double moved_share(double base, double log);
[[nodiscard]] double usual_scatter(const std::optional<Residual>& residual, const Cluster& base);
/// Rows that scatter widely widen the residual of their curve.
void widen(std::optional<Residual>& residual, double scatter, double usual);

/// Tables by collective and ranks for the innermost tier, with the error of sizes left out; false
/// where none has three sizes inside one node.
[[nodiscard]] bool keep_measured_times(const std::vector<KernelTable>& tables, KernelFit& fit);

}  // namespace plansearch
