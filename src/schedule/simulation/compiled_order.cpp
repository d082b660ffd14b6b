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
#include "plansearch/stop_token.hpp"
#include "schedule/program/program.hpp"
#include "schedule/table.hpp"
#include "schedule/templates/task_template.hpp"

namespace plansearch {
namespace {

using Index = std::uint32_t;
constexpr Index kNone = ~Index{0};

/// Unit time: of a step, and of an entry that only waits or sends. The first step of a piece is
/// shorter by the latter: steps take equally long on all devices, so that none drifts ahead.
constexpr Index kStepLength = 8;
constexpr Index kBesideLength = 1;

/// An entry of the sequence: a piece of one step, or a part of a piece of several.
struct Entry {
  Index device = 0;
  Index duration = 0;              ///< row
  Index input = kNone;             ///< the entry that hands on what this one waits for
  std::optional<Index> waits_for;  ///< key of that step, until all entries are known
  std::optional<Index> sends;      ///< key of the step whose message leaves with it
  Index length = kStepLength;      ///< in unit time
};

/// Steps are known by a number, their key: node of the template and micro-batch.
class Compiler {
 public:
  explicit Compiler(const ComputeOrder& order)
      : order_(order),
        template_(pipeline_template(order)),
        nodes_(order),
        stage_of_(stages_by_place(order)) {
    link_nodes();
    number_entries();
    for (Entry& entry : entries_) {
      if (!entry.waits_for) continue;
      entry.input = where_[*entry.waits_for];
      PLANSEARCH_CHECK(entry.input != kNone);
    }
  }

  CompiledOrder sequence(const std::vector<Index>& turns) {
    CompiledOrder result;
    result.devices = order_.devices.size();
    result.micro_batches = order_.micro_batches;
    result.weight_gradients = order_.weight_gradients;
    result.steps.reserve(entries_.size());
    const std::vector<Index> sorted = turns.empty() ? by_unit_time() : in_turn(turns);
    std::vector<Index> position(entries_.size());
    for (Index i = 0; i < sorted.size(); ++i) position[sorted[i]] = i;
    for (Index i = 0; i < sorted.size(); ++i) {
      const Entry& entry = entries_[sorted[i]];
      CompiledStep step = entry.sends ? message_of(*entry.sends) : CompiledStep{};
      step.device = entry.device;
      step.duration = entry.duration;
      if (entry.input != kNone) step.input = i - position[entry.input];
      result.reach = std::max(result.reach, static_cast<std::size_t>(step.input));
      result.steps.push_back(step);
    }
    result.channels = channel_count_;
    for (std::size_t d = 0; d < result.devices; ++d) {
      result.first_steps.push_back(position[first_[d]]);
    }
    return result;
  }

 private:
  [[nodiscard]] Index key(NodeId node, int micro_batch) const {
    return node * static_cast<Index>(order_.micro_batches) + static_cast<Index>(micro_batch);
  }
  [[nodiscard]] NodeId node_of_key(Index step) const {
    return step / static_cast<Index>(order_.micro_batches);
  }

  /// The message that a node waits for from another device, and the one that it sends.
  struct Link {
    NodeId from = kNone;
    CompiledStep message;  ///< row and channel; row 0: nothing
  };
  void link_nodes() {
    std::map<std::tuple<int, int, Phase>, Index> channels;
    links_.resize(template_.size());
    for (NodeId to = 0; to < template_.size(); ++to) {
      for (const NodeId from : template_.inputs(to)) {
        if (template_.device(from) == template_.device(to)) continue;
        PLANSEARCH_CHECK(links_[to].from == kNone && links_[from].message.message == 0);
        links_[to].from = from;
        const Phase phase = template_.node(from).phase;
        const std::tuple id(template_.device(from), template_.device(to), phase);
        CompiledStep& message = links_[from].message;
        message.message = message_row(order_.pipeline.size(), template_.node(from));
        message.channel =
            channels.try_emplace(id, static_cast<Index>(channels.size())).first->second;
      }
    }
    channel_count_ = channels.size();
  }

