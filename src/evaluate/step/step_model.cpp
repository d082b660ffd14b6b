// SPDX-License-Identifier: Apache-2.0
// Computes: time of one optimizer step, in the parts of the device that has most to do.
// Source: ends of the devices in the pipeline (schedule/), then each one's reductions, then the
//         optimizers: together after the slowest reduction where the framework needs a global
//         gradient norm, each by itself elsewhere. Where the norm is checked after the step
//         (Qi et al., arXiv 2401.10241, section 4), devices go on with the next one: in steady
//         state every step begins the longest time after the one before that a device takes from
//         its first start to its last end.
// Assumes: reductions of a stage are one message; norms pass from stage to stage in no time; what
//          stages share is not waited for where updates are validated after the step.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/step_model_test.cpp, bound_test.cpp
#include "evaluate/step/step_model.hpp"

#include <algorithm>

#include "evaluate/step/group_pass.hpp"
#include "evaluate/step/step_collectives.hpp"
#include "evaluate/step/windowed_step.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Sums of the same times in another order differ by less than this share of them.
constexpr double kRounding = 1e-9;

void simulated_ends(const PricingInput& view, EvaluationWorkspace& workspace) {
  std::vector<DeviceEnd>& ends = workspace.ends;
  const PipelineTimes times = workspace.durations.view();
  const PipelineResult& result = workspace.simulator.run(view.shape(), times);
  for (std::size_t p = 0; p < ends.size(); ++p) {
    const DeviceUse& use = result.devices[p];
    ends[p].end = ends[p].without_transfers = to_seconds(use.last_end);
    ends[p].start = ends[p].start_without_transfers = to_seconds(use.first_start);
  }
  const auto takes_time = [](Ticks t) { return t > 0; };
  if (std::none_of(times.activation_transfer.begin(), times.activation_transfer.end(),
                   takes_time) &&
      std::none_of(times.gradient_transfer.begin(), times.gradient_transfer.end(), takes_time)) {
    return;
  }
  workspace.no_transfers.assign(times.activation_transfer.size(), 0);
  PipelineTimes free = times;
  free.activation_transfer = free.gradient_transfer = workspace.no_transfers;
  const PipelineResult& freed = workspace.simulator.run(view.shape(), free);
  for (std::size_t p = 0; p < ends.size(); ++p) {
    ends[p].without_transfers = to_seconds(freed.devices[p].last_end);
    ends[p].start_without_transfers = to_seconds(freed.devices[p].first_start);
  }
}

/// After its last backward a device waits for nothing; the rest is the path of that gradient to the
/// first virtual stage. The closed form does not separate waits: all of them count as bubble. It
/// knows no start of a device.
void estimated_ends(const PricingInput& view, EvaluationWorkspace& workspace) {
  const PipelineShape shape = view.shape();
  const PipelineTimes times = workspace.durations.view();
  Ticks makespan = estimate_makespan(shape, times);
  const Assignment& assignment = view.assignment();
  const Ticks whole = makespan;
  for (DeviceEnd& end : workspace.ends) end = {};
  for (std::size_t k = 0; k < assignment.groups.size(); ++k) {
    const OperatorGroup& group = assignment.groups[k];
    if (k % assignment.groups_per_replica() == 0) makespan = whole;
    DeviceEnd& end = workspace.ends[static_cast<std::size_t>(group.position)];
    if (group.chunk % assignment.chunks == 0 && to_seconds(makespan) > end.end) {
      end.end = end.without_transfers = to_seconds(makespan);
    }
    if (k + 1 < assignment.groups.size()) {
      makespan -= times.backward[k] + times.gradient_transfer[k];
    }
  }
}

/// A step from its begin to that of the next one.
struct StepSpan {
  Seconds total;
  Seconds without_transfers;  ///< the same if messages between stages took no time
  Seconds next_step_overlap;
};

/// Optimizers start together after the slowest reduction, or each after its own.
class LastDevice {
 public:
  explicit LastDevice(OptimizerStart start) : start_(start) {}
  void note(Seconds started, Seconds reduced, Seconds after) {
    reduced_ = std::max(reduced_, reduced);
    after_ = std::max(after_, after);
    apart_ = std::max(apart_, reduced + after);
    span_ = std::max(span_, reduced + after - started);
  }
  /// The time from one step's begin to that of the next.
  [[nodiscard]] Seconds total() const {
    if (start_ == OptimizerStart::Together) return reduced_ + after_;
    return start_ == OptimizerStart::PostValidated ? span_ : apart_;
  }
  /// The part of the step, first start to last end, that runs beside the next one.
  [[nodiscard]] Seconds overlap() const {
    return start_ == OptimizerStart::PostValidated ? apart_ - span_ : Seconds(0);
  }

 private:
  OptimizerStart start_;
  Seconds reduced_;
  Seconds after_;
  Seconds apart_;
  Seconds span_;
};

