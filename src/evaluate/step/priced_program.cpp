// SPDX-License-Identifier: Apache-2.0
// Computes: the program of a plan with the durations, bytes and links of its price.
// Source: the passes, boundaries and step messages that step_model.cpp and memory_model.cpp read.
// Assumes: one representative rank per position; what of reductions is exposed runs after the
//          pipeline; the ranks of a position have their share of its network cards for themselves.
// Units: ticks, bytes.
// Checked by: tests/unit/evaluate/priced_program_test.cpp, against the step time and the peak
// memory
#include "evaluate/step/priced_program.hpp"

#include <algorithm>
#include <cmath>

#include "evaluate/memory/memory_model.hpp"
#include "evaluate/step/group_pass.hpp"
#include "evaluate/step/step_collectives.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

bool just_in_time(const Problem& problem) {
  return problem.framework->pipeline_lists == PipelineLists::JustInTime;
}

PipelineBytes bytes_of(const PricingInput& view) {
  PipelineBytes bytes;
  const auto& groups = view.assignment().groups;
  for (const OperatorGroup& group : groups) {
    const GroupBytes kept = group_bytes(view, view.content(group.content));
    bytes.saved.push_back(kept.saved);
    bytes.for_weights.push_back(kept.for_weights);
  }
  for (std::size_t k = 0; k < view.invariants.routed->boundaries.size(); ++k) {
    const BoundaryTransfers transfers = boundary_transfers(view, k);
    bytes.activation.push_back(transfers.activation.bytes);
    bytes.gradient.push_back(transfers.gradient.bytes);
  }
  return bytes;
}

/// The cards of a position, out and in; messages inside a node have links of their own.
PipelineLinks links_of(const PricingInput& view) {
  PipelineLinks links;
  const auto& groups = view.assignment().groups;
  const int node = view.problem.cluster->accelerators_per_node;
  for (int p = 0; p < view.assignment().stages(); ++p) {
    links.resources.push_back({ResourceKind::NicOut, p});
    links.resources.push_back({ResourceKind::NicIn, p});
  }
  const auto link = [](int from, int to) {
    const auto out = static_cast<std::uint32_t>(2 * from);
    const auto in = static_cast<std::uint32_t>(2 * to + 1);
    return std::vector<ResourceUse>{{out, 1.0}, {in, 1.0}};
  };
  for (std::size_t k = 0; k < view.invariants.routed->boundaries.size(); ++k) {
    const bool leaves = view.boundary(k).left_domain >= node;
    const int low = groups[k].position;
    const int high = groups[(k + 1) % groups.size()].position;
    links.forward.push_back(leaves ? link(low, high) : std::vector<ResourceUse>{});
    links.backward.push_back(leaves ? link(high, low) : std::vector<ResourceUse>{});
  }
  return links;
}

StepEnd end_of(const PricingInput& view) {
  StepEnd end;
  const OptimizerStart start = view.optimizer_start();
  end.together = start == OptimizerStart::Together;
  if (just_in_time(view.problem)) end.reductions = ReductionTime::WithLastBackward;
  for (int p = 0; p < view.assignment().stages(); ++p) {
    const auto kind = static_cast<std::size_t>(view.kind_of(p));
    end.sums_shared.push_back(!view.invariants.messages[kind].last.empty());
  }
  return end;
}

std::vector<StepEndTicks> end_ticks(const PricingInput& view,
                                    const EvaluationWorkspace& workspace) {
  std::vector<StepEndTicks> ends;
  for (int p = 0; p < view.assignment().stages(); ++p) {
    const auto kind = static_cast<std::size_t>(view.kind_of(p));
    Seconds shared;
    for (const PhaseMessage& message : view.invariants.messages[kind].last) shared += message.time;
    const StageClassWork& work = workspace.work[kind];
    ends.push_back({to_ticks(work.reduction - shared), to_ticks(shared),
                    to_ticks(work.optimizer + view.invariants.kinds[kind].host)});
  }
  return ends;
}

std::vector<ProgramDevice> devices_of(const PricingInput& view, EvaluationWorkspace& workspace) {
  std::vector<ProgramDevice> devices;
  for (int p = 0; p < view.assignment().stages(); ++p) {
    const MemoryBreakdown memory = device_memory(view, p, workspace).memory;
    const DevicePosition& place = view.assignment().positions[static_cast<std::size_t>(p)];
    const PlanDegrees& degrees = *view.transform_at(p).degrees;
    devices.push_back(
        {place.first, degrees.devices() / degrees.pipeline, memory.total() - memory.activations});
  }
  return devices;
}

