// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute orders in which every device runs forwards ahead and then forwards and
//             backwards in turn: 1F1B (PipeDream-flush), eager and interleaved 1F1B, ZB-H1, ZB-H2,
//             pairs of a forward and a backward, and 3F1B.
// Source:     that of each stands above its row.
// Assumes:    looped placement; a weight gradient may run any time after the input gradient of the
//             same micro-batch.
// Units:      none.
// Checked by: tests/unit/schedule/orders_test.cpp; the tests of each in orders/
#include <algorithm>

#include "schedule/simulation/closed_form.hpp"
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

struct Turns {
  int behind = 1;  ///< forwards ahead for every device behind this one
  /// Forwards ahead beyond what the first gradient needs, so that those of one turn do not wait for
  /// each other; then every such two are one piece.
  int more = 0;
  /// Whether a weight gradient follows the backward of a turn; null: none is a piece of its own.
  bool (*weight)(int device, int turn, bool draining) = nullptr;
};

/// Forwards ahead, then a forward, a backward and perhaps a weight gradient in turn.
ComputeOrder order_in_turns(const PipelineShape& shape, const Turns& turns) {
  const std::vector<ComputeStep> forwards = forward_sequence(shape);
  return order_by_device(shape, [&](int device) {
    const int ahead = turns.behind * (shape.stages - 1 - device) +
                      (shape.chunks - 1) * shape.group_size() + turns.more;
    const auto all = static_cast<int>(forwards.size());
    const int warm = std::min(all, ahead);
    std::vector<ComputeStep> steps(forwards.begin(), forwards.begin() + warm);
    int weights = 0;
    for (int i = 0; i < all; ++i) {
      const bool draining = warm + i >= all;
      if (!draining) steps.push_back(forwards[static_cast<std::size_t>(warm + i)]);
      const ComputeStep& twin = forwards[static_cast<std::size_t>(i)];
      steps.push_back({shape.chunks - 1 - twin.chunk, twin.micro_batch, Phase::Backward,
                       !draining && turns.more > 0});
      if (turns.weight != nullptr && turns.weight(device, i, draining)) {
        steps.push_back({0, weights++, Phase::WeightGradient});
      }
    }
    while (turns.weight != nullptr && weights < all) {
      steps.push_back({0, weights++, Phase::WeightGradient});
    }
    return steps;
  });
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

ComputeOrder pairs_order(const PipelineShape& shape) {
  return order_by_device(shape, [&](int /*device*/) {
    std::vector<ComputeStep> steps{{0, 0, Phase::Forward}};
    for (int i = 0; i < shape.micro_batches; ++i) {
      steps.push_back({0, i, Phase::Backward});
      if (i + 1 < shape.micro_batches) steps.push_back({0, i + 1, Phase::Forward, true});
    }
    return steps;
  });
}

/// In turn t a device runs pass p of micro-batch t - p, then the backward of the micro-batch whose
/// last forward has been to the last device and whose gradient has come back.
ComputeOrder passes_in_turn(const PipelineShape& shape) {
  const auto exists = [&](int i) { return i >= 0 && i < shape.micro_batches; };
  return order_by_device(shape, [&](int device) {
    const int behind = shape.forwards - 1 + shape.stages - 1 - device;
    std::vector<ComputeStep> steps;
    for (int turn = 0; turn < shape.micro_batches + behind; ++turn) {
      for (int pass = 0; pass < shape.forwards; ++pass) {
        if (exists(turn - pass)) steps.push_back({0, turn - pass, Phase::Forward, false, pass});
      }
      if (exists(turn - behind)) steps.push_back({0, turn - behind, Phase::Backward});
    }
    return steps;
  });
}

Schedule over_chunks(std::string_view name, std::string_view summary) {
  Schedule row = looped_schedule(name, summary);
  row.chunks = {2, std::nullopt};
  row.fewest_stages = 2;
  row.groups = Groups::Sized;
  row.fault = group_fault;
  return row;
}

}  // namespace

Schedule looped_schedule(std::string_view name, std::string_view summary) {
  Schedule row;
  row.name = name;
  row.summary = summary;
  row.placement = &looped_mapping();
  return row;
}

/// Narayanan et al. (SC 2021); alpa-projects/alpa@b8078a9f schedules.py.
Schedule one_f_one_b_schedule() {
  Schedule row = looped_schedule(
      "1f1b", "one forward, one backward: at most as many micro-batches as stages in flight");
  row.aliases = {"pipedream-flush"};
  row.order = [](const PipelineShape& shape) { return order_in_turns(shape, {}); };
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, shape.stages}; };
  row.rounds = &RoundSimulator::one_f_one_b;
  row.bound = alternating_bound;
  row.estimate = alternating_estimate;
  row.warm_up = alternating_warm_up;
  return row;
}

