// SPDX-License-Identifier: Apache-2.0
// Why a plan cannot run: a value that is counted, ranked by nearness and printed, not an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plansearch {

enum class Obstacle : std::uint8_t {
  DegreesDoNotMultiply,  ///< dp pp cp tp is not the number of GPUs
  BatchNotDivisible,
  HeadsNotDivisible,
  KvHeadsNotDivisible,
  FfnNotDivisible,
  HiddenNotDivisible,
  VocabNotDivisible,
  SequenceNotDivisible,
  ExpertsNotDivisible,
  LayersNotDivisible,
  MoreStagesThanLayers,
  ScheduleNeedsMicroBatches,
  FrameworkForbids,  ///< a rule of the framework file
  NoSuchFeature,     ///< the framework cannot express it
  OutOfMemory,
  BeyondSimulation,  ///< a step of more time or pieces than the simulator counts
};
inline constexpr std::size_t kObstacleCount = 16;
[[nodiscard]] std::string_view to_text(Obstacle obstacle);

/// `needed` and `available` are in the unit the obstacle speaks of (bytes for OutOfMemory).
struct Infeasible {
  Obstacle obstacle = Obstacle::OutOfMemory;
  double needed = 0.0;
  double available = 0.0;
  std::string detail;  ///< one sentence for the user
  /// Values that would do, where they are few: of a degree, or of a choice.
  std::vector<int> legal_numbers{};
  std::vector<std::string> legal_words{};
  std::optional<int> stage{};  ///< the one it is about, where the stages of a plan differ
  bool operator==(const Infeasible&) const = default;
};

/// "legal: 1, 2, 5"; empty where no values are listed.
[[nodiscard]] std::string legal_values_text(const Infeasible& infeasible);
/// The sentence with the legal values behind it.
[[nodiscard]] std::string to_text(const Infeasible& infeasible);

}  // namespace plansearch
