// SPDX-License-Identifier: Apache-2.0
// Computes: bounds and closed-form prices of families of plans; which plans stay in the race.
// Source: branch and bound with admissible bounds.
// Assumes: bound <= estimate and bound <= simulation (tests/unit/evaluate/bound_test.cpp); memory
//          does not fall when micro-batches grow and there still are several.
// Units: seconds and bytes.
// Checked by: tests/unit/search/search_test.cpp (pruned and exhaustive answers are equal).
#include "search/walk/degree_family.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "evaluate/step/bound_ladder.hpp"
#include "plan/primitives/offload.hpp"
#include "plan/stages/pipeline_shape.hpp"
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
        dispatchers_(walk_.space().space().dimension(Degree::Dispatcher).values),
        several_dispatchers_(dispatchers_.size() > 1),
        pruning_(task.options.pruning),
        only_fitting_(task.options.only_fitting()),
        keeps_priced_(static_cast<bool>(task.options.priced)),
        recomputing_(task.options.recomputing &&
                     task.evaluator.problem().framework->partial_recompute !=
                         PartialRecompute::None),
        limits_(task.limits()),
        workspace_(PlanEvaluator::make_workspace()),
        ladder_(evaluator_, *workspace_) {
    const Problem& problem = evaluator_.problem();
    PinnedDegrees keeping;
    keeping.pin(Degree::Recompute, static_cast<int>(Recompute::None));
    keeps_all_ = !rule_broken_by(keeping, *problem.network, *problem.framework, problem.precision);
    for (const int order : walk_.space().space().dimension(Degree::Schedule).values) {
      const auto id = static_cast<ScheduleId>(order);
      if (joins_passes(*problem.framework, *problem.network, id)) joining_.push_back(id);
    }
  }

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
      if (!only_fitting_) reject(obstacle, counter_.below(level, plan));
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

  /// Differences between plans of one micro-batch.
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

  /// Shared by plans of one micro-batch whose orders join passes, or do not.
  struct Shared {
    Seconds least;
    std::optional<Seconds> fewer;  ///< the same of those that run fewer layers again; once known
    bool pruned = false;
    std::shared_ptr<const ClassProfile> profile;
  };

  [[nodiscard]] bool joins(const PlanDegrees& plan) const {
    return std::find(joining_.begin(), joining_.end(), plan.schedule) != joining_.end();
  }

  /// Whether its passes hide exchanges of tokens in each other.
  [[nodiscard]] bool pairs(const PlanDegrees& plan) const { return joins(plan) && plan.expert > 1; }

  /// The bound under the best dispatcher of the space, up to the first rung that prunes.
  [[nodiscard]] PlanBound least_of(PlanDegrees plan, ScheduleId schedule) {
    std::optional<PlanBound> least;
    plan.schedule = schedule;
    for (const int dispatcher : dispatchers_) {
      plan.dispatcher = static_cast<DispatcherId>(dispatcher);
      PlanBound bound;
      ladder_.climb(kMicroBatchRungs, plan, bound,
                    [&](const PlanBound& b) { return is_pruned(plan, b); });
      if (!least || bound.step_time < least->step_time) least = bound;
    }
    return *least;
  }

  [[nodiscard]] Shared shared_of(const PlanDegrees& batching, ScheduleId schedule) {
    const PlanBound least = least_of(batching, schedule);
    Shared shared{least.step_time, {}, false, {}};
    shared.pruned = is_pruned(batching, least, fewer_of(batching, shared, schedule));
    return shared;
  }

  /// Least time of plans like it that run fewer layers again; of others, that of all.
  Seconds fewer_of(const PlanDegrees& plan, Shared& shared, ScheduleId schedule) {
    if (!runs_all_again(plan)) return shared.least;
    if (!shared.fewer) shared.fewer = least_of(keeping_all(plan), schedule).step_time;
    return *shared.fewer;
  }
  Seconds fewer_of(const PlanDegrees& plan, Shared& shared) {
    return fewer_of(plan, shared, pairs(plan) ? plan.schedule : kDefaultSchedule);
  }
  /// For bounds of plans that run some layers again: their copies to the host are fewer.
  static PlanDegrees keeping_all(PlanDegrees plan) {
    plan.recompute = Recompute::None;
    plan.on_host &= static_cast<HostBits>(~kKeptByLayers);
    return plan;
  }

  /// The verdict of degrees alone: no rung above lowers a bound.
  [[nodiscard]] bool is_pruned_by_degrees(const PlanDegrees& batching) {
    const PlanBound bound = ladder_.bound(Rung::Degrees, batching);
    if (!is_pruned(batching, bound)) return false;
    const PlanBound fewer = ladder_.bound(Rung::Degrees, keeping_all(batching));
    return is_pruned(batching, bound, fewer.step_time);
  }

  void prune_micro_batches(const PlanDegrees& batching) {
    if (only_fitting_) return;
    result_.counts.pruned += counter_.below(level_ + 1, batching);
    ++result_.counts.subtrees;
  }

  /// Orders that join passes hide exchanges of tokens, and have a bound of their own.
  void visit_micro_batches(const PlanDegrees& batching) {
    std::array<Shared, 2> shared;
    best_ = {};
    if (prunes() && is_pruned_by_degrees(batching)) return prune_micro_batches(batching);
    if (prunes() && !only_fitting_) {  // else memory comes first: few have room
      shared[0] = shared_of(batching, kDefaultSchedule);
      const bool other = !joining_.empty() && batching.expert > 1;
      shared[1] = other ? shared_of(batching, joining_.front()) : shared[0];
      if (shared[0].pruned && shared[1].pruned) return prune_micro_batches(batching);
    }
    const auto visit_plan = [&](const PlanDegrees& plan) {
      Shared& own = shared[joins(plan) ? 1 : 0];
      if (own.pruned) {
        ++result_.counts.pruned;
        return;
      }
      if (is_too_large(plan)) return reject(Obstacle::OutOfMemory, 1);
      try {
        plan.modules == kFewestModules ? visit_modules(plan, own) : visit_legal(plan, own);
      } catch (const SimulationLimit&) {
        reject(Obstacle::BeyondSimulation, 1);
      }
    };
    walk_.visit(level_ + 1, walk_.space().depth(), batching, visit_plan, rejecter());
  }

  [[nodiscard]] PlanDegrees with_dispatcher(PlanDegrees plan) {
    if (plan.dispatcher != kAnyDispatcher) return plan;
    std::optional<DispatcherId>& best = best_.at(joins(plan) ? 1 : 0);
    if (!best) best = ladder_.with_best_dispatcher(plan).dispatcher;
    plan.dispatcher = *best;
    return plan;
  }

  /// Most plans of large models end on a rung that needs no messages inside a pass. The profile
  /// that plans of one micro-batch share is made when the first of them is left.
  void visit_legal(const PlanDegrees& open, Shared& shared) {
    const PlanDegrees plan = with_dispatcher(open);
    if (!shared.profile || several_dispatchers_) {
      PlanBound bound{shared.least, Bytes(0)};
      const auto excludes = [&](const PlanBound& b) {
        return b.memory > limits_.tight() ||
               (prunes() && is_pruned(plan, b, fewer_of(plan, shared)));
      };
      if (ladder_.climb(prunes() ? kPlanRungs : kMemoryRungs, plan, bound, excludes)) {
        if (bound.memory > limits_.tight()) return refuse_for_memory(plan);
        ++result_.counts.pruned;
        return;
      }
      shared.profile = evaluator_.profile(plan);
      ++result_.counts.classes;
    }
    const Seconds fewer = fewer_of(plan, shared);
    if (!price_plan(*shared.profile, plan, limits_.tight(plan), fewer)) refuse_for_memory(plan);
  }

  /// No modules where the plan fits without and the framework keeps all; else the cheapest with
  /// which it does, or may. A plan that may fit without is priced with and without, and counts once.
  void visit_modules(const PlanDegrees& open, Shared& shared) {
    PlanDegrees plan = open;
    plan.recompute = Recompute::None;
    plan.modules = 0;
    plan = with_dispatcher(plan);
    PlanBound kept;
    ladder_.climb({Rung::EndStages, Rung::Peak}, plan, kept,
                  [&](const PlanBound& b) { return b.memory > limits_.tight(); });
    const Bytes keeping = kept.memory;
    const bool fits = keeps_all_ && limits_.fits(plan, keeping);
    const Bytes least = fits ? keeping : memory_with_modules(plan);
    if (least > limits_.tight()) return refuse_for_memory(open);
    PlanBound bound{shared.least, least};
    const auto excludes = [&](const PlanBound& b) { return is_pruned(plan, b); };
    if (prunes() && (excludes(bound) || ladder_.climb({Rung::Passes}, plan, bound, excludes))) {
      ++result_.counts.pruned;
      return;
    }
    if (keeps_all_ && keeping <= limits_.tight()) {
      ++result_.counts.classes;
      const SearchCounts counts = result_.counts;
      const bool priced = price_plan(*evaluator_.profile(plan), plan, limits_.tight(plan));
      if (priced && fits) return;
      result_.counts = counts;
    }
    plan.recompute = open.recompute;
    visit_sets(open, plan, least);
  }

  /// Least memory of the first and the last stage under any set of modules.
  [[nodiscard]] Bytes memory_with_modules(PlanDegrees plan) {
    plan.modules = kFewestModules;
    return ladder_.bound(Rung::EndStages, plan).memory;
  }

  /// Sets of modules with which the plan fits, the cheapest first; then those with which it may.
  void visit_sets(const PlanDegrees& open, PlanDegrees plan, Bytes least) {
    const Bytes fits = limits_.fits(plan);
    for (const Bytes limit : {fits, limits_.tight(plan)}) {
      auto fit = ladder_.modules_within(plan, limit);
      for (; fit; fit = ladder_.modules_within(plan, limit, fit->place + 1)) {
        plan.modules = fit->modules;
        PlanBound bound{Seconds(0), limit > fits ? limit : least};
        if (prunes() && ladder_.climb({Rung::Passes, Rung::Peak}, plan, bound,
                                      [&](const PlanBound& b) { return is_pruned(plan, b); })) {
          ++result_.counts.pruned;
          return;
        }
        ++result_.counts.classes;
        if (price_plan(*evaluator_.profile(plan), plan, limit)) return;
      }
    }
    refuse_for_memory(open);
  }

  /// A form that exceeds memory does so all the more with larger micro-batches.
  [[nodiscard]] bool is_too_large(const PlanDegrees& plan) const {
    return std::find(too_large_.begin(), too_large_.end(), form_of(plan)) != too_large_.end();
  }

  /// False where the plan needs more memory than that. `fewer`: of those that run all layers again,
  /// a bound of their like that run fewer.
  [[nodiscard]] bool price_plan(const ClassProfile& profile, const PlanDegrees& plan, Bytes limit,
                                Seconds fewer = {}) {
    const PlanBound bound = ladder_.bound(profile, plan);
    if (bound.memory > limit) return false;
    if (is_pruned(plan, bound, fewer)) {
      ++result_.counts.pruned;
      return true;
    }
    const Estimate estimate = evaluator_.estimate(profile, plan, *workspace_);
    // The bound does not cover every stage.
    const Bytes memory = estimate.memory.total();
    if (memory > limit) return false;
    if (!evaluator_.host_fits(estimate)) {
      reject(Obstacle::OutOfMemory, 1);
      return true;
    }
    if (keeps_priced_) {
      result_.priced.push_back({plan, evaluator_.simulate(profile, plan, *workspace_)});
    }
    ++result_.counts.evaluated;
    const MemoryFit fit = limits_.fits(plan, memory) ? MemoryFit::Fits : MemoryFit::Tight;
    result_.contenders.push_back(
        {{plan, estimate},
         bound.step_time,
         fit,
         may_recompute_less(plan, bound, fewer) ? std::optional(fewer) : std::nullopt});
    return true;
  }

  [[nodiscard]] bool runs_all_again(const PlanDegrees& plan) const {
    return recomputing_ && plan.recompute == Recompute::Full && plan.recompute_layers == 0;
  }
  /// Whether the plan runs all layers again, and one that runs fewer may rank.
  [[nodiscard]] bool may_recompute_less(const PlanDegrees& plan, const PlanBound& bound,
                                        Seconds fewer) const {
    return runs_all_again(plan) && limits_.fits(plan, bound.memory) &&
           !thresholds_->exclude_recomputing(bound, fewer);
  }
  [[nodiscard]] bool is_pruned(const PlanDegrees& plan, const PlanBound& bound,
                               Seconds fewer) const {
    return is_pruned(plan, bound) && !may_recompute_less(plan, bound, fewer);
  }

  /// Whether a time can exclude anything: none does before a plan is ranked.
  [[nodiscard]] bool prunes() const {
    return pruning_ == Pruning::On && (thresholds_->time || thresholds_->best);
  }

  /// A bound beyond what fits is that of a tight plan, or of plans that all are.
  [[nodiscard]] bool is_pruned(const PlanDegrees& plan, const PlanBound& bound) const {
    if (!prunes()) return false;
    return !limits_.fits(plan, bound.memory) ? thresholds_->exclude_tight(bound.step_time)
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
  std::vector<int> dispatchers_;
  bool several_dispatchers_;
  std::vector<ScheduleId> joining_;  ///< orders that join passes
  Pruning pruning_;
  bool only_fitting_;  ///< whether nothing is counted
  bool keeps_priced_;
  bool recomputing_;       ///< whether plans that run all layers again are looked for
  bool keeps_all_ = true;  ///< whether the framework runs plans that recompute nothing
  MemoryLimits limits_;
  EvaluationWorkspacePtr workspace_;
  BoundLadder ladder_;
  const Thresholds* thresholds_ = nullptr;  ///< of the families at hand
  std::vector<PlanDegrees> batchings_;
  /// The best dispatcher of this micro-batch, once known: of orders that join no passes, that do.
  std::array<std::optional<DispatcherId>, 2> best_;
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
