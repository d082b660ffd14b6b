// SPDX-License-Identifier: Apache-2.0
// Computes: the messages of the busiest device, the stages and the operators of a plan.
// Source: the profiles, passes and collectives that its step is made of; operator_price and
//         edge_price, the parts that block profiles are added up from.
// Assumes: rows of operators hide nothing and recompute nothing.
// Units: seconds and bytes per step; operators: per micro-batch and copy of the block.
// Checked by: tests/unit/evaluate/step_model_test.cpp, operator_report_test.cpp (the rows sum to
//             the passes)
#include <algorithm>

#include "evaluate/answer/plan_details.hpp"
#include "evaluate/block/operator_price.hpp"
#include "evaluate/block/phase_message.hpp"
#include "evaluate/memory/memory_model.hpp"
#include "evaluate/states/host_update.hpp"
#include "evaluate/step/group_pass.hpp"
#include "evaluate/step/plan_invariants.hpp"
#include "evaluate/step/step_collectives.hpp"
#include "evaluate/step/step_model.hpp"
#include "evaluate/step/windowed_step.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "plansearch/plan_report.hpp"

namespace plansearch {
namespace {

bool same_message(const PricedCommunication& a, const PricedCommunication& b) {
  const Communication& x = a.communication;
  const Communication& y = b.communication;
  return a.what == b.what && x.kind == y.kind && x.axes == y.axes && x.group_size == y.group_size &&
         a.bytes == b.bytes && a.time == b.time;
}

/// Joins messages that are alike, as several chunks of a device send them.
void append(PricedCommunication line, std::vector<PricedCommunication>& lines) {
  const auto known = std::find_if(lines.begin(), lines.end(), [&](const PricedCommunication& l) {
    return same_message(l, line);
  });
  if (known == lines.end()) {
    lines.push_back(std::move(line));
  } else {
    known->count += line.count;
    known->exposed += line.exposed;
  }
}

void append_passes(const ProfileMaker& profiles, const PricingInput& view, int position,
                   std::vector<PricedCommunication>& lines) {
  for (const int index : view.contents_at(position)) {
    const auto add = [&](const ClassProfile& profile, std::size_t b, double copies) {
      for (PhaseLine& pass : profiles.passes(profile, b)) {
        PricedCommunication& line = pass.line;
        line.what = message_name(view.problem.network->blocks[b], line.communication,
                                 view.problem.framework->sharding.unit);
        const bool forward = line.communication.phase == DemandPhase::Forward;
        const double times = view.repeats() * (forward ? view.forwards() : 1.0);
        line.count *= copies * times;
        line.exposed = (line.exposed * copies + pass.edge) * times;
        append(std::move(line), lines);
      }
    };
    for_each_profile(view, view.content(index), add);
  }
}

/// Forwards beside backwards hide what each alone would wait for: what is left of it is shared out
/// over the messages as they would be exposed alone.
void share_out(const TimeByPurpose& left, std::vector<PricedCommunication>& lines) {
  TimeByPurpose alone{};
  const auto purpose = [](const PricedCommunication& line) {
    return static_cast<std::size_t>(purpose_of(line.communication));
  };
  for (const PricedCommunication& line : lines) alone[purpose(line)] += line.exposed;
  for (PricedCommunication& line : lines) {
    const std::size_t p = purpose(line);
    if (alone[p] > left[p]) line.exposed *= left[p] / alone[p];
  }
}

void append_steps(const PricingInput& view, std::vector<PricedCommunication> collectives,
                  std::vector<PricedCommunication>& lines) {
  for (PricedCommunication& line : collectives) {
    line.what = line.communication.axes.contains(Axis::Pipeline)
                    ? "gradient of shared parameters"
                    : message_name(view.problem.network->blocks.front(), line.communication,
                                   view.problem.framework->sharding.unit);
    append(std::move(line), lines);
  }
}

/// Activations sent on and gradients sent back by one position. The wait of the device is
/// shared out over both by their time.
void append_boundaries(const PricingInput& view, int position, Seconds exposed,
                       std::vector<PricedCommunication>& lines) {
  const Assignment& held = view.assignment();
  std::vector<PricedCommunication> own;
  Seconds sum;
  const auto add = [&](const BoundaryTransfer& transfer, const char* what, double passes = 1.0) {
    if (transfer.time == Seconds(0)) return;
    PricedCommunication line;
    line.what = what;
    line.communication.kind = CommunicationKind::SendReceive;
    line.communication.axes = {Axis::Pipeline};
    line.communication.group_size = 2;
    line.bytes = line.wire_bytes = transfer.bytes;
    line.count = view.repeats() * passes;
    line.time = transfer.time;
    sum += transfer.time * line.count;
    append(std::move(line), own);
  };
  for (std::size_t k = 0; k + 1 < held.stop_count(); ++k) {
    const BoundaryTransfers transfers = chain_transfers(view, k);
    if (held.runs_at(k, position)) add(transfers.activation, "stage boundary", view.forwards());
    if (held.runs_at(k + 1, position)) add(transfers.gradient, "stage boundary, gradient");
  }
  const std::size_t last = held.stop_count() - 1;
  if (last < view.invariants.routed->boundaries.size() && held.runs_at(last, position)) {
    add(chain_transfers(view, last).activation, "way back to the first stage",
        view.forwards() - 1.0);
  }
  const auto& direct = view.assignment().direct;
  for (std::size_t i = 0; i < direct.size(); ++i) {
    const BoundaryTransfers transfers = direct_transfers(view, i);
    if (held.runs_at(direct[i].from, position)) {
      add(transfers.activation, "skip", view.forwards());
    }
    if (held.runs_at(direct[i].to, position)) add(transfers.gradient, "skip, gradient");
  }
  for (PricedCommunication& line : own) {
    line.exposed = exposed * (line.time * line.count / sum);
    lines.push_back(std::move(line));
  }
}

double layers_in(const PricingInput& view, int position) {
  double layers = 0.0;
  for (const int index : view.contents_at(position)) {
    const std::vector<double>& copies = view.content(index).copies;
    for (std::size_t b = 0; b < copies.size(); ++b) {
      if (is_layer(view.problem.network->blocks[b].kind)) layers += copies[b];
    }
  }
  return layers;
}

}  // namespace

std::vector<PricedCommunication> communication_of(const ProfileMaker& profiles,
                                                  const PricingInput& view,
                                                  const ListedStep* listed,
                                                  EvaluationWorkspace& workspace) {
  std::vector<PricedCommunication> lines;
  const StepResult result = step_time(view, MakespanMethod::Simulation, workspace, listed);
  append_passes(profiles, view, result.busiest, lines);
  if (view.joins()) share_out(result.step.exposed, lines);
  std::vector<PricedCommunication> collectives =
      step_collectives(view, position_lengths(view, workspace, result.busiest), result.busiest);
  Seconds waited = result.step.exposed[static_cast<std::size_t>(Purpose::Pipeline)];
  for (const PricedCommunication& c : collectives) {
    if (purpose_of(c.communication) == Purpose::Pipeline) waited -= c.exposed;
  }
  append_boundaries(view, result.busiest, std::max(waited, Seconds(0)), lines);
  append_steps(view, std::move(collectives), lines);
  return lines;
}

namespace {

PipelineResult run_of(const PricingInput& view, EvaluationWorkspace& workspace) {
  if (!view.order.window) {
    return workspace.simulator.run(view.shape(), workspace.durations.view());
  }
  const WindowedStep& step = windowed_step(view, workspace);
  return {step.makespan, step.uses, 0};
}

}  // namespace

std::vector<StageReport> stages_of_view(const PricingInput& view, EvaluationWorkspace& workspace) {
  fill_durations(view, workspace);
  const PipelineResult result = run_of(view, workspace);
  const bool goes_on = view.optimizer_start() == OptimizerStart::PostValidated;
  std::vector<StageReport> stages;
  for (int p = 0; p < view.assignment().stages(); ++p) {
    const PhaseLengths pass = position_lengths(view, workspace, p);
    const TransformInvariants& transform = view.transform_at(p);
    const DeviceUse& use = result.devices[static_cast<std::size_t>(p)];
    StageReport stage;
    stage.stage = p;
    stage.first_rank = view.assignment().positions[static_cast<std::size_t>(p)].first;
    stage.degrees = *transform.degrees;
    stage.layers = layers_in(view, p);
    stage.forward = pass.forward;
    stage.backward = pass.backward + pass.weight;
    stage.weight_gradient = pass.weight;
    stage.recompute = position_pass(view, p).recompute.device();
    stage.busy = to_seconds(use.busy);
    stage.waiting = to_seconds((goes_on ? result.span() : result.makespan) - use.busy);
    for (const PricedCommunication& c : step_collectives(view, pass, p)) {
      stage.reduction += c.exposed;
    }
    const StageClassStates& statics = view.statics_at(p);
    stage.optimizer = statics.optimizer + exposed_copies(view, statics.offload, pass);
    const Assignment& held = view.assignment();
    for (std::size_t k = 0; k + 1 < held.stop_count(); ++k) {
      if (!held.runs_at(k, p)) continue;
      const BoundaryTransfers transfers = chain_transfers(view, k);
      stage.edge_bytes = std::max(stage.edge_bytes, transfers.activation.bytes);
      stage.edge_time = std::max(stage.edge_time, transfers.activation.time);
      stage.edge_leaves_node =
          stage.edge_leaves_node ||
          view.boundary(k).left_domain >= view.problem.cluster->accelerators_per_node;
    }
    stage.memory = device_memory(view, p, workspace).memory.total();
    stages.push_back(std::move(stage));
  }
  return stages;
}

namespace {

/// The messages that bring an operator its inputs, and those that take the block's outputs from it.
Seconds messages_of(const BlockWork& work, const BlockIndex& index, std::size_t op) {
  PhaseTimes sum = edge_price(work, index, kEdge, op);
  for (std::size_t producer = 0; producer < op; ++producer) {
    sum += edge_price(work, index, producer, op);
  }
  sum += edge_price(work, index, op, kNextBlock);
  return sum.total();
}

/// One row per launch: operators that run as one kernel are named together.
void append_block(const Block& block, const BlockIndex& index, const BlockWork& work, double copies,
                  std::vector<OperatorReport>& lines) {
  const std::string* launch = nullptr;
  for (std::size_t op = 0; op < block.operators.size(); ++op) {
    const Operator& described = block.operators[op];
    const bool joins = launch != nullptr && !launch->empty() && *launch == described.fused_key;
    launch = &described.fused_key;
    const PhaseTimes own = operator_price(work, op);
    const OperatorReport line{block.name,
                              copies,
                              described.name,
                              own.forward,
                              own.input_gradient,
                              own.weight_gradient,
                              messages_of(work, index, op)};
    if (joins) {
      lines.back().add(line);
    } else {
      lines.push_back(line);
    }
  }
}

}  // namespace

void OperatorReport::add(const OperatorReport& other) {
  name += ", " + other.name;
  forward += other.forward;
  input_gradient += other.input_gradient;
  weight_gradient += other.weight_gradient;
  messages += other.messages;
}

std::vector<OperatorReport> operators_at(const ProfileMaker& profiles, const PricingInput& view,
                                         int position) {
  const Network& network = *view.problem.network;
  std::vector<OperatorReport> lines;
  for_each_transform_at(view, position, [&](int number) {
    const TransformInvariants& transform =
        view.invariants.transforms[static_cast<std::size_t>(number)];
    const std::vector<BlockWork>& work = transform.profile->work->blocks;
    const std::vector<double> copies = copies_at(view, position, number);
    for (std::size_t b = 0; b < copies.size(); ++b) {
      if (copies[b] <= 0.0) continue;
      append_block(network.blocks[b], profiles.index()[b], work[b],
                   copies[b] * transform.degrees->pieces, lines);
    }
  });
  std::erase_if(lines, [](const OperatorReport& line) { return line.total() == Seconds(0); });
  return lines;
}

PlanDetails details_of(const ProfileMaker& profiles, const PricingInput& view,
                       const ListedStep* listed, EvaluationWorkspace& workspace) {
  const int busiest = step_time(view, MakespanMethod::Simulation, workspace).busiest;
  PlanDetails details{communication_of(profiles, view, listed, workspace),
                      stages_of_view(view, workspace), operators_at(profiles, view, busiest),
                      hidden_at(profiles, view, busiest), held_at_peak(profiles, view, workspace)};
  if (view.order.window) details.order = found_order(view, workspace);
  return details;
}

}  // namespace plansearch
