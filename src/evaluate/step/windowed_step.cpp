// SPDX-License-Identifier: Apache-2.0
// Computes: the order of a plan as the shortest window that repeats with every micro-batch, the
//           ends of its devices and what they keep.
// Source: schedule/window (Rau 1994; Tessel, HPCA 2024) on the passes of the plan, times rounded to
//         a few dozen ticks a window; the sequence that it finds with exact times.
// Assumes: messages between stops travel beside kernels, or block their sender, as the framework
//          says; no two of one channel at a time in a window longer than a message; every device of
//          a gang waits for the slowest.
// Units: ticks, bytes.
// Checked by: tests/unit/evaluate/windowed_step_test.cpp
#include "evaluate/step/windowed_step.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "evaluate/memory/memory_model.hpp"
#include "plan/stages/gangs.hpp"
#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

/// Of the busiest device and micro-batch. Windows of up to 64 ticks are searched at every start.
constexpr double kTicksOfWork = 48.0;
/// Starts that are tried for one length, by passes of a micro-batch: each takes as long as it has
/// passes.
constexpr std::int64_t kMostChoices = 2'400'000;
constexpr double kGrowth = 1.0 / 16.0;
/// Of the largest that a pass keeps.
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

/// The passes of a micro-batch, what they wait for and how long. `transfers`: with their messages.
BlockPlan passes_of(const PricingInput& view, const PipelineTimes& times,
                    const std::vector<Bytes>& saved, bool transfers) {
  const Assignment& assignment = view.assignment();
  const std::size_t stops = assignment.stop_count();
  const std::vector<std::string> names = pass_names(assignment, *view.problem.network);
  const bool blocking = view.shape().transfers == TransferMode::Blocking;
  Bytes most;
  for (const Bytes bytes : saved) most = std::max(most, bytes);
  std::vector<PlanBlock> blocks;
  std::vector<std::vector<int>> devices;
  std::vector<BeforeRule> rules;
  const auto sent = [&](std::span<const Ticks> messages, std::size_t boundary) {
    return transfers ? messages[boundary] : Ticks{0};
  };
  for (std::size_t k = 0; k < stops; ++k) {
    const Ticks out = k + 1 < stops ? sent(times.activation_transfer, k) : 0;
    const Ticks back = k > 0 ? sent(times.gradient_transfer, k - 1) : 0;
    const auto units =
        most > Bytes(0) ? static_cast<int>(std::lround(kMemoryUnits * (saved[k] / most))) : 0;
    const auto forward = static_cast<NodeId>(2 * k);
    blocks.push_back(
        {names[2 * k], std::max<Ticks>(times.forward[k] + (blocking ? out : 0), 1), units});
    blocks.push_back(
        {names[2 * k + 1], std::max<Ticks>(times.backward[k] + (blocking ? back : 0), 1), -units});
    devices.insert(devices.end(), 2, devices_of(assignment, k));
    if (k + 1 == stops) {
      rules.push_back({forward, forward + 1, 0, 0});
      continue;
    }
    rules.push_back({forward, forward + 2, 0, blocking ? 0 : out});
    const Ticks next_back = sent(times.gradient_transfer, k);
    rules.push_back({forward + 3, forward + 1, 0, blocking ? 0 : next_back});
  }
  for (const OrderRule& rule : view.order.rules) {
    rules.push_back({node_of(rule.first), node_of(rule.second), rule.later, 0});
  }
  return make_block_plan(view.problem.network->name, assignment.stages(), std::move(blocks),
                         std::move(devices), std::move(rules));
}

/// Times in few ticks; what takes any takes one.
BlockPlan rounded(BlockPlan plan) {
  const std::vector<Ticks> work = work_of_devices(plan);
  const double tick =
      static_cast<double>(*std::max_element(work.begin(), work.end())) / kTicksOfWork;
  if (tick <= 1.0) return plan;
  for (PlanBlock& block : plan.blocks) {
    block.time = std::max<Ticks>(
        static_cast<Ticks>(std::llround(static_cast<double>(block.time) / tick)), 1);
  }
  for (BeforeRule& rule : plan.rules) {
    rule.delay = static_cast<Ticks>(std::ceil(static_cast<double>(rule.delay) / tick));
  }
  return plan;
}

bool same_question(const BlockPlan& a, const BlockPlan& b) {
  if (a.blocks != b.blocks || a.rules != b.rules || a.nodes.size() != b.nodes.size()) return false;
  for (NodeId id = 0; id < a.nodes.size(); ++id) {
    if (!(a.nodes.node(id) == b.nodes.node(id))) return false;
  }
  return true;
}

/// Plans that round to the same times have one window: a thread remembers the last.
WindowOrder find_order(BlockPlan plan, int micro_batches) {
  struct Known {
    std::optional<BlockPlan> plan;
    int micro_batches = 0;
    WindowOrder order;
  };
  thread_local Known last;
  if (last.plan && last.micro_batches == micro_batches && same_question(*last.plan, plan)) {
    return last.order;
  }
  const std::vector<std::optional<int>> no_caps(plan.devices());
  const auto passes = static_cast<std::int64_t>(plan.blocks.size());
  const auto found = find_window(plan, {micro_batches, no_caps, kMostChoices / passes, kGrowth});
  check_stop();  // a window that was cut short is none to remember
  if (const auto* none = std::get_if<NoWindow>(&found)) {
    throw SimulationLimit("no order of the plan: " + none->reason, none->remedy);
  }
  last = {std::move(plan), micro_batches, std::get<WindowOrder>(found)};
  return last.order;
}

/// First start and last end of every device.
std::vector<DeviceUse> uses_of(const BlockPlan& plan, const BlockStarts& starts) {
  std::vector<DeviceUse> uses;
  for (const std::vector<BlockTurn>& turns : runs_by_device(plan, starts)) {
    DeviceUse& use = uses.emplace_back();
    if (turns.empty()) continue;
    use.first_start = turns.front().start;
    for (const BlockTurn& turn : turns) {
      use.busy += plan.blocks[turn.node].time;
      use.last_end = std::max(use.last_end, turn.start + plan.blocks[turn.node].time);
    }
  }
  return uses;
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
  BlockPlan plan = passes_of(view, times, saved, true);
  WindowOrder order = find_order(rounded(plan), view.order.micro_batches);
  const auto run = [&](const BlockPlan& passes) {
    return unrolled(passes, order.window, order.period, view.order.micro_batches);
  };
  const BlockPlan free = passes_of(view, times, saved, false);
  const std::vector<DeviceUse> freed = uses_of(free, run(free));
  BlockStarts starts = run(plan);
  std::vector<DeviceUse> uses = uses_of(plan, starts);
  std::vector<DeviceEnd> ends;
  for (std::size_t p = 0; p < uses.size(); ++p) {
    ends.push_back({to_seconds(uses[p].last_end), to_seconds(freed[p].last_end),
                    to_seconds(uses[p].first_start), to_seconds(freed[p].first_start)});
  }
  const Ticks makespan = makespan_of(plan, starts);
  known.reset(new WindowedStep{workspace.durations, view.order.rules, view.order.micro_batches,
                               std::move(plan), std::move(order), std::move(starts),
                               std::move(ends), std::move(uses), makespan});
  return *known;
}

Ticks least_window_step(const PricingInput& view, OptimizerStart start,
                        EvaluationWorkspace& workspace) {
  const BlockPlan plan = passes_of(view, workspace.durations.view(), saved_by_stop(view), true);
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
