// SPDX-License-Identifier: Apache-2.0
// Computes: plans under shipped constraints (constraints/*.yaml) that beat plan 1, near it.
// Source: coshard and interlaced pipelines of nnScaler (OSDI 2024), tiles of Arctic Long Sequence
//         Training: data files, which any number of others may join.
// Assumes: operators in pieces take at least as long as whole ones, so that they help plans alone that
//          have no room for whole ones; of these the ones that lack least come first. Blocks on the
//          devices of all stages take at least as long as a tensor group of these.
// Units: seconds; work as in stop_token.hpp.
// Checked by: tests/unit/question/beyond_framework_test.cpp
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "answer/beyond_plans.hpp"
#include "answer/make_report.hpp"
#include "base/checked.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"
#include "question/resolve_plan.hpp"
#include "search/strategies/strategy.hpp"

namespace plansearch {
namespace {

/// Plans that have the devices of the first one and trade them between data, stages and tensor
/// group, with its recomputation and without; that one too.
std::vector<PlanDegrees> trades(const PlanDegrees& first, const BeyondGoal& goal) {
  std::vector<PlanDegrees> plans;
  const Problem& problem = goal.evaluator.problem();
  if (first.tensor() != first.tensor_out || first.expert_ranks() > 1) return plans;
  const int ranks = first.data * first.pipeline * first.tensor_out;
  const auto add = [&](const PlanDegrees& plan) {
    if (contains(plans, plan) || !keeps(goal.wider.request, plan)) return;
    if (!goal.evaluator.obstacle(plan)) plans.push_back(plan);
  };
  for (const int pipeline : divisors(ranks)) {
    for (const int tensor : divisors(ranks / pipeline)) {
      PlanDegrees plan = first;
      plan.pipeline = pipeline;
      plan.tensor_out = tensor;
      plan.data = ranks / pipeline / tensor;
      if (tensor == 1) plan.sequence_parallel = SequenceParallel::Off;
      if (pipeline == 1 || first.pipeline == 1) {
        plan.chunks = 1;
        plan.schedule = kDefaultSchedule;
      }
      plan.zero = plan.data > 1 ? std::max(first.zero, ZeroStage::Optimizer) : first.zero;
      for (const int size : {first.micro_batch, 1}) {
        if (problem.global_batch % (std::int64_t{1} * plan.data * size) != 0) continue;
        plan.micro_batch = size;
        plan.micro_batches = static_cast<int>(problem.global_batch / plan.data / size);
        for (const Recompute recompute : {first.recompute, Recompute::None}) {
          plan.recompute = recompute;
          plan.recompute_layers = recompute == first.recompute ? first.recompute_layers : 0;
          add(plan);
        }
      }
    }
  }
  return plans;
}

/// The best plan under one constraint, of those that are tried.
class UnderConstraint {
 public:
  UnderConstraint(const BeyondGoal& goal, std::string name, std::vector<OpenQuestion> variants)
      : goal_(goal), name_(std::move(name)), variants_(std::move(variants)) {
    evaluators_.resize(variants_.size());
  }

  /// Tries it on the plans that it may help.
  void look(const std::vector<PlanDegrees>& plans) {
    if (shares_devices()) return share_devices(plans);
    std::vector<std::pair<Bytes, PlanDegrees>> near;
    for (const PlanDegrees& plan : plans) {
      if (const auto memory = lacking_room(plan)) near.emplace_back(*memory, plan);
    }
    std::ranges::stable_sort(near, {}, &std::pair<Bytes, PlanDegrees>::first);
    for (const auto& [memory, plan] : near) look_at(plan);
  }

  [[nodiscard]] std::optional<BeyondReport> best() const {
    if (!best_) return std::nullopt;
    const OpenQuestion& open = variants_[best_->variant];
    const std::string name =
        variants_.size() > 1 ? fmt::format("{}#{}", name_, best_->variant + 1) : name_;
    const std::string words = open.words.empty() ? "" : fmt::format(" ({})", open.words);
    const PlanEvaluator& evaluator = *evaluators_[best_->variant];
    return told(goal_, open.asked.request, evaluator, best_->degrees, best_->candidate,
                name_ + words, runners_of(evaluator.problem(), best_->candidate, &goal_.own),
                fmt::format(" --constraints {}", name));
  }

