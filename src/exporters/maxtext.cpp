// SPDX-License-Identifier: Apache-2.0
// Facts of MaxText.
// Source: AI-Hypercomputer/maxtext@e591f30c (2026-08-22) src/maxtext/configs/types.py:
// MaxTextConfig (calculate_global_batch_sizes, num_pipeline_microbatches,
// fill_unspecified_mesh_axes); src/maxtext/layers/decoders.py: get_remat_policy
#include <fmt/format.h>

#include <algorithm>

#include "exporters/fact.hpp"
#include "exporters/maxtext_axes.hpp"
#include "exporters/spelling.hpp"

namespace plansearch::exporters {
namespace {

using M = ModelDescription;

struct MeshSizes {
  std::array<int, 6> inside{1, 1, 1, 1, 1, 1};
  std::array<int, 6> between{1, 1, 1, 1, 1, 1};
  bool fits = true;  ///< whether the node is filled by whole parts of axes
};

/// Sequences of a forward pass, by device; batches are counted so.
double sequences_per_device(H h) {
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

Value of_expert_layers(H h, std::int64_t number) {
  return where(h.model().moe && h.model().attention.latent, number);
}

bool on_tpu(H h) {
  return h.problem.cluster->accelerator.name.starts_with("tpu");
}

MeshSizes mesh_of(H h) {
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

/// A number above zero; base.yml has others where there is none.
template <typename Field>
void read_positive(Field& field, V v) {
  if (whole_number(v, -1) > 0) field = whole_number(v);
}

// clang-format off
Facts maxtext_mesh() {
  Facts facts;
  for (std::size_t axis = 0; axis < kMeshAxes.size(); ++axis) {
    facts.push_back({fmt::format("ici_{}", kMeshAxes[axis]), {}, [axis](H h) { return Value(mesh_of(h).inside.at(axis)); }});
    facts.push_back({fmt::format("dcn_{}", kMeshAxes[axis]), {}, [axis](H h) { return Value(mesh_of(h).between.at(axis)); }});
  }
  return facts;
}

Facts maxtext_plans() {
  const std::vector<Setting> chunks{s(D::Chunks), s(D::Schedule)};
  return {
      {"sharded_optimizer", {s(D::Zero)}, [](H h) { return Value(h.sharded() && h.degrees.zero == ZeroStage::Optimizer); }},
      {"stage_layers", chunks, [](H h) { return where(h.degrees.pipeline > 1, h.stages.front().layers); }},
      {"repeats", chunks, [](H h) { return where(h.degrees.pipeline > 1, h.degrees.chunks); }},
      {"accumulation", {S::MicroBatches}, [](H h) { return Value(h.degrees.pipeline > 1 ? 1 : h.degrees.micro_batches); }},
      {"stage_micro_batches", {S::MicroBatches}, [](H h) { return where(h.degrees.pipeline > 1, h.degrees.micro_batches); }},
      {"sequences_per_device", {s(D::MicroBatch), S::GlobalBatch}, [](H h) { return Value(sequences_per_device(h)); }},
      {"remat_policy", {s(D::Recompute)}, [](H h) { return Value(h.degrees.recompute == Recompute::Full); }},
      {"in_fp32", {S::Precision}, [](H h) { return Value(h.problem.precision == DataType::Fp32); }},
      {"in_fp8", {S::Precision}, [](H h) { return Value(h.problem.precision == DataType::Fp8); }},
      {"optimizer_of_maxtext", {S::Optimizer}, [](H h) { return Value(h.optimizer); },
       [](R r, V v) { r.asked.optimizer = text_in(v).starts_with("adam") ? "adam" : text_in(v); }},
      {"attention_kernel", {S::Attention},
       [](H h) { return Value(h.attention == "unfused" ? "unfused" : on_tpu(h) ? "flash" : "cudnn"); },
       [](R r, V v) { if (text_in(v) == "unfused") r.asked.attention = "unfused"; }},
      {"on_tpu", {S::Gpus}, [](H h) { return Value(on_tpu(h)); }},
      {"maxtext_output", {S::Checkpoints},
       [](H h) { return Value(h.job.checkpoints.empty() ? std::string("maxtext_output") : h.job.checkpoints); }},
  };
}

Facts maxtext_networks() {
  const std::vector<Setting> model{S::Model};
  return {
      {"decoder_block", model, [](H h) { return Value(block_of(h.model())); }},
      // The experts' width where all layers have experts (types.py).
      {"dense_width", model,
       [](H h) {
         const auto& moe = h.model().moe;
         return Value(moe && moe->leading_dense == 0 ? moe->expert_width : h.model().mlp.width);
       },
       [](R r, V v) { r.has_model = true; r.model.mlp.width = whole_number(v); }},
      {"vocab_size", model, [](H h) { return Value(h.model().embedding.vocab); },
       [](R r, V v) { r.has_model = true; r.model.embedding.vocab = whole_number(v); }},
      {"position_rows", model, [](H h) { return where(h.model().embedding.position_rows > 0, h.model().embedding.position_rows); },
       [](R r, V v) { read_positive(r.model.embedding.position_rows, v); }},
      {"mlp_functions", model, [](H h) { return h.model().mlp.gated ? Value({"silu", "linear"}) : Value({"gelu"}); }},
      {"head_norms", model, [](H h) { return Value(h.model().attention.qk_norm == QkNorm::PerHead); }},
      {"extra_bias", model, [](H h) { return Value(h.model().attention.query_key_value_bias && !as_gpt3(h.model())); }},
      {"query_rank_or_zero", model,
       [](H h) {
         const auto& latent = h.model().attention.latent;
         return latent ? Value(latent->query_rank.value_or(0)) : Value();
       },
       [](R r, V v) { if (whole_number(v, 0) > 0) r.latent().query_rank = whole_number(v); }},
      {"network_of_name", {}, {}, [](R r, V v) { if (text_in(v) != "default") r.named = text_in(v); }},
  };
}

/// base.yml describes a dense network by the same keys.
Facts maxtext_experts() {
  const std::vector<Setting> model{S::Model};
  using E = MoeDescription;
  const auto number = [](H h, std::int64_t E::*field) { return h.model().moe ? Value((*h.model().moe).*field) : Value(); };
  return {
      {"several_experts", model, [number](H h) { return number(h, &E::experts); },
       [](R r, V v) { if (whole_number(v) > 1) r.experts().experts = whole_number(v); }},
      {"experts_per_token", model, [number](H h) { return number(h, &E::top_k); },
       [](R r, V v) { if (r.model.moe || whole_number(v) > 1) r.experts().top_k = whole_number(v); }},
      {"width_of_experts", model, [number](H h) { return number(h, &E::expert_width); },
       [](R r, V v) { if (whole_number(v, -1) > 0) r.experts().expert_width = whole_number(v); }},
      {"positive_capacity", model,
       [](H h) { return h.model().moe && h.model().moe->capacity_factor ? Value(*h.model().moe->capacity_factor) : Value(); },
       [](R r, V v) { if (real_number(v) > 0.0) r.experts().capacity_factor = real_number(v); }},
      {"dense_layers", model, [](H h) { return of_expert_layers(h, h.model().moe ? h.model().moe->leading_dense : 0); },
       [](R r, V v) { if (whole_number(v, 0) > 0) r.experts().leading_dense = whole_number(v); }},
      {"shared_experts", model,
       [](H h) {
         const auto& moe = h.model().moe;
         return of_expert_layers(h, moe ? moe->shared_width / std::max<std::int64_t>(moe->expert_width, 1) : 0);
       }},
      {"routed_bias", model, [](H h) { return Value(h.model().moe && h.model().moe->correction_bias); },
       [](R r, V v) { if (is_on(v)) r.experts().correction_bias = true; }},
      {"routing_groups", model, [](H h) { return h.model().moe && h.model().moe->groups > 1 ? Value(h.model().moe->groups) : Value(); },
       [](R r, V v) { if (whole_number(v, -1) > 0) r.experts().groups = whole_number(v); }},
      {"routing_top_groups", model,
       [](H h) { return h.model().moe && h.model().moe->groups > 1 ? Value(h.model().moe->top_groups) : Value(); },
       [](R r, V v) { if (whole_number(v, -1) > 0) r.experts().top_groups = whole_number(v); }},
      {"float32_gate", model, [](H h) { return Value(h.model().moe && h.model().moe->fp32_router); },
       [](R r, V v) { if (is_on(v)) r.experts().fp32_router = true; }},
  };
}

Facts maxtext_conditions() {
  return {
      {"nodes_not_filled", {}, [](H h) { return Value(!mesh_of(h).fits); }},
      {"cut_without_shards", {},
       [](H h) {
         return Value(h.degrees.zero != ZeroStage::Parameters && (h.degrees.expert > 1 || h.degrees.context > 1));
       }},
      {"experts_cut_otherwise", {}, [](H h) { return Value(h.model().moe && h.degrees.expert_tensor != h.degrees.tensor_out); }},
      {"experts_across_axes", {}, [](H h) { return Value(h.shard_ranks() % h.degrees.expert != 0); }},
      {"dense_layers_in_pipeline", {},
       [](H h) { return Value(h.degrees.pipeline > 1 && h.model().moe && h.model().moe->leading_dense > 0); }},
      {"uneven_pipeline", {}, [](H h) { return Value(h.degrees.pipeline > 1 && !is_even(h.stages)); }},
  };
}
// clang-format on

}  // namespace

bool has_no_block(const ModelDescription& model) {
  return block_of(model).empty();
}

Facts maxtext_facts() {
  return joined<Fact>({maxtext_mesh(), maxtext_plans(), maxtext_networks(), maxtext_experts(),
                       maxtext_conditions()});
}

}  // namespace plansearch::exporters
