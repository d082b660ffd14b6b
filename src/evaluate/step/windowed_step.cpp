// SPDX-License-Identifier: Apache-2.0
// Computes: the order of a plan as the shortest window that repeats with every micro-batch, the
//           ends of its devices and what they keep.
// Source: schedule/window (Rau 1994; Tessel, HPCA 2024) on the passes of the plan; the sequence
//         that it finds with exact times.
// Assumes: messages between stops travel beside kernels, or block their sender, as the framework
//          says; no two of one channel at a time in a window longer than a message; every device of
//          a gang waits for the slowest.
// Units: ticks, bytes.
// Checked by: tests/unit/evaluate/windowed_step_test.cpp
#include "evaluate/step/windowed_step.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "evaluate/memory/memory_model.hpp"
#include "plan/stages/gangs.hpp"

namespace plansearch {
namespace {

/// Units in which the search counts the memory of a pass, by the largest that any keeps.
constexpr double kMemoryUnits = 64.0;

NodeId node_of(const StopPass& pass) {
  return static_cast<NodeId>(2 * pass.stop + (pass.backward ? 1 : 0));
}

std::vector<int> devices_of(const Assignment& assignment, std::size_t stop) {
  const Gang* gang = assignment.gang_at(stop);
  if (gang != nullptr) return gang->positions;
  return {assignment.group_at(stop).position};
}

std::vector<Bytes> saved_by_stop(const PricingInput& view) {
  std::vector<Bytes> saved;
  for (std::size_t k = 0; k < view.assignment().stop_count(); ++k) {
    saved.push_back(group_bytes(view, view.content(view.assignment().content_at(k))).saved);
  }
  return saved;
}

/// The passes of a micro-batch with the rules between them.
BlockPlan passes_of(const PricingInput& view, const PipelineTimes& times,
                    const std::vector<Bytes>& saved) {
  const Assignment& assignment = view.assignment();
  const std::size_t stops = assignment.stop_count();
  std::vector<std::vector<int>> devices;
  for (std::size_t k = 0; k < stops; ++k)
    devices.insert(devices.end(), 2, devices_of(assignment, k));
  const std::vector<std::string> names = pass_names(assignment, *view.problem.network);
  const bool blocking = view.shape().transfers == TransferMode::Blocking;
  Bytes most;
  for (const Bytes bytes : saved) most = std::max(most, bytes);
  std::vector<PlanBlock> blocks;
  std::vector<BeforeRule> rules;
  for (std::size_t k = 0; k < stops; ++k) {
    const Ticks out = k + 1 < stops ? times.activation_transfer[k] : 0;
    const Ticks back = k > 0 ? times.gradient_transfer[k - 1] : 0;
    const auto units =
        most > Bytes(0) ? static_cast<int>(std::lround(kMemoryUnits * (saved[k] / most))) : 0;
    const auto forward = static_cast<NodeId>(2 * k);
    blocks.push_back(
        {names[2 * k], std::max<Ticks>(times.forward[k] + (blocking ? out : 0), 1), units});
    blocks.push_back(
        {names[2 * k + 1], std::max<Ticks>(times.backward[k] + (blocking ? back : 0), 1), -units});
    if (k + 1 == stops) {
      rules.push_back({forward, forward + 1, 0, 0});
      continue;
    }
    rules.push_back({forward, forward + 2, 0, blocking ? 0 : out});
    rules.push_back({forward + 3, forward + 1, 0, blocking ? 0 : times.gradient_transfer[k]});
  }
  for (const OrderRule& rule : view.order.rules) {
    rules.push_back({node_of(rule.first), node_of(rule.second), rule.later, 0});
  }
  return make_block_plan(view.problem.network->name, assignment.stages(), std::move(blocks),
                         std::move(devices), std::move(rules));
}

}  // namespace

void WindowedStepDeleter::operator()(WindowedStep* step) const {
  delete step;
}

const WindowedStep& windowed_step(const PricingInput& view, EvaluationWorkspace& workspace) {
  auto& known = workspace.windowed;
  const bool same = known && known->durations == workspace.durations &&
                    known->rules == view.order.rules &&
                    known->micro_batches == view.order.micro_batches;
  if (same) return *known;
  const PipelineTimes times = workspace.durations.view();
  const std::vector<Bytes> saved = saved_by_stop(view);
  workspace.no_transfers.assign(times.activation_transfer.size(), 0);
  PipelineTimes silent = times;
  silent.activation_transfer = silent.gradient_transfer = workspace.no_transfers;
  const BlockPlan free = passes_of(view, silent, saved);
  BlockPlan plan = passes_of(view, times, saved);
  WindowOrder order = coarse_window(plan, view.order.micro_batches);
  const auto run = [&](const BlockPlan& passes) {
    return unrolled(passes, order.window, order.period, view.order.micro_batches);
  };
  const std::vector<DeviceUse> freed = uses_of(free, run(free));
  BlockStarts starts = run(plan);
  std::vector<DeviceUse> uses = uses_of(plan, starts);
  const Ticks makespan = makespan_of(plan, starts);
  std::vector<DeviceEnd> ends;
  for (std::size_t p = 0; p < uses.size(); ++p) {
    ends.push_back({to_seconds(uses[p].last_end), to_seconds(freed[p].last_end),
                    to_seconds(uses[p].first_start), to_seconds(freed[p].first_start)});
  }
  known.reset(new WindowedStep{workspace.durations, view.order.rules, view.order.micro_batches,
                               std::move(plan), std::move(order), std::move(starts),
                               std::move(ends), std::move(uses), makespan});
  return *known;
}

Ticks least_window_step(const PricingInput& view, OptimizerStart start,
                        EvaluationWorkspace& workspace) {
  const BlockPlan plan = passes_of(view, workspace.durations.view(), saved_by_stop(view));
  if (start == OptimizerStart::PostValidated) {  // devices go on with the next step
    const std::vector<Ticks> work = work_of_devices(plan);
    return view.order.micro_batches * *std::max_element(work.begin(), work.end());
  }
  return least_makespan(plan, view.order.micro_batches);
}

Bytes least_window_peak(const PricingInput& view, int position) {
  const std::vector<Bytes> saved = saved_by_stop(view);
  Bytes kept;
  for (std::size_t k = 0; k < saved.size(); ++k) {
    if (view.assignment().runs_at(k, position)) kept += saved[k];
  }
  return kept;
}

FoundOrder found_order(const PricingInput& view, EvaluationWorkspace& workspace) {
  const WindowedStep& step = windowed_step(view, workspace);
  FoundOrder found;
  const std::vector<Ticks> work = work_of_devices(step.plan);
  found.bound = to_seconds(*std::max_element(work.begin(), work.end()));
  // One micro-batch more, in the middle of the step.
  const int more = step.micro_batches + 1;
  const Ticks longer =
      makespan_of(step.plan, unrolled(step.plan, step.order.window, step.order.period, more));
  found.window = to_seconds(longer - step.makespan);
  const Assignment& assignment = view.assignment();
  for (const auto& turns : runs_by_device(step.plan, step.starts)) {
    int kept = 0;
    int most = 0;
    for (const BlockTurn& turn : turns) {
      if (assignment.gang_at(turn.node / 2) != nullptr) continue;
      kept += turn.node % 2 == 0 ? 1 : 0;
      most = std::max(most, kept);
      kept -= turn.node % 2 == 0 ? 0 : 1;
    }
    found.kept.push_back(most);
  }
  return found;
}

Bytes window_peak(const PricingInput& view, int position, EvaluationWorkspace& workspace) {
  const WindowedStep& step = windowed_step(view, workspace);
  const std::vector<Bytes> saved = saved_by_stop(view);
  Bytes kept;
  Bytes peak;
  const std::vector<std::vector<BlockTurn>> runs = runs_by_device(step.plan, step.starts);
  for (const BlockTurn& turn : runs[static_cast<std::size_t>(position)]) {
    const bool forward = turn.node % 2 == 0;
    if (forward) kept += saved[turn.node / 2];
    peak = std::max(peak, kept);
    if (!forward) kept -= saved[turn.node / 2];
  }
  return peak;
}

}  // namespace plansearch
