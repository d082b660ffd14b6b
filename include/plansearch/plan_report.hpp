// SPDX-License-Identifier: Apache-2.0
// A priced plan with everything a reader wants to know about it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/communication_kind.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/evaluation.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/placement_names.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/plan_stages.hpp"

namespace plansearch {

/// Ranks that the predicted times cannot distinguish: less than 80 % sure that the other plan,
/// which is ranked higher, really is faster.
struct Ties {
  bool with_previous = false;
  bool with_first = false;
};

/// A plan as reports name it: its degrees, stage by stage where those differ.
struct PlanSummary {
  PlanDegrees degrees;              ///< of all stages, of the first one where they differ
  std::vector<PlanDegrees> stages;  ///< empty where all are alike
  /// Empty where the framework makes this very plan of the degrees; else every stage, with its
  /// first rank.
  std::vector<StageDescription> written;
  /// Operators that are not cut by role, where there are any.
  std::optional<PlacementNames> placements{};
  std::vector<std::string> shared{};  ///< blocks on the devices of all stages
  /// Rules of an order that is found ("b0 before f1(m+2)"); absent: the order of the schedule.
  std::optional<std::vector<std::string>> window{};
  std::shared_ptr<const ParallelPlan> plan{};  ///< as priced; null where degrees are all there is
  std::shared_ptr<const Network> network{};    ///< that the blocks of `written` are of