 private:
  struct Found {
    std::size_t variant;
    PlanDegrees degrees;
    PlanCandidate candidate;
  };

  [[nodiscard]] Seconds enough() const {
    return best_ ? best_->candidate.estimate.step.total() : goal_.enough;
  }
  [[nodiscard]] bool shares_devices() const {
    return !variants_.front().asked.shared_blocks.empty();
  }

  /// The memory of a plan that is fast enough and has no room for its activations.
  [[nodiscard]] std::optional<Bytes> lacking_room(const PlanDegrees& plan) const {
    const PlanBound bound = degree_bound(goal_.evaluator, plan);
    const Bytes limit = goal_.evaluator.memory_up_to(goal_.admitted);
    if (bound.step_time > goal_.enough || bound.memory > limit) return std::nullopt;
    count_plan();
    const Evaluation evaluation = goal_.evaluator.evaluate(plan);
    const auto* too_large = std::get_if<InfeasiblePlan>(&evaluation);
    if (too_large != nullptr && !too_large->estimate) return std::nullopt;
    const Estimate& plain = estimate_of(evaluation);
    if (plain.step.total() > goal_.enough) return std::nullopt;
    const Bytes needed = plain.memory.total();
    if (goal_.evaluator.memory_fit(plan, needed) <= goal_.admitted) return std::nullopt;
    return needed;
  }

  /// Tries the variants in the order of the file, until one has room: fewer pieces take less time.
  void look_at(const PlanDegrees& plan) {
    for (std::size_t v = 0; v < variants_.size(); ++v) {
      if (!variants_[v].asked.decides_plans()) continue;  // all whole
      count_plan();
      const auto made = constrained(v, plan);
      const auto* placed = std::get_if<ParallelPlan>(&made);
      if (placed != nullptr && price(v, plan, *placed)) return;
    }
  }

  struct Shared {
    Seconds bound;
    PlanDegrees degrees;
    ParallelPlan plan;
  };

  /// To find an order takes long: two are found, of the plans whose passes end first.
  void share_devices(const std::vector<PlanDegrees>& plans) {
    constexpr int kMostOrders = 2;
    std::vector<Shared> near = shared(plans);
    std::ranges::stable_sort(near, {}, &Shared::bound);
    int orders = 0;
    for (const Shared& one : near) {
      if (one.bound >= enough() || orders == kMostOrders) return;
      price(0, one.degrees, one.plan);
      ++orders;
    }
  }

  /// The plans that may be fast enough under some order, of those with the lowest bounds by their
  /// degrees as many as the work is for.
  [[nodiscard]] std::vector<Shared> shared(const std::vector<PlanDegrees>& plans) {
    std::vector<std::pair<Seconds, PlanDegrees>> bounded;
    for (const PlanDegrees& degrees : plans) {
      if (degrees.pipeline == 1 || degrees.chunks > 1) continue;
      PlanDegrees whole = degrees;
      whole.tensor_out *= std::exchange(whole.pipeline, 1);
      const Seconds bound = degree_bound(goal_.evaluator, whole).step_time;
      if (bound <= goal_.enough) bounded.emplace_back(bound, degrees);
    }
    std::ranges::stable_sort(bounded, {}, &std::pair<Seconds, PlanDegrees>::first);
    constexpr std::size_t kMostRanks = 2'000;  // to route messages takes 25 us for each
    const auto most = kMostRanks / static_cast<std::size_t>(goal_.evaluator.problem().gpus);
    if (bounded.size() > most) bounded.resize(most);
    std::vector<Shared> near;
    for (const auto& [bound, degrees] : bounded) {
      count_plan();
      auto made = constrained(0, degrees);
      auto* plan = std::get_if<ParallelPlan>(&made);
      if (plan == nullptr || evaluator(0).legality(*plan) || fills_middle(degrees)) continue;
      const PlanBound any_order = windowless_bound(evaluator(0), *plan);
      if (any_order.memory > evaluator(0).memory_up_to(goal_.admitted)) continue;
      near.push_back({any_order.step_time, degrees, std::move(*plan)});
    }
    return near;
  }

