// SPDX-License-Identifier: Apache-2.0
// What is wrong with a timeline: a second opinion on those that simulations make.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schedule/program/timeline.hpp"

namespace plansearch::testing {

using StepTimes = std::map<std::pair<int, ComputeStep>, std::pair<Ticks, Ticks>>;

inline std::string name_of(const TimelineEntry& entry) {
  constexpr char kPhases[] = {'F', 'B', 'W'};
  return kPhases[static_cast<std::size_t>(entry.step.phase)] +
         std::to_string(entry.step.micro_batch) + " of chunk " + std::to_string(entry.step.chunk) +
         " on device " + std::to_string(entry.device);
}

class TimelineChecker {
 public:
  TimelineChecker(const ComputeOrder& order, const PipelineTimes& times, const Timeline& timeline)
      : order_(order), times_(times), timeline_(timeline) {}

  std::vector<std::string> faults() {
    ComputeOrder drawn = order_;
    drawn.devices.assign(order_.devices.size(), {});
    for (const TimelineEntry& entry : timeline_.entries) {
      drawn.devices[static_cast<std::size_t>(entry.device)].push_back(entry.step);
      spans_[{entry.device, entry.step}] = {entry.start, entry.end};
    }
    faults_ = order_faults(drawn);
    if (!faults_.empty()) return faults_;
    note_overlapped();
    check_overlap();
    const auto table = duration_table(times_, order_.weight_gradients);
    for (const TimelineEntry& entry : timeline_.entries) {
      const std::size_t k = order_.virtual_stage(entry.device, entry.step.chunk);
      const bool overlapped = overlapped_.contains({entry.device, entry.step});
      const auto row = overlapped ? overlapped_row(k) : compute_row(k, entry.step.phase);
      if (entry.end - entry.start != table[row]) {
        faults_.push_back(name_of(entry) + " has the wrong length");
      }
      check_inputs(entry, k);
    }
    return faults_;
  }

 private:
  void note_overlapped() {
    for (std::size_t d = 0; d < order_.devices.size(); ++d) {
      const std::span<const ComputeStep> steps = order_.devices[d];
      for (std::size_t i = 0; i < steps.size(); i = piece_end(steps, i)) {
        const auto piece = steps.subspan(i, piece_end(steps, i) - i);
        if (!overlaps(piece)) continue;
        for (ComputeStep step : piece) {
          step.joined = false;
          if (step.phase == Phase::Forward) overlapped_.insert({static_cast<int>(d), step});
        }
      }
    }
  }

  void check_overlap() {
    for (std::size_t i = 1; i < timeline_.entries.size(); ++i) {
      const TimelineEntry& before = timeline_.entries[i - 1];
      const TimelineEntry& entry = timeline_.entries[i];
      if (before.device == entry.device && before.end > entry.start) {
        faults_.push_back(name_of(entry) + " starts before " + name_of(before) + " has ended");
      }
    }
  }

  void check_inputs(const TimelineEntry& entry, std::size_t k) {
    ComputeStep input = entry.step;
    if (entry.step.phase != Phase::Forward) {
      input.phase = entry.step.phase == Phase::Backward ? Phase::Forward : Phase::Backward;
      check_after(entry, entry.device, input, 0);
    }
    if (entry.step.phase == Phase::Forward && order_.neighbour(k, -1)) {
      check_after_stage(entry, k - 1, times_.activation_transfer[k - 1]);
    }
    if (entry.step.phase == Phase::Backward && order_.neighbour(k, 1)) {
      check_after_stage(entry, k + 1, times_.gradient_transfer[k]);
    }
  }

  void check_after_stage(const TimelineEntry& entry, std::size_t stage, Ticks transfer) {
    const StagePlace& place = order_.pipeline[stage];
    const bool local = place.device == entry.device;
    check_after(entry, place.device, {place.chunk, entry.step.micro_batch, entry.step.phase},
                local ? 0 : transfer);
  }

  void check_after(const TimelineEntry& entry, int device, const ComputeStep& input, Ticks delay) {
    if (spans_.at({device, input}).second + delay > entry.start) {
      faults_.push_back(name_of(entry) + " starts before " + name_of({device, input, 0, 0}) +
                        " can have arrived");
    }
  }

  const ComputeOrder& order_;
  const PipelineTimes& times_;
  const Timeline& timeline_;
  StepTimes spans_;
  std::set<std::pair<int, ComputeStep>> overlapped_;
  std::vector<std::string> faults_;
};

/// Everything wrong with a timeline of this order under these times: a piece missing, repeated or
/// of the wrong length, two at once on one device, one before its input. Empty: nothing.
inline std::vector<std::string> timeline_faults(const ComputeOrder& order,
                                                const PipelineTimes& times,
                                                const Timeline& timeline) {
  return TimelineChecker(order, times, timeline).faults();
}

}  // namespace plansearch::testing