SendPolicy sends_of(const Problem& problem, const PipelineShape& shape) {
  if (just_in_time(problem)) return SendPolicy::JustInTime;
  return shape.transfers == TransferMode::Blocking ? SendPolicy::Blocking
                                                   : SendPolicy::Asynchronous;
}

/// Buffers beyond the first at both ends of every channel, as memory allows: two are enough to keep
/// any pipeline going.
int slots_of(const PricingInput& view, const SimulatedProgram& base,
             const std::vector<ProgramDevice>& devices) {
  constexpr double kEnough = 2.0;
  std::vector<Bytes> ends(devices.size());
  for (const Channel& channel : base.program.channels) {
    Bytes largest;
    for (const Message& message : base.program.messages) {
      if (&base.program.channels[message.channel] != &channel) continue;
      if (message.arriving == kNoId) continue;
      largest = std::max(largest, base.program.buffers[message.arriving].bytes);
    }
    ends[static_cast<std::size_t>(channel.source)] += largest;
    ends[static_cast<std::size_t>(channel.destination)] += largest;
  }
  const Bytes limit = view.problem.cluster->accelerator.memory - view.problem.memory_reserve;
  const std::vector<Bytes> peaks = peak_bytes(base);
  double slots = kEnough;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    const Bytes room = limit - devices[d].always - peaks[d];
    if (ends[d] > Bytes(0)) slots = std::clamp(std::floor(room / ends[d]), 0.0, slots);
  }
  return static_cast<int>(slots);
}

}  // namespace

bool is_listed(const Problem& problem) {
  return problem.passes.has_value() || just_in_time(problem);
}

std::shared_ptr<const ListedStep> listed_step(const PricingInput& view,
                                              EvaluationWorkspace& workspace) {
  if (!is_listed(view.problem)) return nullptr;
  PricedProgram program = priced_program(view, {}, workspace);
  return std::make_shared<const ListedStep>(ListedStep{
      program.makespan(), span(program), peak_bytes(program), std::move(program.passes)});
}

DeviceMemory listed_device_memory(const PricingInput& view, const ListedStep& listed,
                                  EvaluationWorkspace& workspace) {
  DeviceMemory worst;
  for (int p = 0; p < view.assignment().stages(); ++p) {
    DeviceMemory device = device_memory(view, p, workspace);
    const Bytes messages = listed.peaks[static_cast<std::size_t>(p)] - device.memory.activations;
    device.memory.buffers += std::max(messages, Bytes(0));
    take_worse(device, worst);
  }
  return worst;
}

PricedProgram priced_program(const PricingInput& view, const ProgramRequest& request,
                             EvaluationWorkspace& workspace) {
  if (view.order.window) {
    throw InputError({}, "an order that is found for a plan has no program of instructions",
                     "leave out what needs one: --timeline, --trace, --passes");
  }
  fill_durations(view, workspace);
  fill_work(view, workspace);
  PlanDegrees degrees = *view.invariants.transforms.front().degrees;
  degrees.micro_batches = request.micro_batches.value_or(degrees.micro_batches);
  const PipelineShape shape =
      tuned_to(pipeline_shape(degrees, *view.problem.framework, *view.problem.network),
               workspace.durations.view());
  auto order = make_order(shape);
  PLANSEARCH_CHECK(std::holds_alternative<ComputeOrder>(order));
  const auto& made = std::get<ComputeOrder>(order);
  const PipelineBytes bytes = bytes_of(view);
  const PipelineLinks links = links_of(view);
  const StepEnd end = end_of(view);
  const bool shared = request.links == MessageLinks::Shared || is_listed(view.problem);
  LoweringOptions options;
  options.sends = sends_of(view.problem, shape);
  options.bytes = &bytes;
  options.links = shared ? &links : nullptr;
  options.end = &end;
  const std::vector<Ticks> durations =
      duration_table(workspace.durations.view(), made.weight_gradients, end_ticks(view, workspace));
  auto simulated = simulate_program(lower(made, options), durations);
  if (const auto* fault = std::get_if<ProgramFault>(&simulated)) {
    throw InputError({}, fault->detail, "another schedule, or asynchronous sends");
  }
  PricedProgram result;
  static_cast<SimulatedProgram&>(result) = std::get<SimulatedProgram>(std::move(simulated));
  result.shape = shape;
  result.devices = devices_of(view, workspace);
  if (!view.problem.passes) return result;
  result.slots = slots_of(view, result, result.devices);
  PassedProgram passed = apply_passes(static_cast<SimulatedProgram&&>(result), *view.problem.passes,
                                      durations, {result.slots});
  static_cast<SimulatedProgram&>(result) = std::move(passed.simulated);
  result.passes = std::move(passed.outcomes);
  return result;
}

}  // namespace plansearch
