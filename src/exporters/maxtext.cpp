// SPDX-License-Identifier: Apache-2.0
// MaxText: overrides of configs/base.yml, with the network by its sizes.
//
// Keys and rules: AI-Hypercomputer/maxtext@e591f30c (2026-08-22)
//   src/maxtext/configs/base.yml; src/maxtext/configs/types.py: MaxTextConfig
//   (calculate_global_batch_sizes, num_pipeline_microbatches, fill_unspecified_mesh_axes)
//   src/maxtext/layers/decoders.py: get_remat_policy ("full" keeps nothing, "minimal" products)
//   src/maxtext/utils/max_utils.py: initialize_jax_for_gpu (JAX_COORDINATOR_IP, NNODES, NODE_RANK)
#include <fmt/format.h>

#include <algorithm>

#include "exporters/maxtext_axes.hpp"
#include "exporters/megatron_model.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;
using M = ModelDescription;

template <MeshAxis A>
Value inside(const ExportRequest& h) {
  return Value(mesh_of(h).inside.at(static_cast<std::size_t>(A)));
}
template <MeshAxis A>
Value between(const ExportRequest& h) {
  return Value(mesh_of(h).between.at(static_cast<std::size_t>(A)));
}

/// Sequences of a forward pass, by device; batches are counted so.
double sequences_per_device(const ExportRequest& h) {
  const int passes = h.degrees.pipeline > 1 ? 1 : h.degrees.micro_batches;
  return static_cast<double>(h.problem.global_batch) / passes / h.problem.gpus;
}

bool rotary_gate(const M& m) {
  return m.attention.positions == PositionKind::Rotary && m.norm.kind == NormKind::RmsNorm &&
         m.mlp.gated && m.mlp.activation == Activation::Silu && !m.attention.output_bias &&
         !m.mlp.bias;
}
bool as_gpt3(const M& m) {
  const auto& a = m.attention;
  return a.positions == PositionKind::Learned && m.norm.kind == NormKind::LayerNorm &&
         !m.mlp.gated && m.mlp.activation == Activation::Gelu && a.query_key_value_bias &&
         a.output_bias && m.mlp.bias && m.embedding.tied && !m.moe && a.heads == a.kv_heads;
}

/// The block that is this layer; empty where there is none.
std::string_view block_of(const M& m) {
  if (as_gpt3(m)) return "gpt3";
  if (!rotary_gate(m) || m.attention.window) return {};
  const bool heads = m.attention.qk_norm == QkNorm::PerHead;
  const bool bias = m.attention.query_key_value_bias;
  if (m.attention.latent) return m.moe && !heads && !bias ? "deepseek" : "";
  if (m.moe) {
    const auto& moe = *m.moe;
    const bool plain = moe.leading_dense == 0 && moe.every == 1 && moe.shared_width == 0 &&
                       !moe.correction_bias && !bias;
    if (!plain) return {};
    return heads ? "qwen3_moe" : "mixtral";
  }
  if (heads) return bias ? "" : "qwen3";
  return bias ? "qwen2" : "llama2";
}

std::string block(const ExportRequest& h) {
  return std::string(block_of(h.model()));
}

Value of_expert_layers(const ExportRequest& h, std::int64_t number) {
  return h.model().moe && h.model().attention.latent ? Value(number) : Value();
}

