// SPDX-License-Identifier: Apache-2.0
// Source: NVIDIA/Megatron-LM@d98e8a64 megatron/training/arguments.py: validate_args (what follows
// from what, and defaults); older names: 2.x and 3.x of the same file.
#include "exporters/megatron_reading.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plansearch/degree_table.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

void pin(Reading& r, Degree degree, std::string_view word) {
  const auto value = parse_value(degree, word);
  if (!value)
    throw Unsettled(fmt::format("'{}' is not a {}", word, row_of(degree).key), "another value");
  set_degree(r.degrees, degree, *value);
}

void settle_zero(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (is_on(r.value("--use-distributed-optimizer"))) d.zero = ZeroStage::Optimizer;
  if (is_on(r.value("--use-megatron-fsdp")) || is_on(r.value("--use-torch-fsdp2"))) {
    d.zero = is_on(r.value("--use-torch-fsdp2")) ? ZeroStage::Parameters : ZeroStage::None;
    if (r.says("--data-parallel-sharding-strategy")) {
      const std::string strategy = text_in(r.value("--data-parallel-sharding-strategy"));
      if (strategy == "optim") d.zero = ZeroStage::Optimizer;
      if (strategy == "optim_grads") d.zero = ZeroStage::Gradients;
      if (strategy == "optim_grads_params") d.zero = ZeroStage::Parameters;
    }
  }
  if (r.says("--num-distributed-optimizer-instances")) {
    const int copies = count_in(r.value("--num-distributed-optimizer-instances"));
    if (copies > 1 && d.data % copies == 0) d.shard_group = d.data / copies;
  }
}

void settle_precision(Reading& r) {
  const bool mxfp8 = r.says("--fp8-recipe") && text_in(r.value("--fp8-recipe")) == "mxfp8";
  if (r.says("--fp8-format")) {
    r.asked.precision = mxfp8 ? "mxfp8" : "fp8";
    // MXFP8 is a format of its own; the default recipe is delayed.
    const std::string recipe =
        r.says("--fp8-recipe") ? text_in(r.value("--fp8-recipe")) : std::string("delayed");
    if (!mxfp8) r.asked.fp8_recipe = recipe == "blockwise" ? "block" : recipe;
  }
  if (r.says("--fp4-format")) r.asked.precision = "nvfp4";
  if (!r.asked.precision) r.asked.precision = "fp32";
  const bool half = r.asked.precision == "fp16";
  if (half && !is_on(r.value("--accumulate-allreduce-grads-in-fp32"))) r.asked.main_grads = "fp16";
  if (r.says("--exp-avg-dtype")) r.asked.optimizer_states = text_in(r.value("--exp-avg-dtype"));
}

void settle_recompute(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (r.says("--recompute-granularity")) {
    const std::string word = text_in(r.value("--recompute-granularity"));
    pin(r, Degree::Recompute, word);
  } else if (is_on(r.value("--recompute-activations"))) {
    d.recompute = Recompute::Selective;
  } else if (is_on(r.value("--checkpoint-activations")) ||
             is_on(r.value("--activations-checkpoint-method"))) {
    d.recompute = Recompute::Full;
  }
  const bool block =
      r.says("--recompute-method") && text_in(r.value("--recompute-method")) == "block";
  if (d.recompute == Recompute::Full && block && r.says("--recompute-num-layers"))
    d.recompute_layers = count_in(r.value("--recompute-num-layers"));
  if (d.recompute == Recompute::Full && !block && r.says("--recompute-num-layers") &&
      count_in(r.value("--recompute-num-layers")) > 1)
    r.notes.emplace_back("several layers to a checkpoint: priced as one each");
  if (d.recompute != Recompute::Selective || !r.says("--recompute-modules")) return;
  const std::vector<std::string> words = texts_in(r.value("--recompute-modules"));
  if (words != std::vector<std::string>{"core_attn"})
    pin(r, Degree::RecomputeModules, fmt::format("{}", fmt::join(words, ",")));
}

