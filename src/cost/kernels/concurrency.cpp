// SPDX-License-Identifier: Apache-2.0
// Computes: rates of kernels, messages and copies of one device while others run. Kernels have the
//           multiprocessors that messages leave them, over one plus what copies share of their
//           path. Messages and copies run at one over one plus what each copy shares of their path,
//           plus the largest such share among kernels and messages, which run at the same time
//           themselves and wait for the path together.
// Source: fit to kernels, all-gathers and host copies alone and together, published with Mist
//         (EuroSys '25, Dazz993/Mist mist/tools/results-final); tools/fit_concurrency.py. Mist
//         itself keeps 28 factors, one per activity and set (mist/tools/optimize.py).
// Assumes: rates are constant while the same activities run; what takes turns shares evenly.
// Units: shares of the speed alone.
// Checked by: tests/unit/cost/concurrency_test.cpp; validation/published_overlap.csv.
#include "cost/kernels/compute_cost.hpp"

#include <algorithm>

namespace plansearch {
namespace {

constexpr std::array<Activity, kActivityCount> kActivities{
    Activity::Compute, Activity::Local, Activity::Fabric, Activity::FromHost, Activity::ToHost};
/// Least rate of a kernel, however many multiprocessors messages take.
constexpr double kLeastLeft = 0.1;

bool is_copy(Activity activity) {
  return activity == Activity::FromHost || activity == Activity::ToHost;
}

double rate(const ConcurrencyCoefficients& shared, ActivityMask active, Activity activity) {
  double left = 1.0;
  double copies = 0.0;
  double beside = 0.0;
  for (const Activity other : kActivities) {
    if (other == activity || (active & bit(other)) == 0) continue;
    const double path = shared.path_share.of(activity, other);
    if (is_copy(other)) {
      copies += path;
      continue;
    }
    beside = std::max(beside, path);
    if (activity == Activity::Compute) {
      left -= shared.multiprocessor_share[static_cast<std::size_t>(other)];
    }
  }
  return std::max(left, kLeastLeft) / (1.0 + copies + beside);
}

}  // namespace

ConcurrencyRates concurrency_rates(const ConcurrencyCoefficients& shared) {
  ConcurrencyRates rates;
  for (unsigned active = 0; active < 1U << kActivityCount; ++active) {
    for (const Activity activity : kActivities) {
      rates.set(static_cast<ActivityMask>(active), activity,
                rate(shared, static_cast<ActivityMask>(active), activity));
    }
  }
  return rates;
}

}  // namespace plansearch
