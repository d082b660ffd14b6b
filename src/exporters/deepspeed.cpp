// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's configuration: facts of its own, and what its keys say together.
// Source: deepspeedai/DeepSpeed@edaa7221 (2026-08-22) deepspeed/runtime/config.py: DeepSpeedConfig
// (_batch_assertion); deepspeed/runtime/zero/config.py; deepspeed/runtime/engine.py:
// _do_optimizer_sanity_check, _configure_bf16_optimizer (bf16 with gradients added up in fp32 is
// BF16_Optimizer, which shards states at stage 0 too)
#include <fmt/format.h>

#include "exporters/fact.hpp"
#include "exporters/readers.hpp"

namespace plansearch::exporters {

// clang-format off
Facts deepspeed_facts() {
  return {
      {"zero_stage", {s(D::Zero)}, [](H h) { return Value(h.sharded() ? static_cast<int>(h.degrees.zero) : 0); },
       [](R r, V v) { r.degrees.zero = static_cast<ZeroStage>(whole_number(v, 0, 3)); }},
      {"overlap_comm", {setting_of(Overlap::GradientReduction), setting_of(Overlap::ParameterGather)},
       [](H h) { return Value(h.overlaps(Overlap::GradientReduction)); }},
      {"deepspeed", {s(D::Zero)}, [](H) { return Value(true); }},
      // GPT-NeoX's, a fork of Megatron-DeepSpeed with keys of its own.
      {"neox_activation", {}}, {"neox_attention", {}},
      {"neox_attention_bias", {}}, {"neox_mlp_bias", {}}, {"mlp_multiple", {}},
      {"parallel_residual", {}, {},
       [](R r, V v) { if (is_on(v)) r.model.norm.placement = NormPlacement::ParallelTwo; }},
      {"tied_residual_norms", {}, {},
       [](R r, V v) { if (is_on(v)) r.model.norm.placement = NormPlacement::Parallel; }},
      {"unsharded_bf16", {},
       [](H h) {
         return Value(h.problem.precision == DataType::Bf16 && h.degrees.zero == ZeroStage::None &&
                      h.degrees.data * h.degrees.context > 1 && h.chosen.main_grads != "bf16");
       }},
  };
}
// clang-format on

void start_deepspeed(Reading& r) {
  r.degrees.data = 0;
  r.degrees.micro_batches = 0;
  r.open.insert(Degree::MicroBatch);
  r.open.insert(Degree::Recompute);
}

/// "auto" is the script's.
void settle_deepspeed_alone(Reading& r) {
  if (!r.asked.precision && !r.left_open.contains("bf16") && !r.left_open.contains("fp16"))
    r.asked.precision = "fp32";
  settle_deepspeed(r);
  settle_ranks(r);
  settle_batch(r);
  settle_unsharded_bf16(r);
  settle_overlap(r);
  r.notes.emplace_back("recomputation, attention and sequence length are the script's");
}

/// zero/config.py: overlap_comm is on for stage 3 where nothing says it.
void settle_deepspeed(Reading& r) {
  const bool on =
      r.knows("overlap_comm") ? r.on("overlap_comm") : r.degrees.zero == ZeroStage::Parameters;
  r.hide(Overlap::GradientReduction, on);
  r.hide(Overlap::ParameterGather, on);
}

void settle_unsharded_bf16(Reading& r) {
  const bool ranks = r.degrees.data * r.degrees.context > 1;
  if (!ranks || r.asked.precision != "bf16" || r.degrees.zero != ZeroStage::None) return;
  if (r.asked.main_grads == "bf16") return;
  r.degrees.zero = ZeroStage::Optimizer;
  r.notes.emplace_back("DeepSpeed's optimizer of bf16 shards states at stage 0 too: zero 1");
}

/// EleutherAI/gpt-neox@ea7aefd8 megatron/neox_arguments/neox_args.py (defaults);
/// megatron/model/transformer.py: ParallelMLP (a gated MLP has a third of the width that is said).
void settle_neox_keys(Reading& r) {
  r.facts["deepspeed"] = Value(true);
  if (!r.knows("tokenizer_type")) r.facts["tokenizer_type"] = Value("GPT2BPETokenizer");
  if (!r.knows("dropout")) r.model.dropout = 0.0;
  if (!r.knows("attention_dropout")) r.model.attention_dropout = 0.0;
  const std::string layers = r.fact("neox_attention").dump();
  for (const char* word : {"mamba", "rwkv", "gmlp", "sparse", "local", "bigbird", "bslongformer"})
    if (layers.find(word) != std::string::npos)
      throw Unsettled(fmt::format("its layers are {}, not all plain attention", word),
                      "--model NAME; docs/models.md says how to describe a network");
  if (!r.model.max_positions) r.model.max_positions = r.asked.seq_len.value_or(2048);
  if (layers.find("flash") != std::string::npos) r.asked.attention = "flash";
  MlpDescription& mlp = r.model.mlp;
  const std::string activation = r.word("neox_activation", "gelu");
  mlp.gated = activation.ends_with("glu") || activation == "bilinear";
  if (activation == "swiglu" || activation == "swish") mlp.activation = Activation::Silu;
  if (activation == "reglu" || activation == "relu") mlp.activation = Activation::Relu;
  if (mlp.width == 0) mlp.width = 4 * r.model.hidden;
  const std::int64_t each = r.number("mlp_multiple", 1);
  mlp.width = (mlp.width / (mlp.gated ? 3 : 1) + each - 1) / each * each;
}

/// deepspeedai/Megatron-DeepSpeed@4efb479d megatron/arguments.py: older than Megatron-LM's, with
/// ZeRO and Ulysses of its own. Its stages are cut by DeepSpeed; everything else follows as in
/// Megatron-LM.
void settle_megatron_deepspeed(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (r.model.attention.kv_heads > 0 && !r.knows("grouped_queries"))
    r.facts["grouped_queries"] = Value(true);
  const bool neox = r.says("num_layers");
  if (neox) settle_neox_keys(r);
  settle_megatron(r);
  if (neox) {  // by themselves, unlike Megatron's
    const auto biased = [&](const char* fact) { return !r.knows(fact) || r.on(fact); };
    AttentionDescription& a = r.model.attention;
    a.query_key_value_bias = a.output_bias = biased("neox_attention_bias");
    r.model.mlp.bias = biased("neox_mlp_bias");
  }
  if (r.knows("zero")) d.zero = static_cast<ZeroStage>(whole_number(r.fact("zero"), 0, 3));
  if (r.on("uniform_recompute") && !r.knows("recompute")) d.recompute = Recompute::Full;
  r.asked.overlap.reset();
  r.hides = {};
  if (r.knows("zero_stage") || r.knows("overlap_comm")) {
    settle_deepspeed(r);
    r.hides[static_cast<std::size_t>(Overlap::ParameterGather)].reset();  // prefetched in any case
    settle_overlap(r);
  }
  if (r.on("deepspeed")) settle_unsharded_bf16(r);
  if (r.asked.main_grads == "fp16" && !r.knows("main_grads")) r.asked.main_grads.reset();
}

}  // namespace plansearch::exporters
