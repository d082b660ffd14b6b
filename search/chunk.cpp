// SPDX-License-Identifier: Apache-2.0
// Computes: bounds and closed-form prices of a run of plans; which of them stay in the race.
// Source: branch and bound with admissible bounds; DESIGN of the search in ARCHITECTURE.md.
// Assumes: bound <= estimate and bound <= simulation (tests/unit/evaluate/bound_test.cpp); memory
//          does not fall when micro-batches grow.
// Units: seconds and bytes.
// Checked by: tests/unit/search/search_test.cpp (pruned and exhaustive answers are equal).
#include "search/chunk.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

namespace plansearch {
namespace {

class ChunkWorker {
 public:
  ChunkWorker(const PlanEvaluator& evaluator, const SpaceWalk& walk, const Thresholds& thresholds,
              Pruning pruning)
      : evaluator_(evaluator),
        walk_(walk),
        thresholds_(thresholds),
        pruning_(pruning),
        limit_(evaluator.memory_limit()),
        workspace_(PlanEvaluator::make_workspace()) {}

  void visit(const SpacePrefix& prefix) {
    leaves_.clear();
    walk_.append_leaves(prefix, leaves_);
    enter_family(prefix.plan);
    std::shared_ptr<const ClassProfile> profile;
    for (const PlanDegrees& plan : leaves_) {
      if (const auto obstacle = evaluator_.obstacle(plan)) {
        reject(*obstacle);
        continue;
      }
      if (pruning_ == Pruning::On && is_too_large(plan)) {
        reject(Obstacle::OutOfMemory);
        continue;
      }
      if (!profile) profile = evaluator_.profile(plan);
      if (price(*profile, plan) == Fit::TooLarge) too_large_.push_back(form_of(plan));
    }
  }

  [[nodiscard]] ChunkResult take() { return std::move(result_); }

 private:
  void reject(Obstacle obstacle) { ++result_.counts.rejected[static_cast<std::size_t>(obstacle)]; }

  enum class Fit { Fits, TooLarge };

  /// What tells the leaves of one prefix apart.
  struct Form {
    int chunks;
    ScheduleKind schedule;
    bool operator==(const Form&) const = default;
  };
  static Form form_of(const PlanDegrees& plan) { return {plan.chunks, plan.schedule}; }

  [[nodiscard]] bool is_too_large(const PlanDegrees& plan) const {
    return std::find(too_large_.begin(), too_large_.end(), form_of(plan)) != too_large_.end();
  }

  /// A leaf that exceeds memory does so all the more with larger micro-batches: forgets which ones
  /// do when the prefix differs in anything else.
  void enter_family(PlanDegrees family) {
    family.micro_batch = 1;
    family.micro_batches = 1;
    if (family_ == family) return;
    family_ = family;
    too_large_.clear();
  }

  Fit price(const ClassProfile& profile, const PlanDegrees& plan) {
    const PlanBound bound = evaluator_.bound(profile, plan, *workspace_);
    if (bound.memory > limit_) return refuse_for_memory(profile, plan);
    if (pruning_ == Pruning::On && thresholds_.exclude(bound)) {
      ++result_.counts.pruned;
      return Fit::Fits;
    }
    const Estimate estimate = evaluator_.estimate(profile, plan, *workspace_);
    // The bound does not look at every stage.
    if (estimate.memory.total() > limit_) return refuse_for_memory(profile, plan);
    ++result_.counts.evaluated;
    result_.contenders.push_back({{plan, estimate}, bound.step_time});
    return Fit::Fits;
  }

  Fit refuse_for_memory(const ClassProfile& profile, const PlanDegrees& plan) {
    reject(Obstacle::OutOfMemory);
    if (result_.contenders.empty()) note_miss(profile, plan);
    return Fit::TooLarge;
  }

  void note_miss(const ClassProfile& profile, const PlanDegrees& plan) {
    if (thresholds_.time) return;  // something fits: nobody will ask for misses
    merge_misses(result_.misses, {{plan, evaluator_.estimate(profile, plan, *workspace_), limit_}});
  }

  const PlanEvaluator& evaluator_;
  const SpaceWalk& walk_;
  const Thresholds& thresholds_;
  Pruning pruning_;
  Bytes limit_;
  EvaluationWorkspacePtr workspace_;
  std::vector<PlanDegrees> leaves_;
  std::optional<PlanDegrees> family_;
  std::vector<Form> too_large_;  ///< these exceed memory with a smaller micro-batch
  ChunkResult result_;
};

}  // namespace

bool Thresholds::exclude(const PlanBound& bound) const {
  if (!time || bound.step_time <= *time) return false;
  for (const PlanCandidate& member : front) {
    if (member.estimate.step.total() > bound.step_time) return false;
    if (member.estimate.memory.total() <= bound.memory) return true;
  }
  return false;
}

void merge_misses(std::vector<NearMiss>& into, const std::vector<NearMiss>& more) {
  into.insert(into.end(), more.begin(), more.end());
  std::sort(into.begin(), into.end(), [](const NearMiss& a, const NearMiss& b) {
    return std::tuple(a.estimate.memory.total(), a.plan) <
           std::tuple(b.estimate.memory.total(), b.plan);
  });
  if (into.size() > kNearMisses) into.resize(kNearMisses);
}

ChunkResult process_prefixes(const PlanEvaluator& evaluator, const SpaceWalk& walk,
                             std::span<const SpacePrefix> prefixes, const Thresholds& thresholds,
                             Pruning pruning) {
  ChunkWorker worker(evaluator, walk, thresholds, pruning);
  for (const SpacePrefix& prefix : prefixes) worker.visit(prefix);
  return worker.take();
}

}  // namespace plansearch