// clang-format off
std::vector<Key> mesh_keys() {
  return {
      {"ici_data_parallelism", {s(D::Data), S::Gpus}, inside<MeshAxis::Data>, together},
      {"ici_fsdp_parallelism", {s(D::Data), s(D::Zero), s(D::ShardGroup)}, inside<MeshAxis::Fsdp>, together},
      {"ici_pipeline_parallelism", {s(D::Pipeline)}, inside<MeshAxis::Pipeline>, together},
      {"ici_context_parallelism", {s(D::Context)}, inside<MeshAxis::Context>, together},
      {"ici_tensor_parallelism", {s(D::TensorOut), s(D::SequenceParallel), s(D::ExpertTensor)}, inside<MeshAxis::Tensor>, together},
      {"ici_expert_parallelism", {s(D::Expert)}, inside<MeshAxis::Expert>, together},
      {"dcn_data_parallelism", {s(D::Data), S::Gpus}, between<MeshAxis::Data>, together},
      {"dcn_fsdp_parallelism", {s(D::Data), s(D::Zero), s(D::ShardGroup)}, between<MeshAxis::Fsdp>, together},
      {"dcn_pipeline_parallelism", {s(D::Pipeline)}, between<MeshAxis::Pipeline>, together},
      {"dcn_context_parallelism", {s(D::Context)}, between<MeshAxis::Context>, together},
      {"dcn_tensor_parallelism", {s(D::TensorOut)}, between<MeshAxis::Tensor>, together},
      {"dcn_expert_parallelism", {s(D::Expert)}, between<MeshAxis::Expert>, together},
      {"shard_optimizer_over_data", {s(D::Zero)},
       [](const ExportRequest& h) { return Value(h.sharded() && h.degrees.zero == ZeroStage::Optimizer); }, together},
      {"context_parallel_strategy", {s(D::ContextKind)},
       [](const ExportRequest& h) {
         if (h.degrees.context == 1) return Value();
         return Value(h.degrees.context_kind == ContextKind::Ring ? "ring" : "all_gather");
       },
       [](Reading& r, const Value& v) { r.degrees.context_kind = text_in(v) == "ring" ? ContextKind::Ring : ContextKind::AllGather; }},
      {"num_layers_per_pipeline_stage", {s(D::Chunks), s(D::Schedule)},
       [](const ExportRequest& h) { return h.degrees.pipeline > 1 ? Value(h.stages.front().layers) : Value(); }, together},
      {"num_pipeline_repeats", {s(D::Chunks), s(D::Schedule)},
       [](const ExportRequest& h) { return h.degrees.pipeline > 1 ? Value(h.degrees.chunks) : Value(); }, together},
      {"num_pipeline_microbatches", {S::MicroBatches},
       [](const ExportRequest& h) { return h.degrees.pipeline > 1 ? Value(h.degrees.micro_batches) : Value(); }, together},
      {"gradient_accumulation_steps", {S::MicroBatches},
       [](const ExportRequest& h) { return Value(h.degrees.pipeline > 1 ? 1 : h.degrees.micro_batches); }, together},
      {"per_device_batch_size", {s(D::MicroBatch), S::GlobalBatch}, value_from<sequences_per_device>, together},
      {"max_target_length", {S::SequenceLength}, kSequence},
      {"remat_policy", {s(D::Recompute)},
       [](const ExportRequest& h) { return Value(h.degrees.recompute == Recompute::Full ? "full" : "minimal"); }, together},
      {"dtype", {S::Precision},
       [](const ExportRequest& h) { return Value(h.problem.precision == DataType::Fp32 ? "float32" : "bfloat16"); }, together},
      {"quantization", {S::Precision},
       [](const ExportRequest& h) { return h.problem.precision == DataType::Fp8 ? Value("fp8") : Value(); }, together},
      {"opt_type", {S::Optimizer},
       [](const ExportRequest& h) { return Value(h.optimizer == "adam" ? std::string("adamw") : h.optimizer); },
       [](Reading& r, const Value& v) { r.asked.optimizer = text_in(v).starts_with("adam") ? "adam" : text_in(v); }},
      {"attention", {S::Attention},
       [](const ExportRequest& h) {
         if (h.attention == "unfused") return Value("dot_product");
         return Value(on_tpu(h) ? "flash" : "cudnn_flash_te");
       },
       [](Reading& r, const Value& v) { if (text_in(v) == "dot_product") r.asked.attention = "unfused"; }},
      {"hardware", {S::Gpus}, [](const ExportRequest& h) { return Value(on_tpu(h) ? "tpu" : "gpu"); }, together},
  };
}