/// Zhuang et al. (arXiv 2211.05322); alpa-projects/alpa@b8078a9f schedules.py. Twice as many forwards
/// ahead as 1F1B, so that a transfer has a whole micro-batch of time.
Schedule eager_1f1b_schedule() {
  Schedule row =
      looped_schedule("eager-1f1b", "1f1b further ahead: transfers hide, twice the activations");
  row.aliases = {"1f1b-overlap-friendly"};
  row.order = [](const PipelineShape& shape) { return order_in_turns(shape, {.behind = 2}); };
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, 2 * shape.stages}; };
  return row;
}

/// Narayanan et al. (SC 2021); Megatron-LM core/pipeline_parallel/schedules.py, with its groups of
/// micro-batches per virtual stage.
Schedule interleaved_schedule() {
  Schedule row =
      over_chunks("interleaved", "1f1b over model chunks: a smaller bubble, more messages");
  row.aliases = {"interleaved-1f1b"};
  row.needs = "p at least 2, m a multiple of p (or of the framework's groups)";
  row.order = [](const PipelineShape& shape) { return order_in_turns(shape, {.behind = 2}); };
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

/// Megatron-LM get_pp_rank_microbatches (one more forward ahead under
/// overlap_moe_expert_parallel_comm), combined_1f1b.py.
Schedule interleaved_pairs_schedule() {
  Schedule row = over_chunks(
      "interleaved-pairs",
      "interleaved, every forward beside a backward: messages of experts under kernels");
  row.needs =
      "p at least 2, m a multiple of p; Megatron-LM transformer_config.py: "
      "virtual_pipeline_model_parallel_size must be specified";
  row.joins = true;
  row.order = [](const PipelineShape& shape) {
    return order_in_turns(shape, {.behind = 2, .more = 1});
  };
  row.repetition = [](const PipelineShape& shape) {
    return Repetition{shape.group_size(), 2 * shape.group_size()};
  };
  row.warm_up = [](const PipelineShape& shape, int device) {
    return alternating_warm_up(shape, device) + 1;
  };
  return row;
}

/// Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 2.1;
/// sail-sg/zero-bubble-pipeline-parallelism@39f2c186.
/// As 1F1B, with as many micro-batches in flight on every device as 1F1B has on the first: device r
/// starts its weight gradients r micro-batches late, and the late ones fill the drain.
Schedule zb_h1_schedule() {
  Schedule row = looped_schedule(
      "zb-h1", "1f1b with weight gradients in the bubble: a third of it left, no more memory");
  row.aliases = {"zb1p", "zbh1", "zb-1p"};
  row.weight_gradients = WeightGradients::Separate;
  row.order = [](const PipelineShape& shape) {
    const auto weight = [](int device, int i, bool draining) { return draining || i >= device; };
    return order_in_turns(shape, {.weight = weight});
  };
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, shape.stages}; };
  return row;
}

/// The same, section 2.2: the optimizer step of a device does not wait for the others
/// (post-validation); the makespan of all devices is longer than the span of each.
/// Forwards ahead fill the bubble before the first gradient, weight gradients the one after the
/// last: device r starts the latter 2 r micro-batches late.
Schedule zb_h2_schedule() {
  Schedule row = looped_schedule(
      "zb-h2",
      "weight gradients and forwards ahead fill the bubble: twice the activations (all of it from "
      "2 p - 1 micro-batches on)");
  row.aliases = {"zb2p", "zbh2", "zb-2p"};
  row.weight_gradients = WeightGradients::Separate;
  row.order = [](const PipelineShape& shape) {
    const auto weight = [](int device, int i, bool /*draining*/) { return i >= 2 * device; };
    return order_in_turns(shape, {.behind = 2, .weight = weight});
  };
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, 2 * shape.stages}; };
  return row;
}

/// Megatron-LM combined_1f1b_schedule_for_no_pipelining: every forward but the first runs beside the
/// backward of the micro-batch before; layer by layer it keeps what the backward has freed.
Schedule pairs_schedule() {
  Schedule row = looped_schedule(
      "pairs", "one stage, every forward beside a backward: messages of experts under kernels");
  row.needs = "p = 1";
  row.chunks = {1, 1};
  row.joins = true;
  row.order = pairs_order;
  row.fault = [](const PipelineShape& shape) -> std::optional<ShapeFault> {
    if (shape.stages == 1) return std::nullopt;
    return ShapeFault{ShapeField::Stages, shape.stages, {1, 1, 1}};
  };
  row.repetition = [](const PipelineShape&) { return Repetition{1, 1}; };
  return row;
}

/// Lin et al., nnScaler (OSDI 2024), figure 2 and table 4: f1 of micro-batch m + 2 before f2 of m + 1
/// before f3 of m before b of m - (S - i) on stage i of S; every pass ends before the next one of its
/// micro-batch begins.
Schedule several_forwards_schedule() {
  Schedule row = looped_schedule(
      "3f1b", "passes of a network that is passed several times in turn, then one backward");
  row.needs = "a network that micro-batches pass several times";
  row.several_forwards = true;
  row.order = passes_in_turn;
  row.repetition = [](const PipelineShape& shape) {
    return Repetition{1, shape.stages + shape.forwards};
  };
  return row;
}

}  // namespace plansearch
