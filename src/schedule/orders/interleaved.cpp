// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute orders of interleaved 1F1B, one after the other and in pairs.
// Source:     Narayanan et al. (SC 2021); Megatron-LM core/pipeline_parallel/schedules.py, with its
//             groups of micro-batches per virtual stage; pairs: get_pp_rank_microbatches (one more
//             forward ahead under overlap_moe_expert_parallel_comm), combined_1f1b.py.
// Assumes:    looped placement.
// Units:      none.
// Checked by: tests/unit/schedule/orders_test.cpp, orders/interleaved_pairs_test.cpp
#include <algorithm>

#include "schedule/simulation/alternating.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Group after group; within a group chunk after chunk; within a chunk all of its micro-batches.
std::vector<ComputeStep> forward_sequence(const PipelineShape& shape) {
  std::vector<ComputeStep> steps;
  for (int first = 0; first < shape.micro_batches; first += shape.group_size()) {
    const int end = std::min(first + shape.group_size(), shape.micro_batches);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int i = first; i < end; ++i) steps.push_back({chunk, i, Phase::Forward});
    }
  }
  return steps;
}

/// The last group of micro-batches must be full or hold at least as many as there are stages: fewer
/// would wait for gradients that wait for them.
std::optional<ShapeFault> group_fault(const PipelineShape& shape) {
  const int group = shape.group_size();
  if (group < shape.stages) {
    return ShapeFault{ShapeField::Group, group, {shape.stages}};
  }
  const int rest = shape.micro_batches % group;
  if (shape.micro_batches < group || (rest != 0 && rest < shape.stages)) {
    return ShapeFault{ShapeField::MicroBatches, shape.micro_batches, {group, group}};
  }
  return std::nullopt;
}

}  // namespace

namespace {

/// `more`: forwards ahead beyond what the first gradient needs, so that those of one step and its
/// backward do not wait for each other; then every such two are one piece.
ComputeOrder alternating_order(const PipelineShape& shape, int more) {
  ComputeOrder order = empty_order(shape);
  const std::vector<ComputeStep> forwards = forward_sequence(shape);
  std::vector<ComputeStep> backwards = forwards;
  for (ComputeStep& step : backwards) {
    step = {shape.chunks - 1 - step.chunk, step.micro_batch, Phase::Backward};
  }
  for (int device = 0; device < shape.stages; ++device) {
    const int ahead =
        2 * (shape.stages - 1 - device) + (shape.chunks - 1) * shape.group_size() + more;
    const std::size_t warm = std::min(forwards.size(), static_cast<std::size_t>(ahead));
    std::vector<ComputeStep> steps(forwards.begin(),
                                   forwards.begin() + static_cast<std::ptrdiff_t>(warm));
    for (std::size_t i = 0; i < backwards.size(); ++i) {
      const bool both = warm + i < forwards.size();
      if (both) steps.push_back(forwards[warm + i]);
      steps.push_back(backwards[i]);
      steps.back().joined = both && more > 0;
    }
    order.devices.push_back(std::move(steps));
  }
  return order;
}

}  // namespace

ComputeOrder interleaved_order(const PipelineShape& shape) {
  return alternating_order(shape, 0);
}

Schedule interleaved_schedule() {
  Schedule row;
  row.name = "interleaved";
  row.aliases = {"interleaved-1f1b"};
  row.summary = "1f1b over model chunks: a smaller bubble, more messages";
  row.needs = "p at least 2, m a multiple of p (or of the framework's groups)";
  row.placement = &looped_mapping();
  row.chunks = {2, std::nullopt};
  row.fewest_stages = 2;
  row.groups = Groups::Sized;
  row.order = interleaved_order;
  row.fault = group_fault;
  row.repetition = [](const PipelineShape& shape) {
    return Repetition{shape.group_size(), shape.group_size()};
  };
  row.rounds = &RoundSimulator::interleaved;
  row.has_rounds = [](const PipelineShape& shape) { return shape.group_size() == shape.stages; };
  row.bound = alternating_bound;
  row.estimate = alternating_estimate;
  row.warm_up = alternating_warm_up;
  return row;
}

Schedule interleaved_pairs_schedule() {
  Schedule row;
  row.name = "interleaved-pairs";
  row.summary = "interleaved, every forward beside a backward: messages of experts under kernels";
  row.needs =
      "p at least 2, m a multiple of p; Megatron-LM transformer_config.py: "
      "virtual_pipeline_model_parallel_size must be specified";
  row.placement = &looped_mapping();
  row.chunks = {2, std::nullopt};
  row.fewest_stages = 2;
  row.groups = Groups::Sized;
  row.joins = true;
  row.order = [](const PipelineShape& shape) { return alternating_order(shape, 1); };
  row.fault = group_fault;
  row.repetition = [](const PipelineShape& shape) {
    return Repetition{shape.group_size(), 2 * shape.group_size()};
  };
  row.warm_up = [](const PipelineShape& shape, int device) {
    return alternating_warm_up(shape, device) + 1;
  };
  return row;
}

}  // namespace plansearch