  PlanSummary() = default;
  PlanSummary(const PlanDegrees& uniform) : degrees(uniform) {}
  explicit PlanSummary(const ParallelPlan& plan);
  /// The same with `written`, placements and the plan itself.
  PlanSummary(const PlanEvaluator& evaluator, const ParallelPlan& plan);
  [[nodiscard]] int devices() const;
};

/// Outcome of one pass over the program of a step.
struct PassReport {
  std::string name;
  std::string moves;  ///< the things that `moved` counts
  int moved = 0;
  bool kept = true;  ///< false: the step would have grown
  Seconds before;
  Seconds after;
  Bytes slots;  ///< buffers it adds on the device with most of them
  Bytes peak;   ///< largest growth of the peak of a device
};

/// Runs of the plan in the slow mode of its fabric.
struct SlowRuns {
  std::string fabric;
  double share = 0.0;  ///< of measured runs on as many nodes
  Seconds excess;      ///< over the step time
};

/// A feature of the framework (FrameworkFeature), and which plans have it.
struct PlanFeature {
  std::string name;   ///< "Megatron-FSDP"
  std::string plans;  ///< "zero 2, 3"
  bool operator==(const PlanFeature&) const = default;
};

/// One message on the way.
struct RedistributionHop {
  CommunicationKind kind = CommunicationKind::SendReceive;
  std::string axes;    ///< of the mesh, "out"; "pipeline" between stages
  int ranks = 2;       ///< of the group
  std::string links;   ///< the machine's names, fastest first: "nvlink, infiniband"
  Bytes bytes;         ///< full message, nccl-tests convention; between stages: of the busiest rank
  Seconds time;        ///< one call, before anything hides it
  double count = 0.0;  ///< calls of a device in one step, those of recomputation included
};

/// One tensor, from an operator to another or from a stage to another.
struct Redistribution {
  std::string what;  ///< the tensor; "chain" or "edge" between stages
  std::string from;  ///< "layer: attn.core", "stage 0"
  std::string to;
  std::string pass;                     ///< "forward", "input gradient", "weight gradient"
  int alike = 1;                        ///< borders of stages that are crossed in the same way
  std::vector<RedistributionHop> path;  ///< in this order
  [[nodiscard]] Seconds time() const {  ///< of the whole path, once
    Seconds sum;
    for (const RedistributionHop& hop : path) sum += hop.time;
    return sum;
  }
  /// Time of a device in one step.
  [[nodiscard]] Seconds in_step() const {
    Seconds sum;
    for (const RedistributionHop& hop : path) sum += hop.count * hop.time;
    return sum;
  }
};

/// Rates follow from the step time. Model FLOPs are matmuls, attention (causal half) and logits,
/// forward times three; hardware FLOPs add recompute; both are set against the dense peak of the
/// matmul format.
struct PlanReport {
  int rank = 1;
  Ties ties;
  /// The rank of the plan it ties with and differs from in chunks and order only; that one's
  /// variants.
  std::optional<int> variant_of;
  std::vector<PlanDegrees> variants;
  PlanSummary plan;
  Estimate estimate;
  Seconds p10;
  Seconds p90;
  std::optional<SlowRuns> slow;  ///< a mixture beside p10 and p90, not inside
  double tokens_per_s = 0.0;
  double mfu = 0.0;
  double hfu = 0.0;
  double memory_risk = 0.0;  ///< probability of running out of memory
  MemoryFit memory_fit = MemoryFit::Fits;
  FlopRate model_rate_per_gpu;
  FlopRate hardware_rate_per_gpu;
  std::vector<PricedCommunication> communication;
  std::vector<StageReport> stages;
  std::vector<OperatorReport> operators;  ///< of the busiest stage
  std::vector<HiddenMessage> hidden;      ///< on the busiest stage
  PeakReport peak;                        ///< contents of memory
  std::vector<std::string> why;
  std::vector<PlanFeature> features;  ///< of the framework, that the plan has
  std::vector<PassReport> passes;     ///< of the problem, in the order in which they were applied
  std::optional<FoundOrder> order{};  ///< where it is not the order of a schedule
  std::vector<Redistribution> redistributions{};  ///< of all stages; filled in by `explain` alone
};

/// Effect of operators in steps: how much of what their tiles travel is exposed, and over how many
/// ranks activations are still summed. Empty where none runs over the tensor group.
[[nodiscard]] std::string steps_text(const std::vector<PricedCommunication>& communication,
                                     int tensor_ranks);

/// A step against that of a plan that differs in one decision, `other`: how much as fast, and which
/// parts make the difference. `pieces`: what kernels of `own` are smaller for, "in steps".
[[nodiscard]] std::string against_text(const StepTimeBreakdown& own, const StepTimeBreakdown& other,
                                       std::string_view name, std::string_view pieces);

/// Messages, stages, operators and peak of a legal plan.
[[nodiscard]] PlanDetails plan_details(const PlanEvaluator& evaluator, const ParallelPlan& plan);
/// The same of degrees, whose profile is known more likely than not.
[[nodiscard]] PlanDetails plan_details(const PlanEvaluator& evaluator, const PlanDegrees& plan,
                                       EvaluationWorkspace& workspace);
/// Every tensor of a legal plan that changes its layout between two operators or two stages: inside
/// blocks, then between stages; each block once for every layout in which stages split it.
[[nodiscard]] std::vector<Redistribution> redistributions(const PlanEvaluator& evaluator,
                                                          const ParallelPlan& plan);

/// Dense peak of the format the matmuls run in.
[[nodiscard]] FlopRate matmul_peak(const Problem& problem);

/// Runs in the slow mode of the fabric of a cluster. Nothing where the fabric has no such mode or
/// the plan has no pipeline; the excess is that of the prediction itself, without the factor of a
/// site.
[[nodiscard]] std::optional<SlowRuns> slow_runs(const Cluster& cluster, const PlanDegrees& plan,
                                                int devices);

/// Times and rates of one plan; nothing of its communication, stages, operators and reasons.
[[nodiscard]] PlanReport rate_plan(const PlanEvaluator& evaluator, const PlanDegrees& plan,
                                   const Estimate& estimate);
[[nodiscard]] PlanReport rate_plan(const PlanEvaluator& evaluator, const ParallelPlan& plan,
                                   const Estimate& estimate);

/// The same with communication, stages, operators and reasons.
[[nodiscard]] PlanReport report_plan(const PlanEvaluator& evaluator, const PlanDegrees& plan,
                                     const Estimate& estimate);
[[nodiscard]] PlanReport report_plan(const PlanEvaluator& evaluator, const ParallelPlan& plan,
                                     const Estimate& estimate);

/// Up to three short reasons, the heaviest first, with the numbers that support them.
[[nodiscard]] std::vector<std::string> explain(const PlanEvaluator& evaluator,
                                               const PlanDegrees& plan, const Estimate& estimate);

}  // namespace plansearch
