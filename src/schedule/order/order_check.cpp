// SPDX-License-Identifier: Apache-2.0
// Computes:   the cycle of waits of an order that cannot run; where an order outgrows its memory.
// Source:     the template of a pipeline; devices run in order.
// Assumes:    as order_check.hpp.
// Units:      ticks; chunks.
// Checked by: tests/unit/schedule/order_check_test.cpp, against a token simulator
#include "schedule/order/order_check.hpp"

#include <algorithm>

#include "schedule/program/timeline.hpp"

namespace plansearch {
namespace {

std::string name_of(const WaitingStep& waiting) {
  const ComputeStep& step = waiting.step;
  return step_name(step.phase, step.micro_batch, step.pass) + " of stage " +
         std::to_string(waiting.stage);
}

/// "device 0: B0 of stage 0 needs B0 of stage 1, device 1: ..."
std::string in_words(const std::vector<WaitingStep>& cycle) {
  std::string text = "the order waits for itself:";
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const WaitingStep& next = cycle[(i + 1) % cycle.size()];
    const bool input = cycle[i].because == WhyWaits::Input;
    text += std::string(i == 0 ? "" : ",") + " device " + std::to_string(cycle[i].device) + ": " +
            name_of(cycle[i]) + (input ? " needs " : " is behind ") + name_of(next);
  }
  return text;
}

/// The steps of an order as nodes of its template.
std::optional<OrderFault> deadlock_of(const ComputeOrder& order) {
  const TaskTemplate pipeline = pipeline_template(order);
  const PipelineNodes nodes(order);
  const std::vector<std::size_t> stage_of = stages_by_place(order);
  TemplateLists lists;
  for (std::size_t d = 0; d < order.devices.size(); ++d) {
    auto& list = lists.emplace_back();
    const std::size_t place = d * static_cast<std::size_t>(order.chunks());
    for (const ComputeStep& step : order.devices[d]) {
      const std::size_t stage = stage_of[place + static_cast<std::size_t>(step.chunk)];
      list.push_back({nodes.of(stage, step), step.micro_batch, step.joined});
    }
  }
  const auto waits = find_deadlock(pipeline, order.micro_batches, lists);
  if (waits.empty()) return std::nullopt;
  OrderFault fault{OrderFaultKind::Deadlock, {}, {}};
  for (const TemplateWait& wait : waits) {
    const TemplateNode& node = pipeline.node(wait.step.node);
    const auto stage = static_cast<std::size_t>(node.group);
    fault.cycle.push_back(
        {wait.device,
         stage,
         {order.pipeline[stage].chunk, wait.step.micro_batch, node.phase, false, node.pass},
         wait.because});
  }
  fault.detail = in_words(fault.cycle);
  return fault;
}

}  // namespace

std::optional<OrderFault> check_order(const ComputeOrder& order) {
  constexpr std::size_t kMostNamed = 5;
  const std::vector<std::string> faults = order_faults(order);
  if (faults.empty()) return deadlock_of(order);
  OrderFault fault{OrderFaultKind::Incomplete, faults.front(), {}};
  for (std::size_t i = 1; i < std::min(faults.size(), kMostNamed); ++i) {
    fault.detail += "; " + faults[i];
  }
  if (faults.size() > kMostNamed) {
    fault.detail += "; and " + std::to_string(faults.size() - kMostNamed) + " more";
  }
  return fault;
}

std::optional<MemoryFault> check_memory(const ComputeOrder& order, const Timeline& timeline,
                                        int most_chunks) {
  std::optional<MemoryFault> worst;
  std::vector<int> kept(order.devices.size(), 0);
  std::vector<bool> full(order.devices.size(), false);
  for (const TimelineEntry& entry : timeline.entries) {  // by device and then by start
    int& count = kept[static_cast<std::size_t>(entry.device)];
    if (entry.step.phase == order.last_phase()) --count;
    if (!order.keeps(entry.step)) continue;
    if (++count <= most_chunks || full[static_cast<std::size_t>(entry.device)]) continue;
    full[static_cast<std::size_t>(entry.device)] = true;
    if (worst && worst->time <= entry.start) continue;
    worst = MemoryFault{entry.device, entry.start, entry.step, count};
  }
  return worst;
}

}  // namespace plansearch
