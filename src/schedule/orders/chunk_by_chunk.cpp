// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute orders of GPipe and of breadth-first (looped) pipelines.
// Source:     Huang et al., GPipe (NeurIPS 2019); alpa-projects/alpa@b8078a9f schedules.py;
//             Lamy-Poirier, Breadth-First Pipeline Parallelism (arXiv 2211.05953); LoopedBFS of
//             torch.distributed.pipelining.
// Assumes:    backwards of GPipe in the sequence of the forwards; those of a chunk of breadth-first
//             take the micro-batches from the last to the first.
// Units:      none.
// Checked by: tests/unit/schedule/orders_test.cpp, orders/breadth_first_test.cpp
#include "schedule/simulation/closed_form.hpp"
#include "schedule/table.hpp"

namespace plansearch {

Schedule gpipe_schedule() {
  Schedule row = looped_schedule("gpipe", "all forwards, then all backwards");
  row.order = [](const PipelineShape& shape) {
    return order_by_device(shape, [&](int /*device*/) {
      std::vector<ComputeStep> steps;
      for (const Phase phase : {Phase::Forward, Phase::Backward}) {
        for (int i = 0; i < shape.micro_batches; ++i) steps.push_back({0, i, phase});
      }
      return steps;
    });
  };
  row.chunk_by_chunk = true;
  row.bound = flow_shop_makespan;
  row.estimate = flow_shop_makespan;
  row.warm_up = [](const PipelineShape& shape, int) { return shape.micro_batches - 1; };
  return row;
}

Schedule breadth_first_schedule() {
  Schedule row = looped_schedule(
      "breadth-first",
      "all micro-batches through one chunk after the other: gathers each chunk once");
  row.aliases = {"looped-bfs", "loopedbfs", "bfs"};
  row.fewest_stages = 2;
  row.chunks = {2, std::nullopt};
  row.order = [](const PipelineShape& shape) {
    return order_by_device(shape, [&](int /*device*/) {
      std::vector<ComputeStep> steps;
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        for (int i = 0; i < shape.micro_batches; ++i) steps.push_back({chunk, i, Phase::Forward});
      }
      for (std::size_t i = steps.size(); i-- > 0;) {
        steps.push_back({steps[i].chunk, steps[i].micro_batch, Phase::Backward});
      }
      return steps;
    });
  };
  row.chunk_by_chunk = true;
  row.warm_up = [](const PipelineShape& shape, int) {
    return shape.micro_batches * shape.chunks - 1;
  };
  return row;
}

}  // namespace plansearch
