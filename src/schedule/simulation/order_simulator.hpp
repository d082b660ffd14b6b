// SPDX-License-Identifier: Apache-2.0
// Runs any compute order step by step; extrapolates where the order and its times repeat.
#pragma once

#include <vector>

#include "schedule/simulation/compiled_order.hpp"
#include "schedule/simulation/pipeline.hpp"
#include "schedule/simulation/result.hpp"

namespace plansearch {

class OrderSimulator {
 public:
  /// The times are by virtual stage, as for the shape of the order. Allocates nothing once it has
  /// seen an order of this size.
  void run(const CompiledOrder& order, int periods_left_out, const PipelineTimes& times,
           TransferMode transfers, SteadyState steady, PipelineResult& result);

  /// Periods of the order that the last run has extrapolated.
  [[nodiscard]] long long periods_skipped() const { return periods_skipped_; }

 private:
  /// When the message of a step (or its result) is there, and when it was made.
  struct Output {
    Ticks there = 0;
    Ticks made = 0;
  };
  struct Line {
    Ticks free = 0;
    Ticks exposed = 0;  ///< devices only
    Ticks busy = 0;     ///< devices only
  };
  /// Everything that steps after a cut can still depend on.
  struct Cut {
    std::vector<Output> outputs;
    std::vector<Line> devices;
    std::vector<Line> channels;
    int look = 0;
  };

  void run_steps(const CompiledOrder& order, std::size_t begin, std::size_t end);
  Ticks run_window(const CompiledOrder& order, int periods_left_out, SteadyState steady,
                   PipelineResult& result);
  [[nodiscard]] bool repeats(const CompiledOrder& order, std::size_t cut) const;
  void remember(const CompiledOrder& order, std::size_t cut, int look);
  void move_cut(const CompiledOrder& order, std::size_t from, std::size_t to);
  void note_first_starts(const CompiledOrder& order, PipelineResult& result) const;

  std::vector<Ticks> table_;
  std::vector<Output> outputs_;  ///< by step
  std::vector<Line> devices_;
  std::vector<Line> channels_;
  Cut seen_;
  bool blocking_ = false;
  long long periods_skipped_ = 0;
};

}  // namespace plansearch
