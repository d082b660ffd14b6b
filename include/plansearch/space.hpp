// SPDX-License-Identifier: Apache-2.0
// The plans a search looks at, as an object with named dimensions that can be counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plansearch/degrees.hpp"

namespace plansearch {

/// Values each degree of freedom may take. data x pipeline x context x tensor is the number of
/// GPUs; everything else is free within the lists.
struct SearchSpace {
  std::string name;
  int gpus = 1;
  std::int64_t global_batch = 1;
  std::vector<int> data;  ///< empty: whatever the other degrees leave
  std::vector<int> pipeline;
  std::vector<int> tensor;
  std::vector<int> context;
  std::vector<int> expert;         ///< those that divide data x context x tensor are used
  std::vector<int> expert_tensor;  ///< expert_tensor x expert must divide data x context x tensor
  std::vector<int> micro_batch;    ///< those that divide batch / data are used
  std::vector<int> chunks;         ///< vpp; above 1 only where pipeline > 1
  std::vector<ContextKind> context_kind;            ///< one of them where context is 1
  std::vector<SequenceParallel> sequence_parallel;  ///< Off where tensor is 1
  std::vector<ZeroStage> zero;                      ///< None where data x context is 1
  std::vector<Recompute> recompute;
  std::vector<ScheduleKind> schedule;  ///< Interleaved with chunks > 1, the others with 1
  std::vector<std::string> left_out;  ///< what is not in it although one might look for it, and why
};

/// A partial assignment: every field but `chunks` and `schedule`. All leaves below it share the
/// block profiles of one equivalence class.
struct SpacePrefix {
  PlanDegrees plan;
};

/// Walks the space in a fixed order, one (pipeline, tensor, context) triple at a time.
class SpaceWalk {
 public:
  explicit SpaceWalk(SearchSpace space);

  [[nodiscard]] const SearchSpace& space() const { return space_; }

  /// The (pipeline, tensor, context) triples whose product divides the GPUs, in order.
  [[nodiscard]] const std::vector<PlanDegrees>& triples() const { return triples_; }

  /// Prefixes below a triple, in order, appended to `out`. Those that differ in the micro-batch
  /// only follow each other, the smallest first.
  void append_prefixes(const PlanDegrees& triple, std::vector<SpacePrefix>& out) const;

  /// Plans below a prefix, in order, appended to `out`.
  void append_leaves(const SpacePrefix& prefix, std::vector<PlanDegrees>& out) const;

  /// Plans below a prefix or triple, by formula (without walking them).
  [[nodiscard]] std::int64_t leaves_below(const SpacePrefix& prefix) const;
  [[nodiscard]] std::int64_t leaves_below(const PlanDegrees& triple) const;

  /// The number of plans in the space.
  [[nodiscard]] std::int64_t size() const;

 private:
  SearchSpace space_;
  std::vector<PlanDegrees> triples_;
};

}  // namespace plansearch
