// SPDX-License-Identifier: Apache-2.0
// Computes:   makespan and device use of any schedule of the table; the activations that a device
//             keeps at its worst moment, counted and weighted; span and bubble of a schedule.
// Source:     flow_simulator.hpp chunk by chunk, rounds.hpp where the schedule has rounds,
//             order_simulator.hpp for all others; activations: a walk of the order, or its closed
//             form where the row of the schedule has one.
// Assumes:    in-order compute queues; one send stream per device and direction; activations are
//             kept from the start of the forward to the end of the backward of the same chunk, in
//             part to the end of its weight gradient where that is a piece of its own.
// Units:      ticks; chunks; bytes.
// Checked by: tests/unit/schedule/simulator_test.cpp, against the task graph of the same order;
//             activations_test.cpp, summary_test.cpp, against a walk of the generated orders
#include "schedule/simulation/simulator.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "plansearch/error.hpp"
#include "schedule/simulation/compiled_order.hpp"
#include "schedule/table.hpp"

namespace plansearch {

namespace {

/// Chunks of a device that follow each other and keep as much.
struct ChunkRun {
  int chunks = 0;
  Bytes bytes;  ///< of each
};

void find_runs(std::span<const Bytes> bytes_of_chunk, std::vector<ChunkRun>& runs) {
  runs.clear();
  for (const Bytes bytes : bytes_of_chunk) {
    if (runs.empty() || runs.back().bytes != bytes) runs.push_back({0, bytes});
    ++runs.back().chunks;
  }
}

/// Walks Megatron's order run by run: passes that follow each other and keep as much. The last group
/// of micro-batches may be shorter than the others.
class RunWalk {
 public:
  enum class Direction : std::uint8_t { Forward, Backward };
  RunWalk(const PipelineShape& shape, int micro_batches, std::span<const ChunkRun> runs,
          Direction direction)
      : runs_(runs),
        direction_(direction),
        group_(shape.group_size()),
        left_(micro_batches),
        length_(std::min(left_, group_)),
        end_(length_ * run().chunks) {}

  [[nodiscard]] Bytes bytes() const { return run().bytes; }
  /// Position after the last pass of the run.
  [[nodiscard]] int end() const { return end_; }

  void next() {
    if (++at_ == runs_.size()) {
      at_ = 0;
      left_ -= length_;
      length_ = std::min(left_, group_);
    }
    end_ += length_ * run().chunks;
  }

 private:
  [[nodiscard]] const ChunkRun& run() const {
    return runs_[direction_ == Direction::Forward ? at_ : runs_.size() - 1 - at_];
  }