/// The layers of stages where the first or the last has a number of its own, or the embedding and
/// the loss count as a layer.
void settle_uneven(Reading& r) {
  const std::int64_t layers = r.model.layers;
  const int stages = r.degrees.pipeline;
  std::int64_t first = -1, last = -1;
  for (const char* name :
       {"--decoder-first-pipeline-num-layers", "--num-layers-in-first-pipeline-stage"})
    if (r.says(name)) first = whole_number(r.value(name));
  for (const char* name :
       {"--decoder-last-pipeline-num-layers", "--num-layers-in-last-pipeline-stage"})
    if (r.says(name)) last = whole_number(r.value(name));
  const bool embedding = is_on(r.value("--account-for-embedding-in-pipeline-split"));
  const bool loss = is_on(r.value("--account-for-loss-in-pipeline-split"));
  if (stages == 1 || (first < 0 && last < 0 && !embedding && !loss)) return;
  if (layers == 0) throw Unsettled("the number of layers is the network's", "--model NAME");
  if (r.degrees.chunks > 1)
    throw Unsettled("stages of their own numbers of layers beside model chunks",
                    "--pipeline-model-parallel-layout says the same");
  if (embedding || loss) {
    const std::int64_t all = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
    if (embedding) first = all / stages - 1;
    if (loss) last = all / stages - 1;
  }
  const int ends = (first >= 0 ? 1 : 0) + (last >= 0 ? 1 : 0);
  const std::int64_t rest =
      layers - std::max<std::int64_t>(first, 0) - std::max<std::int64_t>(last, 0);
  if (rest < 0 || (stages > ends ? rest % (stages - ends) != 0 : rest != 0))
    throw Unsettled(fmt::format("{} layers do not go into these {} stages", layers, stages),
                    "other numbers of layers at the ends");
  for (int p = 0; p < stages; ++p) {
    StageContent stage{p == 0, stages > ends ? rest / (stages - ends) : 0, 0, p + 1 == stages};
    if (p == 0 && first >= 0) stage.layers = first;
    if (p + 1 == stages && last >= 0) stage.layers = last;
    r.stages.push_back(stage);
  }
}

void settle_chunks(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (r.says("--pipeline-model-parallel-layout")) {
    r.stages = stages_of_layout(text_in(r.value("--pipeline-model-parallel-layout")));
    if (r.stages.empty() || r.stages.size() % static_cast<std::size_t>(d.pipeline) != 0)
      throw Unsettled(fmt::format("the layout has {} stages, which {} do not divide",
                                  r.stages.size(), d.pipeline),
                      "--pipeline-model-parallel-size");
    d.chunks = static_cast<int>(r.stages.size()) / d.pipeline;
  } else if (r.says("--num-virtual-stages-per-pipeline-rank")) {
    d.chunks = count_in(r.value("--num-virtual-stages-per-pipeline-rank"));
  } else if (r.says("--num-layers-per-virtual-pipeline-stage")) {
    const int each = count_in(r.value("--num-layers-per-virtual-pipeline-stage"));
    d.chunks = static_cast<int>(std::max<std::int64_t>(r.model.layers / each / d.pipeline, 1));
  }
  const bool paired = is_on(r.value("--overlap-moe-expert-parallel-comm"));
  const bool own = d.dispatcher == kOwnDispatcher;
  if (d.pipeline > 1 && d.chunks > 1) pin(r, Degree::Schedule, "interleaved");
  if (paired && !own)
    pin(r, Degree::Schedule, d.pipeline > 1 && d.chunks > 1 ? "interleaved-pairs" : "pairs");
}

