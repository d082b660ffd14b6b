// SPDX-License-Identifier: Apache-2.0
// Computes:   one runnable sequence of all steps of an order, its steady window, what devices keep.
// Source:     topological order by the start times of equal pieces, which repeat when the order
//             does.
// Assumes:    one channel per pair of devices and direction, as in lowering.hpp.
// Units:      none.
// Checked by: tests/unit/schedule/order_simulator_test.cpp
#include "schedule/simulation/compiled_order.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "plansearch/error.hpp"
#include "schedule/program/program.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

using Index = std::uint32_t;
constexpr Index kNone = ~Index{0};

/// An entry of the sequence: a piece of one step, or a part of a piece of several.
struct Entry {
  Index device = 0;
  Index duration = 0;              ///< row
  Index input = kNone;             ///< the entry that hands on what this one waits for
  std::optional<Index> waits_for;  ///< key of that step, until all entries are known
  std::optional<Index> sends;      ///< key of the step whose message leaves with it
};

/// Steps are known by a number, their key: virtual stage, micro-batch and phase.
class Compiler {
 public:
  explicit Compiler(const ComputeOrder& order) : order_(order) {
    stage_of_.assign(order.devices.size() * static_cast<std::size_t>(order.chunks()), kNone);
    for (std::size_t k = 0; k < order.pipeline.size(); ++k) {
      stage_of_[slot(order.pipeline[k])] = static_cast<Index>(k);
    }
    number_entries();
    for (Entry& entry : entries_) {
      if (!entry.waits_for) continue;
      entry.input = where_[*entry.waits_for];
      PLANSEARCH_CHECK(entry.input != kNone);
    }
  }

  CompiledOrder sequence() {
    CompiledOrder result;
    result.devices = order_.devices.size();
    result.micro_batches = order_.micro_batches;
    result.weight_gradients = order_.weight_gradients;
    const std::vector<Index> sorted = by_unit_time();
    std::vector<Index> position(entries_.size());
    for (Index i = 0; i < sorted.size(); ++i) position[sorted[i]] = i;
    for (Index i = 0; i < sorted.size(); ++i) {
      const Entry& entry = entries_[sorted[i]];
      CompiledStep step = entry.sends ? message_of(entry) : CompiledStep{};
      step.device = entry.device;
      step.duration = entry.duration;
      if (entry.input != kNone) step.input = i - position[entry.input];
      result.reach = std::max(result.reach, static_cast<std::size_t>(step.input));
      result.steps.push_back(step);
    }
    result.channels = channels_.size();
    for (std::size_t d = 0; d < result.devices; ++d) {
      result.first_steps.push_back(position[first_[d]]);
    }
    return result;
  }

 private:
  [[nodiscard]] std::size_t slot(const StagePlace& place) const {
    return static_cast<std::size_t>(place.device * order_.chunks() + place.chunk);
  }
  [[nodiscard]] Index key(std::size_t stage, const ComputeStep& step) const {
    const auto row = stage * static_cast<std::size_t>(order_.micro_batches);
    return static_cast<Index>((row + static_cast<std::size_t>(step.micro_batch)) * 3 +
                              static_cast<std::size_t>(step.phase));
  }
  [[nodiscard]] std::size_t stage_of_key(Index step) const {
    return step / 3 / static_cast<std::size_t>(order_.micro_batches);
  }
  static Phase phase_of_key(Index step) { return static_cast<Phase>(step % 3); }

  void number_entries() {
    where_.assign(order_.pipeline.size() * static_cast<std::size_t>(order_.micro_batches) * 3,
                  kNone);
    for (std::size_t d = 0; d < order_.devices.size(); ++d) {
      first_.push_back(static_cast<Index>(entries_.size()));
      const std::span<const ComputeStep> steps = order_.devices[d];
      for (std::size_t i = 0; i < steps.size();) {
        const std::size_t end = piece_end(steps, i);
        add_piece(static_cast<Index>(d), steps.subspan(i, end - i));
        i = end;
      }
    }
    first_.push_back(static_cast<Index>(entries_.size()));
  }

  /// All inputs, then all work, then all messages; the last input and the first message go with
  /// the work.
  void add_piece(Index device, std::span<const ComputeStep> piece) {
    std::optional<Index> input;
    for (const ComputeStep& step : piece) {
      const auto needed = input_of(device, step);
      if (!needed) continue;
      if (input) entries_.push_back({device, 0, kNone, input, {}});
      input = needed;
    }
    const bool overlapped = piece.size() > 1 && overlaps(piece);
    for (const ComputeStep& step : piece) {
      const std::size_t stage = stage_at(device, step);
      const bool beside = overlapped && step.phase == Phase::Forward;
      entries_.push_back({device,
                          beside ? overlapped_row(stage) : compute_row(stage, step.phase),
                          kNone,
                          input,
                          {}});
      input.reset();
    }
    bool first = true;
    for (const ComputeStep& step : piece) {
      const std::size_t stage = stage_at(device, step);
      const Index id = key(stage, step);
      if (remote_stage(device, stage, step.phase, 1)) {
        if (!first) entries_.push_back({device, 0, kNone, {}, {}});
        entries_.back().sends = id;
        first = false;
      }
      where_[id] = static_cast<Index>(entries_.size() - 1);
    }
  }