std::vector<Key> model_keys() {
  const Setting model = S::Model;
  return {
      {"decoder_block", {model}, value_from<block>, together},
      {"base_emb_dim", {model}, of_model<&M::hidden>},
      {"base_num_decoder_layers", {model}, of_model<&M::layers>},
      {"base_num_query_heads", {model}, of_attention<&AttentionDescription::heads>},
      {"base_num_kv_heads", {model}, of_attention<&AttentionDescription::kv_heads>},
      {"head_dim", {model}, of_attention<&AttentionDescription::head_size>},
      // Of layers that all have experts it is theirs (types.py).
      {"base_mlp_dim", {model},
       [](const ExportRequest& h) {
         const auto& moe = h.model().moe;
         return Value(moe && moe->leading_dense == 0 ? moe->expert_width : h.model().mlp.width);
       },
       [](Reading& r, const Value& v) { r.has_model = true; r.model.mlp.width = whole_number(v); }},
      {"vocab_size", {model}, [](const ExportRequest& h) { return Value(h.model().embedding.vocab); },
       [](Reading& r, const Value& v) { r.has_model = true; r.model.embedding.vocab = whole_number(v); }},
      {"logits_via_embedding", {model}, [](const ExportRequest& h) { return Value(h.model().embedding.tied); },
       [](Reading& r, const Value& v) { r.model.embedding.tied = is_on(v); }},
      {"trainable_position_size", {model},
       [](const ExportRequest& h) { return h.model().embedding.position_rows > 0 ? Value(h.model().embedding.position_rows) : Value(); },
       [](Reading& r, const Value& v) { if (whole_number(v, -1) > 0) r.model.embedding.position_rows = whole_number(v); }},
      {"mlp_activations", {model},
       [](const ExportRequest& h) { return h.model().mlp.gated ? Value({"silu", "linear"}) : Value({"gelu"}); }, together},
      {"use_qk_norm", {model}, [](const ExportRequest& h) { return flag(h.model().attention.qk_norm == QkNorm::PerHead); }, together},
      {"attention_bias", {model},
       [](const ExportRequest& h) { return flag(h.model().attention.query_key_value_bias && !as_gpt3(h.model())); }, together},
      {"enable_dropout", {model}, constant<false>, together},
      {"mtp_num_layers", {model},
       [](const ExportRequest& h) { return h.model().mtp_layers > 0 ? Value(h.model().mtp_layers) : Value(); },
       [](Reading& r, const Value& v) { r.model.mtp_layers = whole_number(v, 0); }},
  };
}

std::vector<Key> expert_keys() {
  const Setting model = S::Model;
  return {
      {"attention_type", {model}, [](const ExportRequest& h) { return h.model().attention.latent ? Value("mla") : Value(); }, together},
      {"q_lora_rank", {model},
       [](const ExportRequest& h) {
         const auto& latent = h.model().attention.latent;
         return latent ? Value(latent->query_rank.value_or(0)) : Value();
       },
       [](Reading& r, const Value& v) { if (whole_number(v, 0) > 0) r.latent().query_rank = whole_number(v); }},
      {"kv_lora_rank", {model}, of_latent<&LatentAttention::kv_rank>},
      {"qk_nope_head_dim", {model}, of_latent<&LatentAttention::nope_size>},
      {"qk_rope_head_dim", {model}, of_latent<&LatentAttention::rope_size>},
      {"v_head_dim", {model}, of_latent<&LatentAttention::value_size>},
      {"num_experts", {model}, of_experts<&MoeDescription::experts>,
       [](Reading& r, const Value& v) { if (whole_number(v) > 1) r.experts().experts = whole_number(v); }},
      {"num_experts_per_tok", {model}, of_experts<&MoeDescription::top_k>,
       [](Reading& r, const Value& v) { if (r.model.moe || whole_number(v) > 1) r.experts().top_k = whole_number(v); }},
      {"base_moe_mlp_dim", {model}, of_experts<&MoeDescription::expert_width>,
       [](Reading& r, const Value& v) { if (whole_number(v, -1) > 0) r.experts().expert_width = whole_number(v); }},
      {"capacity_factor", {model},
       [](const ExportRequest& h) {
         const auto& moe = h.model().moe;
         return moe && moe->capacity_factor ? Value(*moe->capacity_factor) : Value();
       },
       [](Reading& r, const Value& v) { if (real_number(v) > 0.0) r.experts().capacity_factor = real_number(v); }},
      {"first_num_dense_layers", {model}, [](const ExportRequest& h) { return of_expert_layers(h, h.model().moe ? h.model().moe->leading_dense : 0); },
       [](Reading& r, const Value& v) { if (whole_number(v, 0) > 0) r.experts().leading_dense = whole_number(v); }},
      {"shared_experts", {model},
       [](const ExportRequest& h) {
         return of_expert_layers(h, h.model().moe ? h.model().moe->shared_width / std::max<std::int64_t>(h.model().moe->expert_width, 1) : 0);
       },
       together},
      {"routed_bias", {model}, [](const ExportRequest& h) { return flag(h.model().moe && h.model().moe->correction_bias); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.experts().correction_bias = true; }},
      {"routed_score_func", {model},
       [](const ExportRequest& h) { return h.model().moe && h.model().moe->correction_bias ? Value("sigmoid") : Value(); }, together},
      {"n_routing_groups", {model},
       [](const ExportRequest& h) { return h.model().moe && h.model().moe->groups > 1 ? Value(h.model().moe->groups) : Value(); },
       [](Reading& r, const Value& v) { if (whole_number(v, -1) > 0) r.experts().groups = whole_number(v); }},
      {"topk_routing_group", {model},
       [](const ExportRequest& h) { return h.model().moe && h.model().moe->groups > 1 ? Value(h.model().moe->top_groups) : Value(); },
       [](Reading& r, const Value& v) { if (whole_number(v, -1) > 0) r.experts().top_groups = whole_number(v); }},
      {"float32_gate_logits", {model}, [](const ExportRequest& h) { return flag(h.model().moe && h.model().moe->fp32_router); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.experts().fp32_router = true; }},
      only_read("model_name", [](Reading& r, const Value& v) { if (text_in(v) != "default") r.named = text_in(v); }),
  };
}