  void number_entries() {
    std::size_t all = 0;
    for (const auto& steps : order_.devices) all += steps.size();
    entries_.reserve(all);
    where_.assign(template_.size() * static_cast<std::size_t>(order_.micro_batches), kNone);
    for (std::size_t d = 0; d < order_.devices.size(); ++d) {
      check_stop();
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
    Index beside = 0;
    for (const ComputeStep& step : piece) {
      const auto needed = input_of(device, step);
      if (!needed) continue;
      if (input) {
        entries_.push_back({device, 0, kNone, input, {}, kBesideLength});
        beside += kBesideLength;
      }
      input = needed;
    }
    const std::size_t first_step = entries_.size();
    const bool overlapped = piece.size() > 1 && overlaps(piece);
    for (const ComputeStep& step : piece) {
      const std::size_t stage = stage_at(device, step);
      const bool shares = overlapped && step.phase == Phase::Forward;
      entries_.push_back({device,
                          shares ? overlapped_row(stage) : compute_row(stage, step.phase),
                          kNone,
                          input,
                          {}});
      input.reset();
    }
    bool first = true;
    for (const ComputeStep& step : piece) {
      const NodeId node = nodes_.of(stage_at(device, step), step);
      const Index id = key(node, step.micro_batch);
      if (links_[node].message.message != 0) {
        if (!first) {
          entries_.push_back({device, 0, kNone, {}, {}, kBesideLength});
          beside += kBesideLength;
        }
        entries_.back().sends = id;
        first = false;
      }
      where_[id] = static_cast<Index>(entries_.size() - 1);
    }
    entries_[first_step].length -= std::min(beside, kStepLength - 1);
  }

  [[nodiscard]] std::size_t stage_at(Index device, const ComputeStep& step) const {
    return stage_of_[device * static_cast<std::size_t>(order_.chunks()) +
                     static_cast<std::size_t>(step.chunk)];
  }
  [[nodiscard]] std::optional<Index> input_of(Index device, const ComputeStep& step) const {
    const NodeId from = links_[nodes_.of(stage_at(device, step), step)].from;
    return from == kNone ? std::nullopt : std::optional(key(from, step.micro_batch));
  }

  [[nodiscard]] CompiledStep message_of(Index sends) const {
    return links_[node_of_key(sends)].message;
  }

  [[nodiscard]] std::vector<Index> in_turn(const std::vector<Index>& turns) const {
    PLANSEARCH_CHECK(turns.size() == entries_.size());
    std::vector<Index> next(first_.begin(), first_.end() - 1);
    std::vector<Index> sorted;
    sorted.reserve(turns.size());
    for (const Index device : turns) sorted.push_back(next[device]++);
    return sorted;
  }

  /// All entries by the time at which they would start if steps took equally long and messages no
  /// time; at the same time by device.
  [[nodiscard]] std::vector<Index> by_unit_time() const {
    const std::size_t devices = order_.devices.size();
    std::vector<Index> next(first_.begin(), first_.end() - 1);
    std::vector<Index> free(devices, 0);
    std::vector<Index> ends(entries_.size(), 0);  // 0: not run yet
    std::vector<Index> together;                  // by time: entries that start there, then before
    std::size_t done = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t d = 0; d < devices; ++d) {
        for (; next[d] < first_[d + 1]; ++next[d], ++done, moved = true) {
          const Index input = entries_[next[d]].input;
          if (input != kNone && ends[input] == 0) break;
          const Index start = std::max(free[d], input == kNone ? 0 : ends[input]);
          free[d] = ends[next[d]] = start + entries_[next[d]].length;
          if (together.size() <= start) together.resize(2 * (start + std::size_t{1}), 0);
          ++together[start];
        }
      }
    }
    PLANSEARCH_CHECK(done == entries_.size());  // else the order waits for itself
    std::exclusive_scan(together.begin(), together.end(), together.begin(), Index{0});
    std::vector<Index> sorted(entries_.size());
    for (Index i = 0; i < sorted.size(); ++i) {
      sorted[together[ends[i] - entries_[i].length]++] = i;
    }
    return sorted;
  }

