// SPDX-License-Identifier: Apache-2.0
// Orders in which all micro-batches pass a chunk before the next one starts: GPipe, breadth-first.
//
// Every device and every channel then is a machine of a flow shop that equal jobs pass one after
// the other. The times at which they leave a machine are a few runs of equal distance, so that the
// cost does not grow with the micro-batches.
#pragma once

#include <vector>

#include "schedule/simulation/pipeline.hpp"

namespace plansearch {

class FlowSimulator {
 public:
  /// Requires a legal shape on looped places, and times that fit it. Allocates nothing once it has
  /// seen a pipeline of this size.
  void run(const PipelineShape& shape, const PipelineTimes& times, PipelineResult& result);

 private:
  /// Times at equal distance.
  struct Series {
    Ticks first = 0;
    Ticks step = 0;
    [[nodiscard]] Ticks at(Ticks index) const { return first + index * step; }
  };
  /// Messages that follow one another: when they are there, and when they were made.
  struct Run {
    Series there;
    Series made;
    Ticks count = 0;
  };
  /// One phase of one virtual stage.
  struct Pass {
    std::size_t channel = 0;
    Ticks work = 0;      ///< on the compute queue, blocking send included
    Ticks blocked = 0;   ///< of which blocking send
    Ticks transfer = 0;  ///< on the channel
  };

  void run_pass(const Pass& pass, Ticks jobs, DeviceUse& use);
  [[nodiscard]] Ticks serve(const Run& input, Ticks from, const Pass& pass, DeviceUse& use);
  void send(Series ends, Ticks count, const Pass& pass);
  void add(Run run);

  std::vector<Ticks> channels_;  ///< when they are free, by device and direction
  std::vector<Run> input_;       ///< of the pass that runs; empty: there from the start
  std::vector<Run> output_;
};

}  // namespace plansearch
