// SPDX-License-Identifier: Apache-2.0
// Source: NVIDIA/Megatron-LM@d98e8a64 megatron/training/arguments.py: validate_args (what follows
// from what, and defaults); older names: 2.x and 3.x of the same file.
#include "exporters/megatron_reading.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "exporters/readers.hpp"
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
  if (r.on("sharded")) d.zero = ZeroStage::Optimizer;
  if (r.on("megatron_fsdp") || r.on("torch_fsdp2")) {
    d.zero = r.on("torch_fsdp2") ? ZeroStage::Parameters : ZeroStage::None;
    const std::string strategy = r.word("sharding_strategy");
    if (strategy == "optim") d.zero = ZeroStage::Optimizer;
    if (strategy == "optim_grads") d.zero = ZeroStage::Gradients;
    if (strategy == "optim_grads_params") d.zero = ZeroStage::Parameters;
  }
  if (!r.knows("shard_copies")) return;
  const int copies = count_in(r.fact("shard_copies"));
  if (copies > 1 && d.data % copies == 0) d.shard_group = d.data / copies;
}

void settle_precision(Reading& r) {
  if (r.knows("fp8_format")) {
    // MXFP8 is a format of its own; the default recipe is delayed.
    const std::string recipe = r.word("fp8_recipe_of_products", "delayed");
    r.asked.precision = recipe == "mxfp8" ? "mxfp8" : "fp8";
    if (recipe != "mxfp8") r.asked.fp8_recipe = recipe;
  }
  if (r.on("nvfp4")) r.asked.precision = "nvfp4";
  if (!r.asked.precision) r.asked.precision = "fp32";
  const bool half = r.asked.precision == "fp16";
  const bool fsdp = r.on("megatron_fsdp") && r.degrees.zero >= ZeroStage::Gradients;
  const bool narrow = r.on("bf16_sums") || r.on("narrow_sums") ||
                      (half ? !r.on("fp32_sums") : fsdp && !r.on("fsdp_fp32_sums"));
  // Without a word of the script it is said where the framework's format is another.
  if (half ? !narrow : !narrow && r.asked.precision != "bf16" && r.asked.precision != "fp32") {
    r.asked.main_grads = "fp32";
  }
  if (narrow && !half) r.asked.main_grads = "bf16";
}

void settle_recompute(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (!r.knows("recompute") && r.on("recomputes_attention")) d.recompute = Recompute::Selective;
  if (!r.knows("recompute") && !r.on("recomputes_attention") && r.on("recomputes_layers"))
    d.recompute = Recompute::Full;
  const bool block = r.word("recompute_method") == "block";
  const int layers = r.count("recomputed_layers", 0);
  if (d.recompute == Recompute::Full && block && layers > 0) d.recompute_layers = layers;
  if (d.recompute == Recompute::Full && !block && layers > 1)
    r.notes.emplace_back("several layers to a checkpoint: priced as one each");
  if (d.recompute != Recompute::Selective || !r.knows("recomputed_modules")) return;
  const std::vector<std::string> words = texts_in(r.fact("recomputed_modules"));
  if (words != std::vector<std::string>{"core_attn"})
    pin(r, Degree::RecomputeModules, fmt::format("{}", fmt::join(words, ",")));
}

/// The layers of stages where the first or the last has a number of its own, or the embedding and
/// the loss count as a layer.
void settle_uneven(Reading& r) {
  const std::int64_t layers = r.model.layers;
  const int stages = r.degrees.pipeline;
  std::int64_t first = r.number("first_stage_layers", -1);
  std::int64_t last = r.number("last_stage_layers", -1);
  const bool embedding = r.on("embedding_is_layer");
  const bool loss = r.on("loss_is_layer");
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
    const std::int64_t times = repetitions(layout, next, 1);
    if (result.size() + piece.size() * static_cast<std::size_t>(times) > 100'000)
      throw WrongValue("a layout of so many layers");
    for (std::int64_t k = 0; k < times; ++k) result += piece;
    i = next;
  }
  return result;
}

/// "Et*20|t*12L". WrongValue for other words.
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

void settle_chunks(Reading& r) {
  PlanDegrees& d = r.degrees;
  const bool layout = r.knows("layout");
  if (layout) r.stages = stages_of_layout(r.word("layout"));
  if (!r.stages.empty()) {
    if (r.stages.size() % static_cast<std::size_t>(d.pipeline) != 0)
      throw Unsettled(
          fmt::format("the {} has {} {}, which {} do not divide", layout ? "layout" : "pattern",
                      r.stages.size(), layout ? "stages" : "segments", d.pipeline),
          "--pipeline-model-parallel-size");
    d.chunks = static_cast<int>(r.stages.size()) / d.pipeline;
  } else if (!r.knows("vpp") && !r.knows("even_chunks") && r.knows("layers_per_chunk")) {
    const int each = count_in(r.fact("layers_per_chunk"));
    d.chunks = static_cast<int>(std::max<std::int64_t>(r.model.layers / each / d.pipeline, 1));
  }
  const bool paired = r.on("experts_overlapped");
  const bool own = d.dispatcher == kOwnDispatcher;
  if (d.pipeline > 1 && d.chunks > 1) pin(r, Degree::Schedule, "interleaved");
  if (paired && !own)
    pin(r, Degree::Schedule, d.pipeline > 1 && d.chunks > 1 ? "interleaved-pairs" : "pairs");
}