  [[nodiscard]] std::size_t stage_at(Index device, const ComputeStep& step) const {
    return stage_of_[slot({static_cast<int>(device), step.chunk})];
  }
  /// The stage that a forward or backward of this one feeds (+1) or is fed by (-1), if elsewhere.
  [[nodiscard]] std::optional<std::size_t> remote_stage(Index device, std::size_t stage,
                                                        Phase phase, int direction) const {
    if (phase == Phase::WeightGradient) return std::nullopt;
    const auto other = order_.neighbour(stage, phase == Phase::Forward ? direction : -direction);
    if (!other || order_.pipeline[*other].device == static_cast<int>(device)) return std::nullopt;
    return other;
  }
  [[nodiscard]] std::optional<Index> input_of(Index device, const ComputeStep& step) const {
    const auto from = remote_stage(device, stage_at(device, step), step.phase, -1);
    return from ? std::optional(key(*from, step)) : std::nullopt;
  }

  CompiledStep message_of(const Entry& entry) {
    const std::size_t stage = stage_of_key(*entry.sends);
    const Phase phase = phase_of_key(*entry.sends);
    const std::size_t to = *remote_stage(entry.device, stage, phase, 1);
    const auto id = std::tuple(entry.device, order_.pipeline[to].device, phase);
    const auto channel = channels_.try_emplace(id, static_cast<Index>(channels_.size()));
    CompiledStep step;
    step.message = transfer_row(order_.pipeline.size(), std::min(stage, to), phase);
    step.channel = channel.first->second;
    return step;
  }

  /// All entries by the time at which they would start if each took one tick and messages none; at
  /// the same time by device.
  [[nodiscard]] std::vector<Index> by_unit_time() const {
    const std::size_t devices = order_.devices.size();
    std::vector<Index> next(first_.begin(), first_.end() - 1);
    std::vector<Index> free(devices, 0);
    std::vector<Index> ends(entries_.size(), 0);  // 0: not run yet
    std::vector<std::vector<Index>> starts;
    std::size_t done = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t d = 0; d < devices; ++d) {
        for (; next[d] < first_[d + 1]; ++next[d], ++done, moved = true) {
          const Index input = entries_[next[d]].input;
          if (input != kNone && ends[input] == 0) break;
          const Index start = std::max(free[d], input == kNone ? 0 : ends[input]);
          free[d] = ends[next[d]] = start + 1;
          if (starts.size() <= start) starts.resize(start + std::size_t{1});
          starts[start].push_back(next[d]);
        }
      }
    }
    PLANSEARCH_CHECK(done == entries_.size());  // else the order waits for itself
    std::vector<Index> sorted;
    sorted.reserve(entries_.size());
    for (auto& together : starts) {
      std::sort(together.begin(), together.end());
      sorted.insert(sorted.end(), together.begin(), together.end());
    }
    return sorted;
  }

  const ComputeOrder& order_;
  std::vector<Index> stage_of_;  ///< by device and chunk
  std::vector<Index> where_;     ///< the entry that hands a step's result on, by key
  std::vector<Index> first_;     ///< entry by device, and the end
  std::vector<Entry> entries_;
  std::map<std::tuple<Index, int, Phase>, Index> channels_;
};

/// Around the middle of the sequence, where warm-up and drain are furthest.
SteadyWindow window_of(const std::vector<CompiledStep>& steps, std::size_t length) {
  if (length == 0 || steps.size() < 3 * length) return {};
  const std::size_t last = steps.size() - length;
  const auto repeats = [&](std::size_t i) { return steps[i] == steps[i + length]; };
  std::size_t begin = last / 2;
  std::size_t end = begin;
  while (end < last && repeats(end)) ++end;
  while (begin > 0 && repeats(begin - 1)) --begin;
  return {begin, length, (end - begin) / length + 1};
}

bool covers(const KeptChunks& a, const KeptChunks& b) {
  // What is whole counts for the weight gradient as well.
  for (std::size_t c = 0; c < a.whole.size(); ++c) {
    if (a.whole[c] < b.whole[c]) return false;
    if (a.whole[c] + a.for_weight[c] < b.whole[c] + b.for_weight[c]) return false;
  }
  return true;
}

