// SPDX-License-Identifier: Apache-2.0
// Computes: the program of a plan with the durations, bytes and links of its price.
// Source: the passes, boundaries and step messages that step_model.cpp and memory_model.cpp read.
// Assumes: one representative rank per position; what of reductions is exposed runs after the
//          pipeline; the ranks of a position have their share of its network cards for themselves.
// Units: ticks, bytes.
// Checked by: tests/unit/evaluate/priced_program_test.cpp, against the step time and the peak
// memory
#include "evaluate/priced_program.hpp"

#include <algorithm>

#include "evaluate/group_pass.hpp"
#include "evaluate/memory_model.hpp"
#include "evaluate/step_collectives.hpp"
#include "plan/pipeline_shape.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

PipelineBytes bytes_of(const PlanView& view) {
  PipelineBytes bytes;
  const auto& groups = view.assignment().groups;
  for (const OperatorGroup& group : groups) {
    const GroupBytes kept = group_bytes(view, view.content(group.content));
    bytes.saved.push_back(kept.saved);
    bytes.for_weights.push_back(kept.for_weights);
  }
  for (std::size_t k = 0; k + 1 < groups.size(); ++k) {
    const BoundaryTransfers transfers = boundary_transfers(view, k);
    bytes.activation.push_back(transfers.activation.bytes);
    bytes.gradient.push_back(transfers.gradient.bytes);
  }
  return bytes;
}

/// The cards of a position, out and in; messages inside a node have links of their own.
PipelineLinks links_of(const PlanView& view) {
  PipelineLinks links;
  const auto& groups = view.assignment().groups;
  const int node = view.problem.cluster->accelerators_per_node;
  for (int p = 0; p < view.assignment().stages(); ++p) {
    links.resources.push_back({ResourceKind::NicOut, p});
    links.resources.push_back({ResourceKind::NicIn, p});
  }
  const auto way = [](int from, int to) {
    const auto out = static_cast<std::uint32_t>(2 * from);
    const auto in = static_cast<std::uint32_t>(2 * to + 1);
    return std::vector<ResourceUse>{{out, 1.0}, {in, 1.0}};
  };
  for (std::size_t k = 0; k + 1 < groups.size(); ++k) {
    const bool leaves = view.boundary(k).left_domain >= node;
    const int low = groups[k].position;
    const int high = groups[k + 1].position;
    links.forward.push_back(leaves ? way(low, high) : std::vector<ResourceUse>{});
    links.backward.push_back(leaves ? way(high, low) : std::vector<ResourceUse>{});
  }
  return links;
}

StepEnd end_of(const PlanView& view) {
  StepEnd end;
  end.together = view.problem.framework->optimizer_start == OptimizerStart::Together;
  for (int p = 0; p < view.assignment().stages(); ++p) {
    const auto kind = static_cast<std::size_t>(view.kind_of(p));
    end.sums_shared.push_back(!view.ground.messages[kind].last.empty());
  }
  return end;
}

std::vector<StepEndTicks> end_ticks(const PlanView& view, const EvaluationWorkspace& workspace) {
  std::vector<StepEndTicks> ends;
  for (int p = 0; p < view.assignment().stages(); ++p) {
    const auto kind = static_cast<std::size_t>(view.kind_of(p));
    Seconds shared;
    for (const PassMessage& message : view.ground.messages[kind].last) shared += message.time;
    const KindStatics& statics = view.ground.kinds[kind];
    ends.push_back({to_ticks(workspace.work[kind].reduction - shared), to_ticks(shared),
                    to_ticks(statics.optimizer + statics.host)});
  }
  return ends;
}

std::vector<ProgramDevice> devices_of(const PlanView& view, EvaluationWorkspace& workspace) {
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

SendPolicy sends_of(const PipelineShape& shape) {
  return shape.transfers == TransferMode::Blocking ? SendPolicy::Blocking
                                                   : SendPolicy::Asynchronous;
}

}  // namespace

PricedProgram priced_program(const PlanView& view, const ProgramRequest& request,
                             EvaluationWorkspace& workspace) {
  fill_passes(view, workspace);
  fill_durations(view, workspace);
  fill_work(view, workspace);
  PlanDegrees degrees = *view.ground.transforms.front().degrees;
  degrees.micro_batches = request.micro_batches.value_or(degrees.micro_batches);
  const PipelineShape shape =
      tuned_to(pipeline_shape(degrees, *view.problem.framework), workspace.durations.view());
  auto order = make_order(shape);
  PLANSEARCH_CHECK(std::holds_alternative<ComputeOrder>(order));
  const PipelineBytes bytes = bytes_of(view);
  const PipelineLinks links = links_of(view);
  const StepEnd end = end_of(view);
  LoweringOptions options;
  options.sends = sends_of(shape);
  options.bytes = &bytes;
  options.links = request.links == MessageLinks::Shared ? &links : nullptr;
  options.end = &end;
  const auto& made = std::get<ComputeOrder>(order);
  const std::vector<Ticks> durations =
      duration_table(workspace.durations.view(), made.weight_gradients, end_ticks(view, workspace));
  auto simulated = simulate_program(lower(made, options), durations);
  if (const auto* fault = std::get_if<ProgramFault>(&simulated)) {
    throw InputError({}, fault->detail, "another schedule, or asynchronous sends");
  }
  return {std::get<SimulatedProgram>(std::move(simulated)), shape, devices_of(view, workspace)};
}

}  // namespace plansearch