/// The dispatcher whose messages every run has is the one a plan leaves to the framework.
void settle_dispatcher(Reading& r) {
  const std::string word = r.word("token_dispatcher");
  if (word == "allgather") pin(r, Degree::Dispatcher, "all-gather");
  if (word == "flex" && r.knows("flex_backend")) pin(r, Degree::Dispatcher, r.word("flex_backend"));
}

/// A kind of message is not hidden where its flag could stand in the file and does not.
void settle_flags_of_overlap(Reading& r) {
  const PlanDegrees& d = r.degrees;
  const bool ranks = d.data * d.context > 1;
  const auto absent = [&](const char* fact) { return !r.on(fact); };
  if (!ranks) {  // their flags are about messages that do not exist
    r.hides.at(static_cast<std::size_t>(Overlap::GradientReduction)).reset();
    r.hides.at(static_cast<std::size_t>(Overlap::ParameterGather)).reset();
  }
  if (ranks && absent("overlap grad")) r.hide(Overlap::GradientReduction, false);
  if (ranks && d.zero != ZeroStage::None && absent("gathers_hidden"))
    r.hide(Overlap::ParameterGather, false);
  // User buffers lie inside one node.
  const bool buffers = d.tensor_out > 1 && d.sequence_parallel == SequenceParallel::On &&
                       (r.node_gpus == 0 || d.tensor_out <= r.node_gpus);
  if (buffers && absent("user_buffers")) r.hide(Overlap::TensorParallel, false);
  // TransformerConfig.__post_init__ takes the flag of experts under these conditions only.
  const bool pairs = r.model.moe && d.expert > 1 && d.recompute != Recompute::Full &&
                     r.asked.precision != "fp32" && r.model.mtp_layers <= 1 &&
                     (d.pipeline == 1 || d.chunks > 1);
  if (pairs && absent("experts_overlapped")) r.hide(Overlap::ExpertAllToAll, false);
  settle_overlap(r);
}

}  // namespace

std::int64_t repetitions(std::string_view text, std::size_t& place, std::int64_t low) {
  if (place >= text.size() || text[place] != '*') return 1;
  const std::size_t begin = place + 1;
  place = std::min(text.find_first_not_of("0123456789", begin), text.size());
  return whole_number(Value(std::string(text.substr(begin, place - begin))), low, 10'000);
}

void start_megatron_plan(Reading& r) {
  r.degrees.data = 0;           // what is left
  r.degrees.micro_batches = 0;  // follows from the batch
}

void start_megatron(Reading& r) {
  start_megatron_plan(r);
  r.degrees.expert_tensor = 0;  // the tensor degree
  r.degrees.micro_batch = 0;
  r.model.dropout = r.model.attention_dropout = 0.1;
  r.model.embedding.tied = true;
  r.model.attention.positions = PositionKind::Learned;
  r.model.training.optimizer = OptimizerKind::Adam;
}

/// The network and its dispatcher, then the plan.
void settle_megatron(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (d.micro_batch == 0)
    throw Unsettled("nothing says --micro-batch-size, which Megatron-LM asks for",
                    "--micro-batch N");
  if (d.expert_tensor == 0) d.expert_tensor = r.knows("experts") ? d.tensor_out : 1;
  settle_megatron_model(r);
  if (!r.model.moe) r.facts.erase("token_dispatcher");
  settle_megatron_plan(r);
}

/// Adapters by a switch, or by a rank above zero.
void settle_megatron_adapters(Reading& r) {
  const bool ranked = r.number("adapter_rank", 0, 0) > 0;
  if (r.knows("adapters") ? r.on("adapters") : ranked) read_megatron_adapters(r);
}

void settle_megatron_plan(Reading& r) {
  PlanDegrees& d = r.degrees;
  settle_dispatcher(r);
  settle_megatron_adapters(r);
  if (d.expert_tensor == 0) d.expert_tensor = d.expert > 1 ? d.tensor_out : 1;
  if (d.tensor_out == 1) d.sequence_parallel = SequenceParallel::Off;
  settle_ranks(r);
  settle_chunks(r);
  settle_uneven(r);
  settle_zero(r);
  settle_precision(r);
  settle_recompute(r);
  if (!r.asked.batch && !r.knows("micro_batches")) d.micro_batches = 1;  // args.global_batch_size
  settle_batch(r);
  settle_flags_of_overlap(r);
}

}  // namespace plansearch::exporters