void note(std::vector<KeptChunks>& moments, const KeptChunks& kept) {
  for (const KeptChunks& known : moments) {
    if (covers(known, kept)) return;
  }
  std::erase_if(moments, [&](const KeptChunks& known) { return covers(kept, known); });
  moments.push_back(kept);
}

std::vector<KeptChunks> kept_by(const ComputeOrder& order, std::size_t device) {
  const bool split = order.weight_gradients == WeightGradients::Separate;
  const auto chunks = static_cast<std::size_t>(order.chunks());
  KeptChunks kept{std::vector<int>(chunks, 0), std::vector<int>(chunks, 0)};
  std::vector<KeptChunks> moments;
  for (const ComputeStep& step : order.devices[device]) {
    const auto c = static_cast<std::size_t>(step.chunk);
    switch (step.phase) {
      case Phase::Forward:
        ++kept.whole[c];
        note(moments, kept);
        break;
      case Phase::Backward:
        --kept.whole[c];
        if (split) ++kept.for_weight[c];
        break;
      case Phase::WeightGradient:
        --kept.for_weight[c];
        break;
    }
  }
  return moments;
}

}  // namespace

CompiledOrder compile(const ComputeOrder& order, int period) {
  CompiledOrder result = Compiler(order).sequence();
  result.period = period;
  for (std::size_t d = 0; d < order.devices.size(); ++d) result.kept.push_back(kept_by(order, d));
  const auto per_micro_batch = result.steps.size() / static_cast<std::size_t>(order.micro_batches);
  result.window = window_of(result.steps, per_micro_batch * static_cast<std::size_t>(period));
  // Looks back from its first cut must stay inside the window.
  if (result.window.count * result.window.length < result.reach + 2 * result.window.length) {
    result.window = {};
  }
  return result;
}

namespace {

using Key = std::tuple<ScheduleId, int, int, int, int, int, std::optional<UniformTimes>,
                       const StageMapping*>;

Key key_of(const PipelineShape& shape) {
  return {shape.schedule,          shape.stages, shape.micro_batches, shape.chunks,
          shape.group.value_or(0), shape.cap(),  shape.tuned,         shape.placement};
}

constexpr std::size_t kMostSteps = 4'000'000;  ///< that a thread remembers, 80 MB
constexpr double kMostPieces = 1e7;            ///< of one order

struct Memory {
  std::map<Key, ShapeOrder> orders;                              ///< by shape
  std::map<Key, std::shared_ptr<const CompiledOrder>> compiled;  ///< by shortened shape
  std::size_t steps = 0;
};

std::shared_ptr<const CompiledOrder> compiled(Memory& memory, const PipelineShape& shape,
                                              int period) {
  const Key key = key_of(shape);
  const double pieces = 3.0 * shape.virtual_stages() * shape.micro_batches;
  if (pieces > kMostPieces) {
    throw SimulationLimit("an order of " + std::to_string(shape.virtual_stages()) +
                              " virtual stages and " + std::to_string(shape.micro_batches) +
                              " micro-batches has too many pieces to be simulated",
                          "fewer stages or micro-batches, or a schedule that repeats itself");
  }
  auto& slot = memory.compiled[key];
  if (!slot) {
    slot = std::make_shared<const CompiledOrder>(compile(order_of(shape), period));
    memory.steps += slot->steps.size();
  }
  return slot;
}

ShapeOrder find_order(Memory& memory, const PipelineShape& shape) {
  const Schedule& row = schedule_row(shape.schedule);
  const Repetition repetition = row.repetition ? row.repetition(shape) : Repetition{};
  const int period = repetition.period;
  PipelineShape shorter = shape;
  if (period > 0) {
    const int enough = repetition.ends + std::max(repetition.ends, 4 * period);
    if (shape.micro_batches > enough + period) {
      shorter.micro_batches = enough + (shape.micro_batches - enough) % period;
    }
  }
  auto order = compiled(memory, shorter, period);
  const int left_out = period > 0 ? (shape.micro_batches - shorter.micro_batches) / period : 0;
  if (left_out == 0 || order->window.length > 0) return {order, left_out};
  return {compiled(memory, shape, period), 0};
}

}  // namespace

const ShapeOrder& shape_order(const PipelineShape& shape) {
  thread_local Memory memory;
  thread_local Key last{};
  thread_local const ShapeOrder* found = nullptr;
  const Key key = key_of(shape);
  if (found != nullptr && key == last) return *found;
  if (memory.steps > kMostSteps) memory = {};
  auto known = memory.orders.find(key);
  if (known == memory.orders.end()) {
    known = memory.orders.emplace(key, find_order(memory, shape)).first;
  }
  last = key;
  found = &known->second;
  return *found;
}

}  // namespace plansearch
