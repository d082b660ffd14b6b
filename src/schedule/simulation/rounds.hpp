// SPDX-License-Identifier: Apache-2.0
// 1F1B and interleaved 1F1B simulated in rounds: what their rows of the table use.
//
// The two orders are laid out in skewed rounds such that every message is consumed in the round
// it is sent in or in the next one. A round therefore is a loop over devices, and the state between
// rounds is a handful of times per device. When that state repeats up to a constant, the rounds in
// between repeat for ever (the program is a max-plus linear map) and are skipped in one step:
// exact, and the cost stops growing with the number of micro-batches. order_simulator.hpp gives the
// same results; without this file large searches over these two schedules take up to 40 % longer.
#pragma once

#include <vector>

#include "schedule/simulation/pipeline.hpp"

namespace plansearch {

class RoundSimulator {
 public:
  /// One of the two below.
  using Rounds = Ticks (RoundSimulator::*)(const PipelineShape& shape, SteadyState steady);

  /// Requires a legal shape on looped places whose groups are of `stages` micro-batches, and times
  /// that fit it. Allocates nothing once it has seen a pipeline of this size.
  void run(Rounds rounds, const PipelineShape& shape, const PipelineTimes& times,
           SteadyState steady, PipelineResult& result);

  // Each runs all rounds and returns the time of those it has skipped.
  Ticks one_f_one_b(const PipelineShape& shape, SteadyState steady);
  Ticks interleaved(const PipelineShape& shape, SteadyState steady);

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
  PipelineResult* result_ = nullptr;
};

}  // namespace plansearch
