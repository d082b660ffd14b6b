// SPDX-License-Identifier: Apache-2.0
// Computes:   makespan and device use of any compute order.
// Source:     longest path; the steady state of max-plus linear systems (Baccelli et al., 1992).
// Assumes:    in-order compute queues; messages of a channel travel one at a time; receives are
//             posted ahead.
// Units:      ticks.
// Checked by: tests/unit/schedule/order_simulator_test.cpp, against the task graph.
#include "schedule/simulation/order_simulator.hpp"

#include <algorithm>

#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"
#include "schedule/program/program.hpp"

namespace plansearch {

void OrderSimulator::run_steps(const CompiledOrder& order, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const CompiledStep& step = order.steps[i];
    Line& device = devices_[step.device];
    if (step.input > 0) {
      const Output& input = outputs_[i - step.input];
      const Ticks wait = std::max<Ticks>(input.there - device.free, 0);
      device.exposed += std::min(wait, input.there - input.made);
      device.free += wait;
    }
    device.free += table_[step.duration];
    device.busy += table_[step.duration];
    Output& output = outputs_[i];
    output.there = output.made = device.free;
    if (step.message == 0) continue;
    Line& channel = channels_[step.channel];
    const Ticks transfer = table_[step.message];
    output.there = channel.free = std::max(channel.free, device.free) + transfer;
    if (!blocking_) continue;
    device.exposed += output.there - device.free;
    device.free = output.there;
  }
}

/// Whether everything later depends on is as at the remembered cut, later by one and the same time.
bool OrderSimulator::repeats(const CompiledOrder& order, std::size_t cut) const {
  const Ticks later = devices_[0].free - seen_.devices[0].free;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    if (devices_[d].free - seen_.devices[d].free != later) return false;
  }
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    if (channels_[c].free - seen_.channels[c].free != later) return false;
  }
  const Output* now = outputs_.data() + (cut - order.reach);
  for (std::size_t i = 0; i < order.reach; ++i) {
    if (now[i].there - seen_.outputs[i].there != later) return false;
    if (now[i].made - seen_.outputs[i].made != later) return false;
  }
  return true;
}

void OrderSimulator::remember(const CompiledOrder& order, std::size_t cut, int look) {
  const auto end = outputs_.begin() + static_cast<std::ptrdiff_t>(cut);
  seen_.outputs.assign(end - static_cast<std::ptrdiff_t>(order.reach), end);
  seen_.devices = devices_;
  seen_.channels = channels_;
  seen_.look = look;
}

/// Goes on from cut `to` of the sequence with what has happened up to cut `from`.
void OrderSimulator::move_cut(const CompiledOrder& order, std::size_t from, std::size_t to) {
  const auto at = [&](std::size_t i) { return outputs_.begin() + static_cast<std::ptrdiff_t>(i); };
  if (to < from) std::copy(at(from - order.reach), at(from), at(to - order.reach));
  if (to > from) std::copy_backward(at(from - order.reach), at(from), at(to));
}

/// Runs the sequence with the periods left out put back, and returns the time that was skipped.
/// Brent's search for a repetition, asked at every cut.
Ticks OrderSimulator::run_window(const CompiledOrder& order, int periods_left_out,
                                 SteadyState steady, PipelineResult& result) {
  const SteadyWindow& window = order.window;
  const std::size_t first_cut = (order.reach + window.length - 1) / window.length;
  const auto cut_at = [&](std::size_t n) { return window.first + n * window.length; };
  auto left_out = static_cast<std::size_t>(periods_left_out);
  bool searching = steady == SteadyState::Extrapolate;
  Ticks shift = 0;
  std::size_t n = std::max<std::size_t>(first_cut, 1);
  run_steps(order, 0, cut_at(n));
  note_first_starts(order, result);  // before anything is overwritten
  const std::size_t earliest = n;
  for (int look = 0; n < window.count || left_out > 0; ++look) {
    if (searching && look > 0 && repeats(order, cut_at(n))) {
      const auto period = static_cast<std::size_t>(look - seen_.look);
      const std::size_t left = window.count - n + left_out;
      const auto times = static_cast<Ticks>(left / period);
      shift = times * (devices_[0].free - seen_.devices[0].free);
      periods_skipped_ = static_cast<long long>(left / period * period);
      for (std::size_t d = 0; d < devices_.size(); ++d) {
        devices_[d].exposed += times * (devices_[d].exposed - seen_.devices[d].exposed);
        devices_[d].busy += times * (devices_[d].busy - seen_.devices[d].busy);
      }
      move_cut(order, cut_at(n), cut_at(window.count - left % period));
      n = window.count - left % period;
      break;
    }
    if (searching && (look == 0 || look > 2 * seen_.look)) remember(order, cut_at(n), look);
    if (n == window.count) {
      const std::size_t back = std::min(left_out, window.count - earliest);
      move_cut(order, cut_at(n), cut_at(n - back));
      left_out -= back;
      n -= back;
    }
    run_steps(order, cut_at(n), cut_at(n + 1));
    ++n;
  }
  run_steps(order, cut_at(n), order.steps.size());
  return shift;
}

void OrderSimulator::note_first_starts(const CompiledOrder& order, PipelineResult& result) const {
  for (std::size_t d = 0; d < order.devices; ++d) {
    const std::uint32_t first = order.first_steps[d];
    result.devices[d].first_start = outputs_[first].made - table_[order.steps[first].duration];
  }
}

void OrderSimulator::run(const CompiledOrder& order, int periods_left_out,
                         const PipelineTimes& times, TransferMode transfers, SteadyState steady,
                         PipelineResult& result) {
  check_stop();
  count_work(static_cast<std::int64_t>(order.steps.size()));
  fill_duration_table(times, order.weight_gradients, {}, table_);
  blocking_ = transfers == TransferMode::Blocking;
  outputs_.resize(order.steps.size());
  devices_.assign(order.devices, Line{});
  channels_.assign(order.channels, Line{});
  result.devices.assign(order.devices, DeviceUse{});
  periods_skipped_ = 0;
  Ticks shift = 0;
  if (order.window.length > 0) {
    shift = run_window(order, periods_left_out, steady, result);
  } else {
    PLANSEARCH_CHECK(periods_left_out == 0);
    run_steps(order, 0, order.steps.size());
    note_first_starts(order, result);
  }
  result.makespan = 0;
  for (std::size_t d = 0; d < order.devices; ++d) {
    result.devices[d].last_end = devices_[d].free + shift;
    result.devices[d].exposed_transfer = devices_[d].exposed;
    result.devices[d].busy = devices_[d].busy;
    result.makespan = std::max(result.makespan, result.devices[d].last_end);
  }
}

}  // namespace plansearch