  const ComputeOrder& order_;
  TaskTemplate template_;
  PipelineNodes nodes_;
  std::vector<std::size_t> stage_of_;  ///< by device and chunk
  std::vector<Index> where_;           ///< the entry that hands a step's result on, by key
  std::vector<Index> first_;           ///< entry by device, and the end
  std::vector<Entry> entries_;
  std::vector<Link> links_;  ///< by node
  std::size_t channel_count_ = 0;
};

/// Around the middle of what repeats. A period has `work` steps that compute, and those that only
/// wait or send beside them.
SteadyWindow window_of(const std::vector<CompiledStep>& steps, std::size_t work,
                       std::size_t middle) {
  if (work == 0) return {};
  const auto computing = [&](std::size_t from, std::size_t count) {
    for (; from < steps.size(); ++from) {
      if (steps[from].duration != 0 && count-- == 0) break;
    }
    return from;
  };
  std::size_t begin = computing(middle - std::min(middle, work / 2), 0);
  const std::size_t length = computing(begin, work) - begin;
  if (steps.size() < begin + 2 * length) return {};
  const std::size_t last = steps.size() - length;
  const auto repeats = [&](std::size_t i) { return steps[i] == steps[i + length]; };
  std::size_t end = begin;
  while (end < last && repeats(end)) ++end;
  while (begin > 0 && repeats(begin - 1)) --begin;
  return {begin, length, (end - begin) / length + 1};
}

bool covers(const KeptChunks& a, const KeptChunks& b) {
  // Whole tensors count for the weight gradient as well.
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
        if (!order.keeps(step)) break;
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

CompiledOrder compile(const ComputeOrder& order, int period, const Turns& turns) {
  CompiledOrder result = Compiler(order).sequence(turns.devices);
  result.period = period;
  for (std::size_t d = 0; d < order.devices.size(); ++d) result.kept.push_back(kept_by(order, d));
  std::size_t all = 0;
  for (const auto& steps : order.devices) all += steps.size();
  const std::size_t per_micro_batch = all / static_cast<std::size_t>(order.micro_batches);
  // Warm-up and drain are furthest from the middle of the sequence.
  const std::size_t middle = turns.devices.empty() ? result.steps.size() / 2 : turns.middle;
  result.window =
      window_of(result.steps, per_micro_batch * static_cast<std::size_t>(period), middle);
  // Looks back from its first cut must stay inside the window.
  if (result.window.count * result.window.length < result.reach + 2 * result.window.length) {
    result.window = {};
  }
  return result;
}

namespace {

using Key = std::tuple<ScheduleId, int, int, int, int, int, int, std::optional<UniformTimes>,
                       const StageMapping*>;

Key key_of(const PipelineShape& shape) {
  return {shape.schedule,          shape.stages, shape.micro_batches, shape.chunks,
          shape.group.value_or(0), shape.cap(),  shape.forwards,      shape.tuned,
          shape.placement};
}

constexpr std::size_t kMostSteps = 4'000'000;  ///< that a thread remembers, 80 MB

struct Memory {
  std::map<Key, ShapeOrder> orders;                              ///< by shape
  std::map<Key, std::shared_ptr<const CompiledOrder>> compiled;  ///< by shortened shape
  std::size_t steps = 0;
};

std::shared_ptr<const CompiledOrder> compiled(Memory& memory, const PipelineShape& shape,
                                              int period) {
  auto& slot = memory.compiled[key_of(shape)];
  if (!slot) {
    slot = std::make_shared<const CompiledOrder>(compile(order_of(shape), period));
    memory.steps += slot->steps.size();
  }
  return slot;
}

ShapeOrder find_order(Memory& memory, const PipelineShape& shape) {
  const Schedule& row = schedule_row(shape.schedule);
  if (row.shortened) {
    ShapeOrder order = row.shortened(shape);
    memory.steps += order.compiled->steps.size();
    return order;
  }
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
  if (memory.steps > kMostSteps) {
    memory = {};
    found = nullptr;
  }
  auto known = memory.orders.find(key);
  if (known == memory.orders.end()) {
    known = memory.orders.emplace(key, find_order(memory, shape)).first;
  }
  last = key;
  found = &known->second;
  return *found;
}

}  // namespace plansearch
