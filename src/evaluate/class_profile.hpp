// SPDX-License-Identifier: Apache-2.0
// What all plans of one equivalence class share, and the cache that hands it out.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "evaluate/block_profile.hpp"
#include "plansearch/evaluator.hpp"

namespace plansearch {

/// Bytes kept per local parameter element, before sharding is divided out.
struct StaticBytes {
  double parameter = 0.0;
  double gradient = 0.0;
  double optimizer = 0.0;
  double optimizer_traffic = 0.0;  ///< read and written by one optimizer step
};

struct ClassProfile {
  std::vector<BlockProfile> blocks;  ///< by index into Network::blocks
  /// Gradient reductions of parameters that several blocks use, due when a pipeline parts them.
  std::vector<PricedCommunication> shared;
};

/// Sharding of the static memory of one plan: cheap, computed per plan, not per class.
struct StaticPolicy {
  StaticBytes dense;
  StaticBytes expert;
};
[[nodiscard]] StaticPolicy static_policy(const TensorPolicies& policies, const DeviceMesh& mesh,
                                         double moments);

/// Everything the block profiles depend on; equal keys have equal profiles.
struct ClassKey {
  PlanDegrees plan;  ///< with the fields set to 1 that do not matter
  /// Where the ranks of an axis lie: size and stride, or a hash of them where there are gaps.
  std::array<std::uint64_t, kAxisCount> axes{};
  bool operator==(const ClassKey&) const = default;
};
[[nodiscard]] ClassKey class_key(const PlanDegrees& plan, const DeviceMesh& mesh,
                                 const Framework& framework, int accelerators_per_node);

struct ClassKeyHash {
  std::size_t operator()(const ClassKey& key) const noexcept;
};

/// Thread-safe; profiles are values, so who computes one does not matter.
class ClassCache {
 public:
  template <typename Make>
  std::shared_ptr<const ClassProfile> get(const ClassKey& key, Make make) const {
    const std::size_t shard = ClassKeyHash{}(key) % kShards;
    {
      const std::lock_guard lock(mutexes_[shard]);
      if (const auto found = maps_[shard].find(key); found != maps_[shard].end()) {
        return found->second;
      }
    }
    std::shared_ptr<const ClassProfile> made = make();
    const std::lock_guard lock(mutexes_[shard]);
    if (maps_[shard].size() >= kMostPerShard) maps_[shard].clear();
    return maps_[shard].emplace(key, std::move(made)).first->second;
  }

 private:
  static constexpr std::size_t kShards = 16;
  /// Bounds memory; a walk rarely comes back to classes that far behind.
  static constexpr std::size_t kMostPerShard = 4096;
  mutable std::array<std::mutex, kShards> mutexes_;
  mutable std::array<
      std::unordered_map<ClassKey, std::shared_ptr<const ClassProfile>, ClassKeyHash>, kShards>
      maps_;
};

}  // namespace plansearch
