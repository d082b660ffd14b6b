// SPDX-License-Identifier: Apache-2.0
// Prices plans. One source of numbers at three depths: an admissible bound, a closed-form estimate
// and a simulated evaluation all read the same block profiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/evaluation.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/quantity.hpp"
#include "plansearch/redistribution_report.hpp"

namespace plansearch {

/// Lower bounds of one plan: no order of instructions and no overlap can beat them.
struct PlanBound {
  Seconds step_time;
  Bytes memory;
};

/// Block profiles of one equivalence class: everything of a plan but how layers go to stages, how
/// many micro-batches run and how many replicas there are. Opaque to callers.
struct ClassProfile;

/// Every instruction of one step and when it runs (src/evaluate/step/priced_program.hpp).
struct PricedProgram;

/// What every rank runs in one step, and what waits for what (src/evaluate/answer/step_nodes.hpp).
struct StepNodes;

/// Whether the messages of a rank in both directions share its network cards, or each travels as if
/// it were alone (as the price of a plan assumes).
enum class MessageLinks : std::uint8_t { Private, Shared };

/// Which program of a plan.
struct ProgramRequest {
  std::optional<int> micro_batches{};  ///< fewer, to be drawn; absent: those of the plan
  MessageLinks links = MessageLinks::Private;
};

/// Reusable buffers of one thread.
struct EvaluationWorkspace;
struct EvaluationWorkspaceDeleter {
  void operator()(EvaluationWorkspace* workspace) const;
};
using EvaluationWorkspacePtr = std::unique_ptr<EvaluationWorkspace, EvaluationWorkspaceDeleter>;

/// An order that was found for a plan.
struct FoundOrder {
  Seconds window;         ///< of a micro-batch in the steady state
  Seconds bound;          ///< no window is shorter: work of the busiest device
  std::vector<int> kept;  ///< by stage: most micro-batches of its layers at one time
};

/// Details of a plan for its report, beside its price.
struct PlanDetails {
  std::vector<PricedCommunication> communication;  ///< of the busiest device
  std::vector<StageReport> stages;
  std::vector<OperatorReport> operators;  ///< of the busiest device
  std::vector<HiddenMessage> hidden;      ///< on the busiest device
  PeakReport peak{};
  std::optional<FoundOrder> order{};  ///< where it is not the order of a schedule
};

/// A set of modules with which a plan has room, and its place among those that are tried.
struct ModuleFit {
  std::size_t place = 0;
  std::uint8_t modules = 0;
};

/// Immutable after construction; safe to share between threads, each with its own workspace.
class PlanEvaluator {
 public:
  explicit PlanEvaluator(Problem problem);
  ~PlanEvaluator();
  PlanEvaluator(const PlanEvaluator&) = delete;
  PlanEvaluator& operator=(const PlanEvaluator&) = delete;

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] static EvaluationWorkspacePtr make_workspace();

  /// Why the framework or the network forbid the plan, if they do; memory is not checked.
  [[nodiscard]] std::optional<Infeasible> legality(const PlanDegrees& plan) const;
  /// The same without the words, for the search.
  [[nodiscard]] std::optional<Obstacle> obstacle(const PlanDegrees& plan) const;

  /// The profile of the class of `plan` (its tensor, context, expert, micro-batch, recompute,
  /// sequence-parallel and ZeRO fields and the strides its data and pipeline degrees imply).
  [[nodiscard]] std::shared_ptr<const ClassProfile> profile(const PlanDegrees& plan) const;

  /// Memory of the first and the last stage, known before any kernel or communication has a price:
  /// the memory of `bound(*profile(plan), plan)`. A plan that exceeds the limit here needs no
  /// profile. Precondition: `legality(plan)` is empty.
  [[nodiscard]] Bytes memory_bound(const PlanDegrees& plan, EvaluationWorkspace& workspace) const;

  /// Least step time, of kernels and of messages that they wait for at once, known before any pass
  /// is: at most that of `bound(*profile(plan), plan)`. Precondition: `legality(plan)` is empty.
  [[nodiscard]] Seconds kernel_bound(const PlanDegrees& plan, EvaluationWorkspace& workspace) const;

  /// Peak memory of the device that needs most, known as early. The same precondition.
  [[nodiscard]] Bytes peak_memory(const PlanDegrees& plan, EvaluationWorkspace& workspace) const;

  /// The plan with the dispatcher, of those that searches try, whose exchanges kernels wait for
  /// least; where its order joins passes, with the fastest.
  [[nodiscard]] PlanDegrees with_best_dispatcher(PlanDegrees plan,
                                                 EvaluationWorkspace& workspace) const;
  /// What the plan, which recomputes selectively, can name as modules: the sets that no other beats
  /// in kernels and bytes, cheapest first.
  [[nodiscard]] std::vector<std::uint8_t> module_sets(const PlanDegrees& plan,
                                                      EvaluationWorkspace& workspace) const;
  /// The cheapest of them, from place `first` on, with which the plan needs no more than `limit`.
  [[nodiscard]] std::optional<ModuleFit> modules_within(const PlanDegrees& plan, Bytes limit,
                                                        std::size_t first,
                                                        EvaluationWorkspace& workspace) const;
  /// Memory of the first and the last stage with any modules, at least.
  [[nodiscard]] Bytes module_bound(const PlanDegrees& plan, EvaluationWorkspace& workspace) const;