/// The span of a step whose devices leave the pipeline at `workspace.ends`.
StepSpan span_of_ends(const PricingInput& view, OptimizerStart start,
                      const EvaluationWorkspace& workspace) {
  LastDevice step(start);
  LastDevice without_transfers(start);
  for (std::size_t p = 0; p < workspace.ends.size(); ++p) {
    const auto kind = static_cast<std::size_t>(view.assignment().kind_of[p]);
    const StageClassWork& work = workspace.work[kind];
    const DeviceEnd& at = workspace.ends[p];
    const Seconds after = work.optimizer + view.invariants.kinds[kind].host;
    step.note(at.start, at.end + work.reduction, after);
    without_transfers.note(at.start_without_transfers, at.without_transfers + work.reduction,
                           after);
  }
  return {step.total(), without_transfers.total(), step.overlap()};
}

/// The order of the schedule, simulated or in closed form.
StepSpan by_order(const PricingInput& view, MakespanMethod method, OptimizerStart start,
                  EvaluationWorkspace& workspace) {
  workspace.ends.resize(static_cast<std::size_t>(view.assignment().stages()));
  const bool simulated =
      method == MakespanMethod::Simulation || start == OptimizerStart::PostValidated;
  simulated ? simulated_ends(view, workspace) : estimated_ends(view, workspace);
  return span_of_ends(view, start, workspace);
}

/// An order that is found for the plan.
StepSpan by_window(const PricingInput& view, OptimizerStart start, EvaluationWorkspace& workspace) {
  workspace.ends = windowed_step(view, workspace).ends;
  return span_of_ends(view, start, workspace);
}

/// The instructions of the plan; only the share of messages in the waiting is that of its order.
StepSpan by_program(const PricingInput& view, const ListedStep& listed, OptimizerStart start,
                    EvaluationWorkspace& workspace) {
  StepSpan step = by_order(view, MakespanMethod::Simulation, start, workspace);
  const Seconds makespan = to_seconds(listed.makespan);
  step.total = start == OptimizerStart::PostValidated ? to_seconds(listed.span) : makespan;
  step.next_step_overlap = makespan - step.total;
  return step;
}

/// The share of the time of messages between stages that leaves the node.
double share_between_nodes(const PricingInput& view, const PipelineTimes& times) {
  const int node = view.problem.cluster->accelerators_per_node;
  double all = 0.0;
  double between = 0.0;
  for (std::size_t k = 0; k < times.activation_transfer.size(); ++k) {
    const auto both =
        static_cast<double>(times.activation_transfer[k] + times.gradient_transfer[k]);
    all += both;
    if (view.boundary(k).left_domain >= node) between += both;
  }
  return all > 0.0 ? between / all : 0.0;
}

/// The time that a device saves in a step by forwards that run beside backwards.
Seconds joined_gain(const PricingInput& view, const EvaluationWorkspace& workspace, int position) {
  Seconds gain;
  if (!view.joins()) return gain;
  const std::vector<int>& counts = joined_forwards(view.shape());
  const auto& groups = view.assignment().groups;
  for (std::size_t k = 0; k < groups.size(); ++k) {
    if (groups[k].position != position) continue;
    const GroupLengths& pass = workspace.passes[static_cast<std::size_t>(groups[k].content)];
    gain += (pass.forward - pass.joined_forward) * static_cast<double>(counts[k]);
  }
  return gain;
}

struct BusiestDevice {
  int position = 0;
  Seconds imbalance;  ///< mean over devices of the work that they have less
};

/// The device with most work, of equals the last to leave the pipeline.
BusiestDevice busiest_device(const PricingInput& view, const EvaluationWorkspace& workspace) {
  const std::vector<DeviceEnd>& ends = workspace.ends;
  const auto repeats = static_cast<double>(view.repeats());
  BusiestDevice busiest;
  Seconds most;
  Seconds sum;
  for (std::size_t p = 0; p < ends.size(); ++p) {
    const auto kind = static_cast<std::size_t>(view.assignment().kind_of[p]);
    const StageClassWork& work = workspace.work[kind];
    const Seconds after = work.optimizer + view.invariants.kinds[kind].host;
    const Seconds own = repeats * work.pass.total() + work.reduction + after -
                        joined_gain(view, workspace, static_cast<int>(p));
    sum += own;
    const auto best = static_cast<std::size_t>(busiest.position);
    if (own > most || (own == most && ends[p].end > ends[best].end)) {
      most = own;
      busiest.position = static_cast<int>(p);
    }
  }
  busiest.imbalance = most - sum / static_cast<double>(ends.size());
  return busiest;
}

/// Takes the gain from exposed messages, those of experts first.
void book_gain(Seconds gain, StepTimeBreakdown& step) {
  const auto take = [&](Seconds& from) {
    const Seconds part = std::min(gain, from);
    from -= part;
    gain -= part;
    return part;
  };
  const Seconds experts = take(step.exposed[static_cast<std::size_t>(Purpose::Expert)]);
  step.between_nodes = std::max(step.between_nodes - experts, Seconds(0));
  for (Seconds& exposed : step.exposed) take(exposed);
  take(step.host);
  take(step.compute);
}

