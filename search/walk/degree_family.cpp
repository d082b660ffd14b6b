// SPDX-License-Identifier: Apache-2.0
// Computes: bounds and closed-form prices of families of plans; which plans stay in the race.
// Source: branch and bound with admissible bounds.
// Assumes: bound <= estimate and bound <= simulation (tests/unit/evaluate/bound_test.cpp); memory
//          does not fall when micro-batches grow and there still are several.
// Units: seconds and bytes.
// Checked by: tests/unit/search/search_test.cpp (pruned and exhaustive answers are equal).
#include "search/walk/degree_family.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Samples take turns among the smallest micro-batches.
constexpr std::size_t kSampledMicroBatches = 4;

}  // namespace

class FamilyPricer::Worker {
 public:
  Worker(const SearchTask& task, const LegalWalk& walk)
      : evaluator_(task.evaluator),
        walk_(walk),
        counter_(walk_.space()),
        level_(walk_.space().level_of(Degree::MicroBatch)),
        pruning_(task.options.pruning),
        keeps_priced_(static_cast<bool>(task.options.priced)),
        limits_(task.limits()),
        workspace_(PlanEvaluator::make_workspace()) {}

  [[nodiscard]] FamilyResult price(std::span<const DegreeFamily> families,
                                   const Thresholds& thresholds) {
    thresholds_ = &thresholds;
    result_ = {};
    for (const DegreeFamily& family : families) visit(family);
    return std::move(result_);
  }

 private:
  auto rejecter() {
    return [this](Obstacle obstacle, std::size_t level, const PlanDegrees& plan) {
      reject(obstacle, counter_.below(level, plan));
    };
  }

  void visit(const DegreeFamily& family) {
    too_large_.clear();
    batchings_.clear();
    const auto keep = [&](const PlanDegrees& plan) { batchings_.push_back(plan); };
    walk_.visit(level_, level_ + 1, family.plan, keep, rejecter());
    if (family.sampled && !batchings_.empty()) {
      const std::size_t few = std::min(kSampledMicroBatches, batchings_.size());
      visit_micro_batches(batchings_[*family.sampled % few]);
      return;
    }
    for (const PlanDegrees& plan : batchings_) visit_micro_batches(plan);
  }

  /// What tells the plans of one micro-batch apart.
  struct FamilyForm {
    int chunks;
    ScheduleId schedule;
    bool several;  ///< micro-batches: of one, nothing waits for the next
    bool operator==(const FamilyForm&) const = default;
  };
  static FamilyForm form_of(const PlanDegrees& plan) {
    return {plan.chunks, plan.schedule, plan.micro_batches > 1};
  }

  void reject(Obstacle obstacle, std::int64_t plans) {
    result_.counts.rejected[static_cast<std::size_t>(obstacle)] += plans;
  }

  void visit_micro_batches(const PlanDegrees& batching) {
    const PlanBound least = evaluator_.placed_bound(batching, *workspace_);
    if (is_pruned(least)) {
      result_.counts.pruned += counter_.below(level_ + 1, batching);
      ++result_.counts.subtrees;
      return;
    }
    std::shared_ptr<const ClassProfile> profile;
    const auto visit_plan = [&](const PlanDegrees& plan) {
      if (is_too_large(plan)) return reject(Obstacle::OutOfMemory, 1);
      try {
        visit_legal(plan, least.step_time, profile);
      } catch (const SimulationLimit&) {
        reject(Obstacle::BeyondSimulation, 1);
      }
    };
    walk_.visit(level_ + 1, walk_.space().depth(), batching, visit_plan, rejecter());
  }

  /// Memory needs neither kernels nor communication, and the bound of kernels no messages inside a
  /// pass: most plans of large models never get any. The profile that plans of one micro-batch
  /// share is made when the first of them is left.
  void visit_legal(const PlanDegrees& plan, Seconds least_time,
                   std::shared_ptr<const ClassProfile>& profile) {
    if (!profile) {
      const Bytes memory = evaluator_.memory_bound(plan, *workspace_);
      if (memory > limits_.tight) return refuse_for_memory(plan);
      if (is_pruned({least_time, memory}) ||
          is_pruned({evaluator_.kernel_bound(plan, *workspace_), memory})) {
        ++result_.counts.pruned;
        return;
      }
      profile = evaluator_.profile(plan);
      ++result_.counts.classes;
    }
    price_plan(*profile, plan);
  }

  /// A form that exceeds memory does so all the more with larger micro-batches.
  [[nodiscard]] bool is_too_large(const PlanDegrees& plan) const {
    return std::find(too_large_.begin(), too_large_.end(), form_of(plan)) != too_large_.end();
  }

  void price_plan(const ClassProfile& profile, const PlanDegrees& plan) {
    const PlanBound bound = evaluator_.bound(profile, plan, *workspace_);
    if (bound.memory > limits_.tight) return refuse_for_memory(plan);
    if (is_pruned(bound)) {
      ++result_.counts.pruned;
      return;
    }
    const Estimate estimate = evaluator_.estimate(profile, plan, *workspace_);
    // The bound does not cover every stage.
    const Bytes memory = estimate.memory.total();
    if (memory > limits_.tight) return refuse_for_memory(plan);
    if (!evaluator_.host_fits(estimate)) return reject(Obstacle::OutOfMemory, 1);
    if (keeps_priced_) {
      result_.priced.push_back({plan, evaluator_.simulate(profile, plan, *workspace_)});
    }
    ++result_.counts.evaluated;
    const MemoryFit fit = memory > limits_.fits ? MemoryFit::Tight : MemoryFit::Fits;
    result_.contenders.push_back({{plan, estimate}, bound.step_time, fit});
  }

  /// A bound beyond what fits is that of a tight plan, or of plans that all are.
  [[nodiscard]] bool is_pruned(const PlanBound& bound) const {
    if (pruning_ == Pruning::Off) return false;
    return bound.memory > limits_.fits ? thresholds_->exclude_tight(bound.step_time)
                                       : thresholds_->exclude(bound);
  }

  void refuse_for_memory(const PlanDegrees& plan) {
    reject(Obstacle::OutOfMemory, 1);
    too_large_.push_back(form_of(plan));
  }

  const PlanEvaluator& evaluator_;
  const LegalWalk& walk_;
  SpaceCounter counter_;
  std::size_t level_;
  Pruning pruning_;
  bool keeps_priced_;
  MemoryLimits limits_;
  EvaluationWorkspacePtr workspace_;
  const Thresholds* thresholds_ = nullptr;  ///< of the families at hand
  std::vector<PlanDegrees> batchings_;
  std::vector<FamilyForm> too_large_;  ///< of this family, with a smaller micro-batch
  FamilyResult result_;
};

FamilyPricer::FamilyPricer(const SearchTask& task, const LegalWalk& walk)
    : workers_([&task, &walk] { return std::make_unique<Worker>(task, walk); }) {}

FamilyPricer::~FamilyPricer() = default;

FamilyResult FamilyPricer::price(std::span<const DegreeFamily> families,
                                 const Thresholds& thresholds) {
  return workers_.with([&](auto& worker) { return worker->price(families, thresholds); });
}

}  // namespace plansearch