/// The dispatcher whose messages every run has is the one a plan leaves to the framework.
void settle_dispatcher(Reading& r) {
  if (!r.model.moe) return;
  const std::string word = r.says("--moe-token-dispatcher-type")
                               ? text_in(r.value("--moe-token-dispatcher-type"))
                               : std::string("allgather");
  if (word == "allgather") pin(r, Degree::Dispatcher, "all-gather");
  if (word == "flex" && r.says("--moe-flex-dispatcher-backend"))
    pin(r, Degree::Dispatcher, text_in(r.value("--moe-flex-dispatcher-backend")));
}

/// What is not hidden where its flag could stand in the file and does not.
void settle_flags_of_overlap(Reading& r) {
  const PlanDegrees& d = r.degrees;
  const bool ranks = d.data * d.context > 1;
  const auto absent = [&](const char* flag) { return !is_on(r.value(flag)); };
  if (ranks && absent("--overlap-grad-reduce")) r.hide(Overlap::GradientReduction, false);
  if (ranks && d.zero != ZeroStage::None && absent("--overlap-param-gather"))
    r.hide(Overlap::ParameterGather, false);
  // User buffers lie inside one node.
  const bool buffers = d.tensor_out > 1 && d.sequence_parallel == SequenceParallel::On &&
                       (r.node_gpus == 0 || d.tensor_out <= r.node_gpus);
  if (buffers && absent("--tp-comm-overlap")) r.hide(Overlap::TensorParallel, false);
  // TransformerConfig.__post_init__ takes the flag of experts under these conditions only.
  const bool pairs = r.model.moe && d.expert > 1 && d.recompute != Recompute::Full &&
                     r.asked.precision != "fp32" && r.model.mtp_layers <= 1 &&
                     (d.pipeline == 1 || d.chunks > 1);
  if (pairs && absent("--overlap-moe-expert-parallel-comm")) r.hide(Overlap::ExpertAllToAll, false);
  settle_overlap(r);
}

}  // namespace

void read_context_kind(Reading& r, const Value& v) {
  const std::string word = text_in(v);
  if (word == "p2p")
    r.degrees.context_kind = ContextKind::Ring;
  else if (word == "all_gather")
    r.degrees.context_kind = ContextKind::AllGather;
  else if (word == "a2a")
    r.degrees.context_kind = ContextKind::Ulysses;
  else
    throw WrongValue(fmt::format("'{}' is not p2p, all_gather or a2a", word));
}

// clang-format off
std::vector<Key> megatron_other_keys() {
  const Read known = together;
  return {
      only_read("--num-virtual-stages-per-pipeline-rank", known),
      only_read("--decoder-first-pipeline-num-layers", known),
      only_read("--decoder-last-pipeline-num-layers", known),
      only_read("--num-layers-in-first-pipeline-stage", known),
      only_read("--num-layers-in-last-pipeline-stage", known),
      only_read("--account-for-embedding-in-pipeline-split", known),
      only_read("--account-for-loss-in-pipeline-split", known),
      only_read("--recompute-activations", known),
      only_read("--checkpoint-activations", known),
      only_read("--activations-checkpoint-method", known),
      only_read("--use-torch-fsdp2", known),
      only_read("--use-rotary-position-embeddings",
                [](Reading& r, const Value& v) { if (is_on(v)) r.model.attention.positions = PositionKind::Rotary; }),
      only_read("--no-position-embedding", known),
      only_read("--embed-layernorm", [](Reading& r, const Value& v) { r.model.embedding.norm = is_on(v); }),
      only_read("--tokenizer-type", known),
      only_read("--vocab-size", [](Reading& r, const Value& v) { r.model.embedding.vocab = whole_number(v); }),
      only_read("--pad-vocab-size-to", [](Reading& r, const Value& v) { r.model.embedding.vocab = whole_number(v); }),
      only_read("--padded-vocab-size", [](Reading& r, const Value& v) { r.model.embedding.vocab = whole_number(v); }),
      // What the framework is priced with, or what is the same in parameters, time and memory.
      only_read("--use-mcore-models", known), only_read("--use-legacy-models", known),
      only_read("--transformer-impl", known), only_read("--distributed-backend", known),
      only_read("--apply-layernorm-1p", known), only_read("--openai-gelu", known),
      only_read("--distributed-timeout-minutes", known),
      only_read("--use-flash-attn", known), only_read("--DDP-impl", known),
  };
}
// clang-format on

