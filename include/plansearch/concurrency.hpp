// SPDX-License-Identifier: Apache-2.0
// Slowdown of kernels, messages and copies of one device that run at the same time.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plansearch {

/// The resource that an instruction keeps busy while it runs.
enum class Activity : std::uint8_t {
  Compute,   ///< multiprocessors
  Local,     ///< messages over links inside the node
  Fabric,    ///< messages that leave the node
  FromHost,  ///< copies from host memory
  ToHost,
};
inline constexpr std::size_t kActivityCount = 5;
[[nodiscard]] std::string_view to_text(Activity activity);

/// A set of activities, one bit each.
using ActivityMask = std::uint8_t;
[[nodiscard]] constexpr ActivityMask bit(Activity activity) {
  return static_cast<ActivityMask>(1U << static_cast<unsigned>(activity));
}

/// How fast each activity runs, as a share of its speed alone, while a set of others runs too.
/// Instructions of one activity share what it has.
class ConcurrencyRates {
 public:
  /// Activities do not slow each other.
  ConcurrencyRates() {
    for (auto& rates : rate_) rates.fill(1.0);
  }
  [[nodiscard]] double rate(ActivityMask active, Activity activity) const {
    return rate_[active][static_cast<std::size_t>(activity)];
  }
  void set(ActivityMask active, Activity activity, double rate) {
    rate_[active][static_cast<std::size_t>(activity)] = rate;
  }
  bool operator==(const ConcurrencyRates&) const = default;

 private:
  std::array<std::array<double, kActivityCount>, 1U << kActivityCount> rate_{};
};

}  // namespace plansearch
