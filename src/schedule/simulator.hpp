// SPDX-License-Identifier: Apache-2.0
// Exact step time of a pipeline under GPipe, 1F1B and interleaved 1F1B.
//
// How to use:
//   PipelineSimulator simulator;                       // keep one per thread: it owns the memory
//   PipelineShape shape{ScheduleKind::OneFOneB, 16, 64};
//   if (auto obstacle = obstacle_of(shape)) ...        // legality first, run() only checks sizes
//   const PipelineResult& result = simulator.run(shape, times);   // valid until the next run
//   result.makespan; result.devices[r].busy; result.idle(r); result.bubble(r);
// run() allocates nothing once the simulator has seen a pipeline of this size. Durations are taken
// from the spans of `times`, indexed by virtual stage (schedule/pipeline.hpp). Interleaved
// schedules whose group is not `stages` micro-batches are not built for speed: simulate them
// through the task graph (schedule/task_graph.hpp), which runs any order.
//
// How it works: the three orders are laid out in skewed rounds such that every message is consumed
// in the round it is sent in or in the next one. A round therefore is a loop over devices, and the
// state between rounds is a handful of times per device. When that state repeats up to a constant,
// the rounds in between repeat for ever (the program is a max-plus linear map) and are skipped in
// one step: exact, and the cost stops growing with the number of micro-batches. GPipe needs no
// rounds at all, a flow shop of equal jobs has a closed form.
#pragma once

#include <span>
#include <vector>

#include "plansearch/quantity.hpp"
#include "schedule/pipeline.hpp"

namespace plansearch {

struct DeviceUse {
  Ticks first_start = 0;
  Ticks last_end = 0;          ///< includes the last blocking send
  Ticks busy = 0;              ///< computing
  Ticks exposed_transfer = 0;  ///< not computing because a message was on its way or being sent
  bool operator==(const DeviceUse&) const = default;
};

struct PipelineResult {
  Ticks makespan = 0;  ///< from the first start to the last end of all devices
  std::vector<DeviceUse> devices;
  int micro_batches_simulated = 0;  ///< the others were extrapolated (0: closed form)

  [[nodiscard]] Ticks idle(std::size_t device) const { return makespan - devices[device].busy; }
  /// Idle for lack of work: neither computing nor waiting for a transfer.
  [[nodiscard]] Ticks bubble(std::size_t device) const {
    return idle(device) - devices[device].exposed_transfer;
  }
  /// Longest time between a device's first start and its last end.
  [[nodiscard]] Ticks span() const;
};

enum class SteadyState : std::uint8_t { Extrapolate, SimulateAll };

class PipelineSimulator {
 public:
  /// Requires a legal shape (obstacle_of) with group_size() == stages and matching times.
  const PipelineResult& run(const PipelineShape& shape, const PipelineTimes& times,
                            SteadyState steady = SteadyState::Extrapolate);

 private:
  /// State of one device between rounds.
  struct Rank {
    Ticks free = 0;             ///< end of the last thing on the compute queue
    Ticks activation_out = 0;   ///< arrival of the last activation sent
    Ticks activation_made = 0;  ///< when it was produced
    Ticks gradient_out = 0;
    Ticks gradient_made = 0;
    Ticks exposed = 0;
  };
  /// One phase of one virtual stage.
  struct Piece {
    Ticks occupied = 0;  ///< duration on the compute queue, blocking send included
    Ticks blocked = 0;   ///< of which blocking send
    Ticks transfer = 0;  ///< on the send stream
  };
  /// Indices of a round of the interleaved order.
  struct Interleaving {
    int stages = 1;
    int chunks = 1;
    int cycle = 1;  ///< pieces of one group of micro-batches, all chunks
    int depth = 0;  ///< rounds from the first forward to the first backward of device 0
    int forward_position = 0;
    int backward_position = 0;
  };

  void load(const PipelineShape& shape, const PipelineTimes& times);
  Ticks run_gpipe(const PipelineShape& shape);
  Ticks run_one_f_one_b(const PipelineShape& shape, SteadyState steady);
  Ticks run_interleaved(const PipelineShape& shape, SteadyState steady);
  void finish(const PipelineShape& shape, const PipelineTimes& times, Ticks shift);

  void occupy(Rank& rank, const Piece& piece, Ticks arrival, Ticks made);
  void forward(Rank& rank, const Piece& piece, Ticks arrival, Ticks made);
  void backward(Rank& rank, const Piece& piece, Ticks arrival, Ticks made);
  void one_f_one_b_round(int k, int jobs);
  void interleaved_round(const Interleaving& plan, int k, int total);
  [[nodiscard]] bool state_repeats() const;
  [[nodiscard]] bool recognise(int look);
  [[nodiscard]] Ticks skip(int times);

  std::vector<Rank> ranks_;
  std::vector<Rank> seen_;  ///< an earlier state, to be recognised
  int seen_look_ = 0;
  std::vector<Piece> forward_;
  std::vector<Piece> backward_;
  std::vector<int> chunk_of_;  ///< interleaved: chunk by position in a group
  PipelineResult result_;
};

/// Most chunks whose activations device `rank` keeps at one time (divide by `chunks` for
/// micro-batches of a whole device-stage). Depends on the order alone, not on durations.
[[nodiscard]] int peak_chunks(const PipelineShape& shape, int rank);

/// The same weighted: `bytes_of_chunk[c]` is what one micro-batch leaves on the device in chunk c.
[[nodiscard]] Bytes peak_activation_bytes(const PipelineShape& shape, int rank,
                                          std::span<const Bytes> bytes_of_chunk);

}  // namespace plansearch
