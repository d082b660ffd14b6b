// SPDX-License-Identifier: Apache-2.0
// Coefficients of the resources that kernels, messages and copies of one accelerator share. The
// equation is in src/cost/kernels/concurrency.cpp.
#pragma once

#include <array>

#include "plansearch/concurrency.hpp"

namespace plansearch {

/// Keys of files, by activity.
inline constexpr std::array<std::string_view, kActivityCount> kActivityKeys{
    "compute", "local", "fabric", "from_host", "to_host"};
[[nodiscard]] constexpr std::string_view key_of(Activity activity) {
  return kActivityKeys[static_cast<std::size_t>(activity)];
}

struct ActivityPair {
  Activity one;
  Activity other;
};
/// Pairs of activities that can share a path. Kernels and messages share multiprocessors instead.
inline constexpr std::array<ActivityPair, 8> kPathPairs{{
    {Activity::Compute, Activity::FromHost},
    {Activity::Compute, Activity::ToHost},
    {Activity::Local, Activity::Fabric},
    {Activity::Local, Activity::FromHost},
    {Activity::Local, Activity::ToHost},
    {Activity::Fabric, Activity::FromHost},
    {Activity::Fabric, Activity::ToHost},
    {Activity::FromHost, Activity::ToHost},
}};

/// One value per pair of activities, whichever comes first.
class ActivityPairs {
 public:
  [[nodiscard]] double of(Activity one, Activity other) const { return value_[at(one, other)]; }
  void set(Activity one, Activity other, double value) {
    value_[at(one, other)] = value;
    value_[at(other, one)] = value;
  }
  bool operator==(const ActivityPairs&) const = default;

 private:
  static std::size_t at(Activity row, Activity column) {
    return static_cast<std::size_t>(row) * kActivityCount + static_cast<std::size_t>(column);
  }
  std::array<double, kActivityCount * kActivityCount> value_{};
};

struct ConcurrencyCoefficients {
  /// Local, Fabric: share of the multiprocessors that messages keep from kernels meanwhile.
  std::array<double, kActivityCount> multiprocessor_share{};
  /// 0: each has a path of its own; 1: they take turns.
  ActivityPairs path_share;
  bool operator==(const ConcurrencyCoefficients&) const = default;
};

}  // namespace plansearch