  /// Whether a stage without shared blocks has no room under 1F1B: orders that are found keep about
  /// as many micro-batches.
  [[nodiscard]] bool fills_middle(const PlanDegrees& degrees) {
    if (degrees.pipeline < 3) return false;
    const DeviceMemory memory =
        goal_.evaluator.stage_memory(*goal_.evaluator.profile(degrees), degrees, 1, *workspace_);
    return memory.memory.total() > goal_.evaluator.memory_up_to(goal_.admitted);
  }

  static void count_plan() {
    count_work(kStepsOfPlan);
    check_work();
  }

  const PlanEvaluator& evaluator(std::size_t variant) {
    auto& known = evaluators_[variant];
    if (!known) {
      known = std::make_unique<PlanEvaluator>(
          with_gpus(variants_[variant].asked, goal_.evaluator.problem().gpus));
    }
    return *known;
  }

  std::variant<ParallelPlan, Infeasible> constrained(std::size_t variant,
                                                     const PlanDegrees& degrees) {
    const ResolvedQuestion& asked = variants_[variant].asked;
    SearchRequest request;
    request.placements = asked.placements;
    request.shared_blocks = asked.shared_blocks;
    return constrained_plan(evaluator(variant), request, degrees);
  }

  /// Keeps the best plan. Returns whether this one has room.
  bool price(std::size_t variant, const PlanDegrees& degrees, const ParallelPlan& plan) {
    const Evaluation evaluation = evaluator(variant).evaluate(plan);
    const auto* estimate = std::get_if<Estimate>(&evaluation);
    if (estimate == nullptr ||
        evaluator(variant).memory_fit(degrees, estimate->memory.total()) > goal_.admitted) {
      return false;
    }
    if (estimate->step.total() < enough()) {
      best_ = {
          variant,
          degrees,
          {plan.transform_at(0).degrees, *estimate, std::make_shared<const ParallelPlan>(plan)}};
    }
    return true;
  }

  static constexpr std::int64_t kStepsOfPlan = 50'000;  // a quarter of a millisecond

  const BeyondGoal& goal_;
  std::string name_;
  std::vector<OpenQuestion> variants_;
  std::vector<std::unique_ptr<const PlanEvaluator>> evaluators_;  ///< of variants, once needed
  decltype(PlanEvaluator::make_workspace()) workspace_ = PlanEvaluator::make_workspace();
  std::optional<Found> best_;
};

/// The variants of a constraint on this network; none where it means nothing of it.
std::vector<OpenQuestion> variants_of(const std::string& name, const ResolvedQuestion& wider) {
  try {
    const PlanRequest given = with_constraints({wider.request, {}}, name);
    // Orders are an idea of their own.
    if (!given.transform && !given.shared) return {};
    // Shared devices have an order that is found, and lists of instructions none.
    const bool lists = wider.files.framework->pipeline_lists == PipelineLists::JustInTime;
    if (given.shared && (lists || wider.request.passes)) return {};
    return open_questions(given, resolve_question(given.request, wider.files));
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace

ConstraintSearch under_constraints(const BeyondGoal& goal, const PlanDegrees& first,
                                   std::int64_t most_work) {
  ConstraintSearch search;
  const std::vector<PlanDegrees> plans = trades(first, goal);
  for (const ShippedFile& file : shipped_data().constraints()) {
    auto variants = variants_of(file.name, goal.wider);
    if (variants.empty()) continue;
    search.tried = true;
    UnderConstraint under(goal, file.name, std::move(variants));
    const StopToken token({.work = most_work}, stop_token());
    try {
      const StopScope scope(&token);
      under.look(plans);
    } catch (const Stopped& stopped) {
      if (stopped.reason != StopReason::WorkLimit) throw;
    }
    if (auto best = under.best()) search.found.push_back(*std::move(best));
  }
  return search;
}

}  // namespace plansearch