std::vector<Key> other_keys() {
  std::vector<Key> keys{
      {"run_name", {}, [](const ExportRequest& h) { return Value(fmt::format("plan-{}", h.identity)); }},
      {"dataset_type", {}, [](const ExportRequest&) { return Value("synthetic"); }},
      {"steps", {}, constant<20>},
      // Packed sequences in Transformer Engine's kernel (types.py asks for a number).
      {"max_segments_per_seq", {}, [](const ExportRequest& h) { return on_tpu(h) ? Value() : Value(32); }},
      {"base_output_directory", {S::Checkpoints},
       [](const ExportRequest& h) { return Value(h.job.checkpoints.empty() ? std::string("maxtext_output") : h.job.checkpoints); },
       together},
      {"enable_checkpointing", {S::Checkpoints}, [](const ExportRequest& h) { return Value(!h.job.checkpoints.empty()); }, together},
      {"checkpoint_period", {S::Checkpoints}, checkpoint_steps, together},
  };
  for (const char* name : {"ici_fsdp_transpose_parallelism", "ici_tensor_sequence_parallelism", "ici_sequence_parallelism",
                           "dcn_fsdp_transpose_parallelism", "dcn_tensor_sequence_parallelism", "dcn_sequence_parallelism", "num_slices",
                           "base_config"})
    keys.push_back(only_read(name, together));
  return keys;
}
// clang-format on

std::vector<Trait> lacks() {
  const std::vector<Trait> own{
      {"a layer that MaxText has no decoder block for (attention, norm, mlp, experts)",
       [](const M& m) { return block_of(m).empty(); }},
      {"a bias on its router (experts.router_bias)",
       [](const M& m) { return m.moe && m.moe->router_bias; }},
      {"a gate on its shared experts (experts.shared_gate)",
       [](const M& m) { return m.moe && m.moe->shared_gate; }},
      {"dropout", [](const M& m) { return m.dropout > 0.0 || m.attention_dropout > 0.0; }},
  };
  return joined<Trait>({beyond_decoders(), own});
}

std::vector<Conflict> conflicts() {
  return {
      {"axes that do not fill a node by whole parts",
       [](const ExportRequest& h) { return !mesh_of(h).fits; }},
      // logical_axis_rules: the weights lie on fsdp, context and expert, whatever the plan says.
      {"experts or context parallelism beside weights that are not sharded (--zero 3)",
       [](const ExportRequest& h) {
         return h.degrees.zero != ZeroStage::Parameters &&
                (h.degrees.expert > 1 || h.degrees.context > 1);
       }},
      {"experts cut otherwise than by the tensor degree (etp)",
       [](const ExportRequest& h) {
         return h.model().moe && h.degrees.expert_tensor != h.degrees.tensor_out;
       }},
      {"experts over ranks of tensor or context parallelism (ep)",
       [](const ExportRequest& h) { return h.shard_ranks() % h.degrees.expert != 0; }},
      // types.py: pipeline_parallel_layers are the layers with experts alone there.
      {"a pipeline over dense layers before those with experts",
       [](const ExportRequest& h) {
         return h.degrees.pipeline > 1 && h.model().moe && h.model().moe->leading_dense > 0;
       }},
      {"chunks of other sizes, or one of several stages",
       [](const ExportRequest& h) { return h.degrees.pipeline > 1 && !is_even(h.stages); }},
  };
}