/// The parts of one device's step except the waiting: bubble and messages between stages.
StepTimeBreakdown parts_of(const PricingInput& view, const StageClassWork& work, int position) {
  const auto repeats = static_cast<double>(view.repeats());
  const GroupPass pass = position_pass(view, position);
  const PhaseLengths& lengths = work.pass;
  StepTimeBreakdown step;
  step.compute = repeats * (pass.forward.compute + pass.backward.compute);
  step.recompute = repeats * pass.recompute.compute;
  for (std::size_t i = 0; i < kPurposeCount; ++i) {
    step.exposed[i] =
        repeats * (pass.forward.exposed[i] + pass.backward.exposed[i] + pass.recompute.exposed[i]);
  }
  step.between_nodes = repeats * (pass.forward.between_nodes + pass.backward.between_nodes +
                                  pass.recompute.between_nodes);
  const Seconds waits =
      lengths.total() - pass.forward.device() - pass.backward.device() - pass.recompute.device();
  step.host = view.statics_at(position).host;
  if (waits > kRounding * lengths.total()) step.host += repeats * waits;
  const auto kind = static_cast<std::size_t>(view.kind_of(position));
  for_each_step_message(view, lengths, kind, [&](const PhaseMessage& message, Seconds exposed) {
    step.exposed[static_cast<std::size_t>(message.purpose)] += exposed;
    if (message.between_nodes) step.between_nodes += exposed;
  });
  step.optimizer = work.optimizer;
  return step;
}

/// Adds the time of the step beyond the work of the device: the bubble, as if messages took no
/// time, and the rest to messages. Below a tick per micro-batch there is only rounding.
void book_waiting(const PricingInput& view, const StepSpan& span, const PipelineTimes& times,
                  StepTimeBreakdown& step) {
  const Seconds rounding = to_seconds(view.order.micro_batches);
  const Seconds waiting = std::max(span.total - step.total(), Seconds(0));
  const Seconds transfers = std::clamp(span.total - span.without_transfers, Seconds(0), waiting);
  step.exposed[static_cast<std::size_t>(Purpose::Pipeline)] += transfers;
  step.between_nodes += share_between_nodes(view, times) * transfers;
  if (waiting - transfers > rounding) step.bubble = waiting - transfers;
}

/// No order of the passes takes less.
Ticks least_pipeline(const PricingInput& view, OptimizerStart start,
                     EvaluationWorkspace& workspace) {
  if (view.order.window) return least_window_step(view, start, workspace);
  const PipelineTimes times = workspace.durations.view();
  PipelineShape shape = view.shape();
  if (view.problem.passes) shape.transfers = TransferMode::Asynchronous;  // at best
  return start == OptimizerStart::PostValidated ? span_bound(shape, times)
                                                : order_bound(shape, times);
}

/// Together: the slowest optimizer starts when the last device is through. Apart: the last device
/// through has an optimizer of its own, whichever that is.
Seconds least_after(const PricingInput& view, OptimizerStart start) {
  const bool together = start == OptimizerStart::Together;
  Seconds after;
  bool first = true;
  for (const StageClassStates& kind : view.invariants.kinds) {
    const Seconds own = kind.optimizer + kind.host;
    after = first ? own : together ? std::max(after, own) : std::min(after, own);
    first = false;
  }
  return after;
}

}  // namespace

Seconds step_time_bound(const PricingInput& view, EvaluationWorkspace& workspace) {
  fill_durations(view, workspace);
  const OptimizerStart start = view.optimizer_start();
  return to_seconds(least_pipeline(view, start, workspace)) + least_after(view, start);
}

Seconds simulated_bound(const PricingInput& view, EvaluationWorkspace& workspace) {
  const Seconds bound = step_time_bound(view, workspace);
  const OptimizerStart start = view.optimizer_start();
  const bool moved = view.problem.passes && !view.order.window;
  if (!moved || start == OptimizerStart::PostValidated) return bound;
  const PipelineTimes times = workspace.durations.view();
  PipelineShape shape = tuned_to(view.shape(), times);
  shape.transfers = TransferMode::Asynchronous;
  const Seconds pipeline = to_seconds(workspace.simulator.run(shape, times).makespan);
  return std::max(bound, pipeline + least_after(view, start));
}

StepResult step_time(const PricingInput& view, MakespanMethod method,
                     EvaluationWorkspace& workspace, const ListedStep* listed) {
  fill_durations(view, workspace);
  fill_work(view, workspace);
  const OptimizerStart start = view.optimizer_start();
  const StepSpan span = listed != nullptr   ? by_program(view, *listed, start, workspace)
                        : view.order.window ? by_window(view, start, workspace)
                                            : by_order(view, method, start, workspace);
  const BusiestDevice busiest = busiest_device(view, workspace);
  const auto kind = static_cast<std::size_t>(view.kind_of(busiest.position));
  StepResult result;
  result.busiest = busiest.position;
  result.imbalance = busiest.imbalance;
  result.next_step_overlap = span.next_step_overlap;
  result.step = parts_of(view, workspace.work[kind], busiest.position);
  book_gain(joined_gain(view, workspace, busiest.position), result.step);
  book_waiting(view, span, workspace.durations.view(), result.step);
  return result;
}

}  // namespace plansearch
