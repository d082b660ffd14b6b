// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute order of breadth-first (looped) pipelines.
// Source:     Lamy-Poirier, Breadth-First Pipeline Parallelism (arXiv 2211.05953); LoopedBFS of
//             torch.distributed.pipelining.
// Assumes:    backwards of a chunk take the micro-batches from the last to the first.
// Units:      none.
// Checked by: tests/unit/schedule/orders/breadth_first_test.cpp
#include "schedule/table.hpp"

namespace plansearch {
namespace {

ComputeOrder breadth_first_order(const PipelineShape& shape) {
  ComputeOrder order = empty_order(shape);
  std::vector<ComputeStep> steps;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int i = 0; i < shape.micro_batches; ++i) steps.push_back({chunk, i, Phase::Forward});
  }
  for (std::size_t i = steps.size(); i-- > 0;) {
    steps.push_back({steps[i].chunk, steps[i].micro_batch, Phase::Backward});
  }
  order.devices.assign(static_cast<std::size_t>(shape.stages), steps);
  return order;
}

}  // namespace

Schedule breadth_first_schedule() {
  Schedule row;
  row.name = "breadth-first";
  row.aliases = {"looped-bfs", "loopedbfs", "bfs"};
  row.summary = "all micro-batches through one chunk after the other: gathers each chunk once";
  row.placement = &looped_mapping();
  row.fewest_stages = 2;
  row.chunks = {2, std::nullopt};
  row.order = breadth_first_order;
  row.chunk_by_chunk = true;
  row.warm_up = [](const PipelineShape& shape, int) {
    return shape.micro_batches * shape.chunks - 1;
  };
  return row;
}

}  // namespace plansearch