  /// Lower bounds that need no profile: at most those of `bound`, for this plan and for all that
  /// differ from it in schedule and chunks, in more recompute or in larger micro-batches. The plan
  /// itself need not be legal.
  [[nodiscard]] PlanBound grid_bound(const PlanDegrees& plan) const;

  /// The same with the messages that the placement of the plan waits for at once, for plans that
  /// differ from it in chunks, and in schedules that join passes as its own does, or does not. With
  /// kAnyDispatcher: under any dispatcher that is tried.
  [[nodiscard]] PlanBound placed_bound(const PlanDegrees& plan,
                                       EvaluationWorkspace& workspace) const;

  /// The same step with the kernels of the placement.
  [[nodiscard]] Seconds work_bound(const PlanDegrees& plan, EvaluationWorkspace& workspace) const;

  /// Precondition of the three: `legality(plan)` is empty and `profile` is the plan's own.
  [[nodiscard]] PlanBound bound(const ClassProfile& profile, const PlanDegrees& plan,
                                EvaluationWorkspace& workspace) const;
  [[nodiscard]] Estimate estimate(const ClassProfile& profile, const PlanDegrees& plan,
                                  EvaluationWorkspace& workspace) const;
  [[nodiscard]] Estimate simulate(const ClassProfile& profile, const PlanDegrees& plan,
                                  EvaluationWorkspace& workspace) const;

  /// Peak memory of one pipeline stage, 0 .. pipeline - 1.
  [[nodiscard]] DeviceMemory stage_memory(const ClassProfile& profile, const PlanDegrees& plan,
                                          int stage, EvaluationWorkspace& workspace) const;

  /// One row per pipeline stage.
  [[nodiscard]] std::vector<StageReport> stages(const ClassProfile& profile,
                                                const PlanDegrees& plan,
                                                EvaluationWorkspace& workspace) const;

  /// Times of the operators of one stage, by block.
  [[nodiscard]] std::vector<OperatorReport> operators(const ClassProfile& profile,
                                                      const PlanDegrees& plan, int stage,
                                                      EvaluationWorkspace& workspace) const;

  /// The plan that degrees stand for, or why there is none.
  [[nodiscard]] std::variant<ParallelPlan, Infeasible> expand(const PlanDegrees& degrees) const;
  /// Why a plan cannot run: its assignment does not fit the network or the devices, a stage is
  /// split as the network or the framework forbids, its batch is not the problem's. Memory is not
  /// checked.
  [[nodiscard]] std::optional<Infeasible> legality(const ParallelPlan& plan) const;
  /// The price of any plan, simulated, or why it has none: a plan of another network, machine or
  /// batch, one that contradicts itself, illegal degrees. A plan that does not fit memory carries
  /// the price it would have.
  [[nodiscard]] Evaluation evaluate(const ParallelPlan& plan) const;
  [[nodiscard]] Evaluation evaluate(const PlanDegrees& plan) const;
  /// The same with a profile and buffers at hand; a profile that is not the plan's is a reason too.
  [[nodiscard]] Evaluation evaluate(const ClassProfile& profile, const PlanDegrees& plan,
                                    EvaluationWorkspace& workspace) const;
  /// A bound of a legal plan whose order is found, which does not find it: no order of its passes
  /// ends earlier, and none keeps less than one micro-batch.
  [[nodiscard]] PlanBound windowless_bound(const ParallelPlan& plan) const;
  /// Messages and stages of a legal plan.
  [[nodiscard]] PlanDetails details(const ParallelPlan& plan) const;
  /// Every tensor of a legal plan that changes its layout between two operators or two stages.
  [[nodiscard]] std::vector<Redistribution> redistributions(const ParallelPlan& plan) const;

  /// One step of a legal plan, instruction by instruction, with the times and the memory of its
  /// price. InputError where the runtime's lists deadlock.
  [[nodiscard]] std::shared_ptr<const PricedProgram> program(
      const ParallelPlan& plan, const ProgramRequest& request = {}) const;

  /// One step of a legal plan as kernels and messages of its ranks. InputError where its stages do
  /// more than to hand on to the next one.
  [[nodiscard]] std::shared_ptr<const StepNodes> nodes(const ParallelPlan& plan) const;

  /// Memory a plan may use: capacity less the user's reserve.
  [[nodiscard]] Bytes memory_limit() const;
  /// The probability that a plan of this predicted peak needs more than that.
  [[nodiscard]] double memory_risk(Bytes predicted) const;
  /// The same in words, given the risk the problem accepts.
  [[nodiscard]] MemoryFit memory_fit(Bytes predicted) const;
  /// Whether the host of a node has room for what lives there.
  [[nodiscard]] bool host_fits(const Estimate& estimate) const;
  /// The predicted peak up to which a plan is called that. Fits <= Tight.
  [[nodiscard]] Bytes memory_up_to(MemoryFit fit) const;
  /// Dense peak of the format the matmuls run in.
  [[nodiscard]] FlopRate matmul_peak() const;

  /// communication[] of a plan, for reports.
  [[nodiscard]] std::vector<PricedCommunication> communication(
      const ClassProfile& profile, const PlanDegrees& plan, EvaluationWorkspace& workspace) const;

 private:
  struct Implementation;
  Problem problem_;
  std::unique_ptr<const Implementation> implementation_;
};

}  // namespace plansearch