std::vector<Accepts> accepts() {
  return {{s(D::Schedule), {"gpipe", "breadth-first"}},
          {s(D::ContextKind), {"ring", "all-gather"}},
          {s(D::Zero), {"0", "1", "3"}},
          {s(D::SequenceParallel), {"1"}, By::Key, "1"},
          {s(D::Recompute), {"selective", "full"}},
          {S::Precision, {"bf16", "fp32", "fp8"}},
          {S::Optimizer, {"adam", "sgd", "muon"}},
          {S::Attention, {"flash", "unfused"}},
          {S::RankOrder, {"tp-cp-dp-pp"}, By::Target},
          {S::Layers, {kEven}, By::Target},
          {setting_of(plansearch::Setting::Implementation), {"compiled"}, By::Target},
          {setting_of(Overlap::GradientReduction), {kOn}, By::Target},
          {setting_of(Overlap::ParameterGather), {kOn}, By::Target},
          {setting_of(Overlap::PipelineSend), {kOn}, By::Target},
          {setting_of(Overlap::TensorParallel), {kOn}, By::Target},
          {setting_of(Overlap::ContextRing), {kOn}, By::Target},
          {setting_of(Overlap::ExpertAllToAll), {kOn}, By::Target}};
}

Launch launch() {
  return {.starter = Starter::Jax,
          .script = "-m maxtext.trainers.pre_train.train src/maxtext/configs/base.yml",
          .arguments = "\"${MAXTEXT_ARGS[@]}\" \"${TRAIN_ARGS[@]}\""};
}

}  // namespace

bool on_tpu(const ExportRequest& h) {
  return h.problem.cluster->accelerator.name.starts_with("tpu");
}

MeshSizes mesh_of(const ExportRequest& h) {
  const PlanDegrees& d = h.degrees;
  const bool whole = h.sharded() && d.zero == ZeroStage::Parameters;
  const int experts = std::max(d.expert, 1);
  const int sharded = whole ? std::max(h.shard_ranks() / experts, 1) : 1;
  const std::array<int, 6> sizes{experts, d.tensor_out, d.context,
                                 sharded, d.pipeline,   std::max(d.data / sharded / experts, 1)};
  MeshSizes mesh;
  // A slice of TPUs is what its own links join.
  int left = on_tpu(h) ? std::min(h.problem.gpus, h.problem.cluster->tiers.front().size)
                       : h.gpus_per_node();
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    const int size = sizes.at(axis);
    const int part = size <= left ? size : left;
    mesh.fits = mesh.fits && left % part == 0 && size % part == 0;
    mesh.inside.at(axis) = part;
    mesh.between.at(axis) = std::max(size / part, 1);
    left /= part;
  }
  return mesh;
}

Exporter maxtext_exporter() {
  return {
      .title = "overrides of MaxText's base.yml",
      .checked = "AI-Hypercomputer/maxtext@e591f30c (2026-08-22)",
      .framework = "maxtext",
      .accepts = accepts(),
      .documents = {{.keys = joined<Key>({mesh_keys(), model_keys(), expert_keys(), other_keys()}),
                     .array = "MAXTEXT_ARGS"}},
      .launch = launch(),
      .lacks = lacks(),
      .conflicts = conflicts(),
      .notes = [](const ExportRequest&) -> std::vector<std::string> {
        return {
            "not in a plan: data, tokenizer, learning rate, rotary base; XLA_FLAGS decide "
            "what hides messages"};
      },
      .start = start_maxtext,
      .settle = settle_maxtext};
}

}  // namespace plansearch::exporters