void start_megatron(Reading& r) {
  r.degrees.data = 0;           // what is left
  r.degrees.micro_batches = 0;  // follows from the batch
  r.degrees.expert_tensor = 0;  // the tensor degree
  r.degrees.micro_batch = 0;
  r.model.dropout = r.model.attention_dropout = 0.1;
  r.model.embedding.tied = true;
  r.model.attention.positions = PositionKind::Learned;
  r.model.training.optimizer = OptimizerKind::Adam;
  r.asked.framework = "megatron";
  r.asked.optimizer = "adam";
}

void settle_megatron(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (d.micro_batch == 0)
    throw Unsettled("nothing says --micro-batch-size, which Megatron-LM asks for",
                    "--micro-batch N");
  if (d.expert_tensor == 0) d.expert_tensor = r.says("--num-experts") ? d.tensor_out : 1;
  settle_megatron_model(r);
  settle_dispatcher(r);
  settle_megatron_plan(r);
}

void say_as_megatron(Reading& r, std::string_view prefix) {
  std::map<std::string, Value, std::less<>> said;
  for (const auto& [key, value] : r.said) {
    if (!key.starts_with(prefix) || is_left_open(value)) continue;
    std::string flag = "--" + key.substr(prefix.size());
    std::replace(flag.begin(), flag.end(), '_', '-');
    said.emplace(std::move(flag), value);
  }
  r.said.merge(said);
}

void settle_megatron_plan(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (d.tensor_out == 1) d.sequence_parallel = SequenceParallel::Off;
  settle_ranks(r);
  settle_chunks(r);
  settle_uneven(r);
  settle_zero(r);
  settle_precision(r);
  settle_recompute(r);
  if (!r.asked.batch) d.micro_batches = 1;  // args.global_batch_size
  settle_batch(r);
  settle_flags_of_overlap(r);
}

namespace {

/// Stages with their groups and repetitions written out.
std::string spread_layout(std::string_view layout, int depth = 0) {
  std::string result;
  for (std::size_t i = 0; i < layout.size();) {
    std::string piece(1, layout[i]);
    std::size_t next = i + 1;
    if (layout[i] == '(') {
      const auto end = layout.find(')', i);
      if (end == std::string_view::npos || depth > 3) throw WrongValue("brackets do not match");
      piece = spread_layout(layout.substr(i + 1, end - i - 1), depth + 1);
      next = end + 1;
    }
    std::int64_t times = 1;
    if (next < layout.size() && layout[next] == '*') {
      std::size_t end = next + 1;
      while (end < layout.size() && layout[end] >= '0' && layout[end] <= '9') ++end;
      times = whole_number(Value(std::string(layout.substr(next + 1, end - next - 1))), 1, 10'000);
      next = end;
    }
    if (result.size() + piece.size() * static_cast<std::size_t>(times) > 100'000)
      throw WrongValue("a layout of so many layers");
    for (std::int64_t k = 0; k < times; ++k) result += piece;
    i = next;
  }
  return result;
}

}  // namespace

std::vector<StageContent> stages_of_layout(const std::string& layout) {
  std::vector<StageContent> stages(1);
  for (const char letter : spread_layout(layout)) {
    StageContent& stage = stages.back();
    switch (letter) {
      case 'E':
        stage.embedding = true;
        break;
      case 't':
        ++stage.layers;
        break;
      case 'm':
        ++stage.predictions;
        break;
      case 'L':
        stage.head = true;
        break;
      case '|':
        stages.emplace_back();
        break;
      case ',':
      case ' ':
        break;
      default:
        throw WrongValue(fmt::format("'{}' is not a letter of a layout", letter));
    }
  }
  return stages;
}

}  // namespace plansearch::exporters