  std::span<const ChunkRun> runs_;
  Direction direction_;
  int group_;
  int left_;
  int length_;
  std::size_t at_ = 0;
  int end_;
};

/// Forwards and backwards in turn after `warm_up` forwards, chunks in groups of micro-batches.
Bytes alternating_peak(const PipelineShape& shape, int warm_up,
                       std::span<const Bytes> bytes_of_chunk) {
  // The mix of chunks repeats with every group, except that the last group may be shorter. A
  // group later the same bytes are kept, so that those in the middle can be left out.
  const int group = shape.group_size();
  const int cycle = group * shape.chunks;
  const int groups_alike = shape.micro_batches / group;
  const int rest = shape.micro_batches % group;
  const int ahead = warm_up + 1;
  if (ahead >= shape.micro_batches * shape.chunks) {  // no backward before the last forward
    return std::accumulate(bytes_of_chunk.begin(), bytes_of_chunk.end(), Bytes(0)) *
           static_cast<double>(shape.micro_batches);
  }
  const int micro_batches = std::min(groups_alike, ahead / cycle + 3) * group + rest;
  const int total = micro_batches * shape.chunks;
  const int end = rest != 0 || groups_alike < 3 ? total : std::min(total, ahead + cycle);
  // Between two changes of chunk the sum rises or falls steadily: its ends are enough.
  thread_local std::vector<ChunkRun> runs;
  find_runs(bytes_of_chunk, runs);
  RunWalk forward(shape, micro_batches, runs, RunWalk::Direction::Forward);
  RunWalk backward(shape, micro_batches, runs, RunWalk::Direction::Backward);
  Bytes kept;
  Bytes peak;
  for (int i = 0; i < end;) {
    Bytes change = forward.bytes();
    int next = std::min(forward.end(), i < ahead ? std::min(ahead, end) : end);
    if (i >= ahead) {
      change -= backward.bytes();
      next = std::min(next, backward.end() + ahead);
    }
    peak = std::max({peak, kept + change, kept + change * static_cast<double>(next - i)});
    kept += change * static_cast<double>(next - i);
    i = next;
    if (i == forward.end()) forward.next();
    if (i == backward.end() + ahead) backward.next();
  }
  return peak;
}

/// An order that is not made yet keeps as much as it may.
std::optional<int> promised(const PipelineShape& shape) {
  if (!schedule_row(shape.schedule).tuned || shape.tuned) return std::nullopt;
  return std::min(shape.cap(), shape.micro_batches);
}

const std::vector<KeptChunks>& kept_on(const PipelineShape& shape, int rank) {
  return shape_order(shape).compiled->kept[static_cast<std::size_t>(rank)];
}

}  // namespace

int peak_chunks(const PipelineShape& shape, int rank) {
  if (const auto warm_up = schedule_row(shape.schedule).warm_up) {
    return std::min(shape.micro_batches * shape.chunks, warm_up(shape, rank) + 1);
  }
  if (const auto most = promised(shape)) return *most * shape.chunks;
  int peak = 0;
  for (const KeptChunks& kept : kept_on(shape, rank)) {
    const int whole = std::accumulate(kept.whole.begin(), kept.whole.end(), 0);
    peak = std::max(peak, std::accumulate(kept.for_weight.begin(), kept.for_weight.end(), whole));
  }
  return peak;
}

Bytes peak_activation_bytes(const PipelineShape& shape, int rank,
                            std::span<const Bytes> bytes_of_chunk,
                            std::span<const Bytes> weight_bytes_of_chunk) {
  PLANSEARCH_CHECK(bytes_of_chunk.size() ==
                   static_cast<std::size_t>(shape.virtual_stages() / shape.stages));
  if (const auto warm_up = schedule_row(shape.schedule).warm_up) {
    if (shape.chunks == 1) return bytes_of_chunk[0] * peak_chunks(shape, rank);
    return alternating_peak(shape, warm_up(shape, rank), bytes_of_chunk);
  }
  if (const auto most = promised(shape)) {
    return std::accumulate(bytes_of_chunk.begin(), bytes_of_chunk.end(), Bytes(0)) *
           static_cast<double>(*most);
  }
  const auto for_weight = weight_bytes_of_chunk.empty() ? bytes_of_chunk : weight_bytes_of_chunk;
  PLANSEARCH_CHECK(for_weight.size() == bytes_of_chunk.size());
  Bytes peak;
  for (const KeptChunks& kept : kept_on(shape, rank)) {
    Bytes bytes;
    for (std::size_t c = 0; c < bytes_of_chunk.size(); ++c) {
      bytes += bytes_of_chunk[c] * kept.whole[c] + for_weight[c] * kept.for_weight[c];
    }
    peak = std::max(peak, bytes);
  }
  return peak;
}

Ticks PipelineResult::span() const {
  Ticks longest = 0;
  for (const DeviceUse& use : devices) longest = std::max(longest, use.last_end - use.first_start);
  return longest;
}

const PipelineResult& PipelineSimulator::run(const PipelineShape& shape, const PipelineTimes& times,
                                             SteadyState steady) {
  check_times(shape, times);
  const Schedule& row = schedule_row(shape.schedule);
  if (row.chunk_by_chunk) {
    flow_.run(shape, times, result_);
    return result_;
  }
  if (row.rounds != nullptr && (!row.has_rounds || row.has_rounds(shape))) {
    rounds_.run(row.rounds, shape, times, steady, result_);
    return result_;
  }
  const ShapeOrder& order = shape_order(tuned_to(shape, times));
  order_.run(*order.compiled, order.periods_left_out, times, shape.transfers, steady, result_);
  const auto per_period = order.compiled->period;
  result_.micro_batches_simulated =
      shape.micro_batches - static_cast<int>(order_.periods_skipped()) * per_period;
  return result_;
}

namespace {

constexpr Ticks kFewTicks = 64;

Ticks mean(std::span<const Ticks> durations) {
  if (durations.empty()) return 0;
  const Ticks sum = std::accumulate(durations.begin(), durations.end(), Ticks{0});
  return sum / static_cast<Ticks>(durations.size());
}

}  // namespace

PipelineShape tuned_to(const PipelineShape& shape, const PipelineTimes& times) {
  if (!schedule_row(shape.schedule).tuned || shape.tuned) return shape;
  UniformTimes unit{mean(times.forward), mean(times.backward), mean(times.activation_transfer),
                    mean(times.weight_gradient)};
  const Ticks longest = std::max({unit.forward, unit.backward, unit.weight, Ticks{1}});
  const auto scaled = [&](Ticks ticks) {
    const auto share = static_cast<double>(ticks) / static_cast<double>(longest);
    return static_cast<Ticks>(share * static_cast<double>(kFewTicks) + 0.5);
  };
  if (longest > kFewTicks) {
    unit = {scaled(unit.forward), scaled(unit.backward), scaled(unit.transfer),
            scaled(unit.weight)};
  }
  PipelineShape tuned = shape;
  tuned.tuned = unit;
  return tuned;
}

PipelineShape placed_for(const PipelineShape& tuned, const PipelineTimes& times) {
  const StageMapping* other = schedule_row(tuned.schedule).other_placement;
  if (other == nullptr || tuned.chunks == 1) return tuned;
  PipelineShape moved = tuned;
  moved.placement = other;
  PipelineSimulator simulator;
  const Ticks stays = simulator.run(tuned, times).makespan;
  return simulator.run(moved, times).makespan < stays ? moved : tuned;
}

ScheduleSummary summarize(const PipelineShape& shape, const PipelineResult& result) {
  ScheduleSummary summary;
  summary.makespan = result.makespan;
  summary.span = result.span();
  Ticks busiest = 0;
  for (const DeviceUse& use : result.devices) busiest = std::max(busiest, use.busy);
  summary.bubble_time = summary.makespan - busiest;
  if (summary.makespan > 0) {
    summary.bubble_fraction =
        static_cast<double>(summary.bubble_time) / static_cast<double>(summary.makespan);
  }
  for (int device = 0; device < shape.stages; ++device) {
    summary.peak_activations.push_back(static_cast<double>(peak_chunks(shape, device)) /
                                       shape.chunks);
  }
  return summary;
}

}  // namespace plansearch
