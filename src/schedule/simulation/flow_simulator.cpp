// SPDX-License-Identifier: Apache-2.0
// Computes:   makespan and device use of GPipe and breadth-first pipelines.
// Source:     permutation flow shops of equal jobs: a machine delays convex arrival times to convex
//             ones.
// Assumes:    in-order compute queues; one send stream per device and direction.
// Units:      ticks.
// Checked by: tests/unit/schedule/order_simulator_test.cpp, against every step of the same order.
#include "schedule/simulation/flow_simulator.hpp"

#include <algorithm>

#include "schedule/simulation/pipeline_tasks.hpp"

namespace plansearch {
namespace {

/// Exposed time of `count` waits of length `wait` for messages of lag `first`, then `first +
/// growth`, ...: the sum of min(wait, lag).
Ticks exposed_sum(Ticks wait, Ticks first, Ticks growth, Ticks count) {
  if (wait <= 0 || count <= 0) return 0;
  if (growth < 0) return exposed_sum(wait, first + growth * (count - 1), -growth, count);
  if (first >= wait) return wait * count;
  if (growth == 0) return first * count;
  const Ticks below = std::min(count, (wait - first + growth - 1) / growth);
  return below * first + growth * (below * (below - 1) / 2) + (count - below) * wait;
}

/// How many jobs, at most `left`, find the machine busy: the first one does.
Ticks queued(Ticks busy_for, Ticks arrival_step, Ticks duration, Ticks left) {
  if (arrival_step <= duration) return left;
  return std::min(left, busy_for / (arrival_step - duration) + 1);
}

}  // namespace

/// Appends, or makes the last run longer.
void FlowSimulator::add(Run run) {
  if (!output_.empty()) {
    Run& last = output_.back();
    if (last.count == 1) {
      last.there.step = run.there.first - last.there.first;
      last.made.step = run.made.first - last.made.first;
    }
    const bool same_steps =
        run.count == 1 || (run.there.step == last.there.step && run.made.step == last.made.step);
    if (same_steps && run.there.first == last.there.at(last.count) &&
        run.made.first == last.made.at(last.count)) {
      last.count += run.count;
      return;
    }
  }
  output_.push_back(run);
}

/// Work that ends at these times goes over the channel.
void FlowSimulator::send(Series ends, Ticks count, const Pass& pass) {
  Ticks& free = channels_[pass.channel];
  for (Ticks i = 0; i < count;) {
    const Ticks left = count - i;
    const Ticks end = ends.at(i);
    const Series made{end - pass.blocked, ends.step};
    Ticks sent = left;
    if (end <= free) {
      sent = queued(free - end, ends.step, pass.transfer, left);
      add({{free + pass.transfer, pass.transfer}, made, sent});
      free += sent * pass.transfer;
    } else {
      if (ends.step < pass.transfer) sent = 1;
      add({{end + pass.transfer, ends.step}, made, sent});
      free = end + (sent - 1) * ends.step + pass.transfer;
    }
    i += sent;
  }
}

/// Runs jobs of one run of messages, from number `from` on; returns how many.
Ticks FlowSimulator::serve(const Run& input, Ticks from, const Pass& pass, DeviceUse& use) {
  const Ticks left = input.count - from;
  const Ticks there = input.there.at(from);
  Ticks& free = use.last_end;
  if (there <= free) {
    const Ticks served = queued(free - there, input.there.step, pass.work, left);
    send({free + pass.work, pass.work}, served, pass);
    free += served * pass.work;
    return served;
  }
  const Ticks lag = there - input.made.at(from);
  const Ticks growth = input.there.step - input.made.step;
  const Ticks served = input.there.step < pass.work ? 1 : left;
  use.exposed_transfer +=
      std::min(there - free, lag) +
      exposed_sum(input.there.step - pass.work, lag + growth, growth, served - 1);
  send({there + pass.work, input.there.step}, served, pass);
  free = there + (served - 1) * input.there.step + pass.work;
  return served;
}

void FlowSimulator::run_pass(const Pass& pass, Ticks jobs, DeviceUse& use) {
  if (input_.empty()) input_.push_back({{}, {}, jobs});
  output_.clear();
  for (const Run& run : input_) {
    for (Ticks i = 0; i < run.count;) i += serve(run, i, pass, use);
  }
  use.busy += jobs * (pass.work - pass.blocked);
  use.exposed_transfer += jobs * pass.blocked;
  std::swap(input_, output_);
}

void FlowSimulator::run(const PipelineShape& shape, const PipelineTimes& times,
                        PipelineResult& result) {
  const LoopedTasks pieces(shape, times);
  const std::size_t stages = pieces.stages();
  const Ticks jobs = shape.micro_batches;
  channels_.assign(2 * stages, 0);
  result.devices.assign(stages, DeviceUse{});
  input_.clear();
  for (std::size_t k = 0; k < pieces.count(); ++k) {
    const Ticks stream = pieces.activation_stream(k);
    DeviceUse& use = result.devices[k % stages];
    if (k < stages && !input_.empty()) use.first_start = input_.front().there.first;
    run_pass({2 * (k % stages), pieces.forward(k), pieces.activation(k) - stream, stream}, jobs,
             use);
  }
  input_.clear();  // the last forward and the first backward run on one device
  for (std::size_t k = pieces.count(); k-- > 0;) {
    const Ticks stream = pieces.gradient_stream(k);
    run_pass({2 * (k % stages) + 1, pieces.backward(k), pieces.gradient(k) - stream, stream}, jobs,
             result.devices[k % stages]);
  }
  result.makespan = 0;
  for (const DeviceUse& use : result.devices) {
    result.makespan = std::max(result.makespan, use.last_end);
  }
  result.micro_batches_simulated = 0;
}

}  // namespace plansearch
