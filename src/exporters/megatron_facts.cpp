// SPDX-License-Identifier: Apache-2.0
// Facts of programs that train by Megatron-LM, whatever their keys are called.
// Source: NVIDIA/Megatron-LM@d98e8a64 megatron/training/arguments.py: validate_args;
// megatron/core/transformer/transformer_config.py: TransformerConfig;
// megatron/core/parallel_state.py: initialize_model_parallel (rank orders)
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "exporters/fact.hpp"
#include "exporters/megatron_reading.hpp"
#include "exporters/spelling.hpp"
#include "plan/primitives/recompute.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

using C = plansearch::Setting;
using M = ModelDescription;

/// ZeRO 2 and 3 are Megatron-FSDP.
bool by_fsdp(H h) {
  return h.sharded() && h.degrees.zero >= ZeroStage::Gradients;
}
/// User buffers of Transformer Engine, which lie inside a node; without sequence parallelism the
/// backward all-reduce hides behind the weight gradient by itself.
bool hides_tensor_messages(H h) {
  const bool inside = h.degrees.tensor() <= h.gpus_per_node();
  return h.overlaps(Overlap::TensorParallel) && inside && h.spreads_tokens();
}
bool runs_pairs(H h) {
  return schedule_row(h.degrees.schedule).joins;
}
/// TransformerConfig.__post_init__ excludes full recomputation and needs chunks in a pipeline.
bool overlaps_experts(H h) {
  const PlanDegrees& d = h.degrees;
  const bool half = h.problem.precision != DataType::Fp32;
  const auto kind = static_cast<std::size_t>(Overlap::ExpertAllToAll);
  const OverlapRule& rule = h.problem.framework->overlap[kind];
  const bool average = d.dispatcher == kOwnDispatcher || rule.any_dispatcher;  // what its runs hide
  const bool hides = (average && h.overlaps(Overlap::ExpertAllToAll)) || runs_pairs(h);
  return hides && h.model().moe && d.recompute != Recompute::Full && half &&
         (d.pipeline == 1 || d.chunks > 1) && h.model().mtp_layers <= 1;
}
bool cuts_layers(H h) {
  return h.degrees.tensor_out > 1 || h.degrees.context > 1;
}

/// The formats of gradients, where the framework has the precision.
const PrecisionPolicy* policy_of(H h) {
  const auto found = h.problem.framework->precision.find(h.problem.precision);
  return found == h.problem.framework->precision.end() ? nullptr : &found->second;
}
/// One buffer accumulates gradients and reduces them: its format.
bool sums_in(H h, std::initializer_list<DataType> formats) {
  const PrecisionPolicy* policy = policy_of(h);
  return policy != nullptr && policy->main_gradient &&
         std::ranges::find(formats, *policy->main_gradient) != formats.end();
}
bool in_fp8(H h) {
  return has_precision(h, {DataType::Fp8, DataType::Mxfp8});
}
/// A row-wise recipe is not among Megatron's.
std::string_view fp8_recipe(H h) {
  if (h.problem.precision == DataType::Mxfp8) return "mxfp8";
  switch (h.problem.framework->fp8_recipe.value_or(Fp8Recipe::Tensorwise)) {
    case Fp8Recipe::Delayed:
      return "delayed";
    case Fp8Recipe::Block:
      return "block";
    case Fp8Recipe::Mxfp8:
      return "mxfp8";
    default:
      return "tensorwise";
  }
}
bool offloads_optimizer(H h) {
  return host_tensors(h.degrees.on_host).optimizer;
}
bool names_dispatcher(H h) {
  return h.degrees.dispatcher != kOwnDispatcher;
}
const TokenDispatcher& dispatcher(H h) {
  return dispatcher_of(*h.problem.framework, h.degrees.dispatcher);
}
/// "alltoall", "allgather", "flex"; null without experts.
Value dispatcher_word(H h) {
  if (!h.model().moe) return {};
  const TokenPath path = dispatcher(h).path;
  if (path == TokenPath::Nodes) return Value("flex");
  return Value(path == TokenPath::Gather ? "allgather" : "alltoall");
}
/// Modules of selective recomputation: "core_attn", or those that the plan names.
Value recomputed_modules(H h) {
  if (h.degrees.recompute != Recompute::Selective) return {};
  const SelectiveRecompute selective = selective_of(*h.problem.framework, h.degrees);
  if (selective.rule != SelectiveRule::Modules) return Value({"core_attn"});
  return Value(words_of(to_text(selective.modules, " "), " "));
}
/// "Ettt|tttt|tttL": E embedding, t layer, m prediction module, L loss.
std::string layout_of(const std::vector<StageContent>& stages) {
  std::vector<std::string> words;
  for (const StageContent& stage : stages) {
    std::string word = stage.embedding ? "E" : "";
    if (stage.layers > 0) word += fmt::format("t*{}", stage.layers);
    if (stage.predictions > 0) word += fmt::format("m*{}", stage.predictions);
    words.push_back(word + (stage.head ? "L" : ""));
  }
  return fmt::format("{}", fmt::join(words, "|"));
}
/// Whether no layer has a dense MLP, whose width would be another.
bool experts_everywhere(const M& m) {
  return m.moe && m.moe->leading_dense == 0 && m.moe->every == 1 && m.moe->dense_layers.empty() &&
         m.moe->layers.empty();
}
/// "2", "([0]*3+[1]*58)"
Value expert_layers(H h) {
  const auto& moe = h.model().moe;
  if (!moe) return {};
  const std::int64_t dense = moe->leading_dense;
  if (dense > 0) return Value(fmt::format("([0]*{}+[1]*{})", dense, h.model().layers - dense));
  return where(moe->every > 1, moe->every);
}

// clang-format off
Facts parallel_facts() {
  return {
      {"layers_per_chunk", {s(D::Chunks), s(D::Schedule)},
       [](H h) { return where(h.degrees.chunks > 1 && is_even(h.stages) && !has_pattern(h.model()), h.stages.front().layers); }},
      {"even_chunks", {s(D::Chunks), s(D::Schedule)},
       [](H h) { return where(h.degrees.chunks > 1 && is_even(h.stages), h.degrees.chunks); },
       [](R r, V v) { r.degrees.chunks = count_in(v); }},
      {"layout", {S::Layers, s(D::Chunks), s(D::Schedule)},
       [](H h) { return is_even(h.stages) || has_pattern(h.model()) ? Value() : Value(layout_of(h.stages)); }},
      {"pipeline_before_data", {S::RankOrder},
       [](H h) { return Value(value_of(S::RankOrder, h).find("pp-dp") != std::string::npos); },
       [](R r, V v) { if (is_on(v)) r.asked.rank_order = "tp-cp-pp-dp"; }},
      {"megatron_fsdp", {s(D::Zero)}, [](H h) { return Value(by_fsdp(h)); }},
      {"torch_fsdp2", {s(D::Zero)}},
      {"sharding_strategy", {s(D::Zero)},
       [](H h) {
         return where(by_fsdp(h), h.degrees.zero == ZeroStage::Parameters ? "optim_grads_params" : "optim_grads");
       }},
      {"gathers_hidden", {setting_of(Overlap::ParameterGather)},
       [](H h) { return Value(h.sharded() && h.overlaps(Overlap::GradientReduction) && h.overlaps(Overlap::ParameterGather)); },
       [](R r, V v) { r.hide(Overlap::ParameterGather, is_on(v)); }},
      {"sends_exposed", {setting_of(Overlap::PipelineSend)},
       [](H h) { return Value(h.degrees.chunks > 1 && !h.overlaps(Overlap::PipelineSend)); },
       [](R r, V v) { if (is_on(v)) r.hide(Overlap::PipelineSend, false); }},
      {"user_buffers", {setting_of(Overlap::TensorParallel)}, [](H h) { return Value(hides_tensor_messages(h)); },
       [](R r, V v) { if (is_on(v)) r.hide(Overlap::TensorParallel); }},
      {"experts_overlapped", {setting_of(Overlap::ExpertAllToAll), s(D::Schedule)},
       [](H h) { return Value(overlaps_experts(h)); }},
      {"weights_delayed", {chosen(C::DelayWeightGradients)},
       [](H h) { return Value(h.chosen.delay_wgrad == "1" && overlaps_experts(h)); },
       [](R r, V v) { if (is_on(v)) r.asked.delay_wgrad = "1"; }},
      // Networks without experts have neither.
      {"pairs", {s(D::Schedule)}, [](H h) { return where(h.model().moe.has_value(), runs_pairs(h)); }},
      {"weights_delayed_in_pairs", {chosen(C::DelayWeightGradients)},
       [](H h) { return where(h.model().moe.has_value(), runs_pairs(h) && h.chosen.delay_wgrad == "1"); }},
      // The first and the last stage with numbers of their own, or counted with embedding and loss.
      {"first_stage_layers", {}}, {"last_stage_layers", {}}, {"embedding_is_layer", {}}, {"loss_is_layer", {}},
  };
}

Facts dispatcher_facts() {
  const Setting dispatch = s(D::Dispatcher);
  return {
      {"token_dispatcher", {dispatch}, dispatcher_word},
      {"flex_backend", {dispatch},
       [](H h) { return where(h.model().moe && dispatcher(h).path == TokenPath::Nodes, dispatcher(h).name); }},
      {"by_deepep", {dispatch}, [](H h) { return Value(dispatcher_word(h) == Value("flex")); }},
      // Where the plan names one; else it is the recipe's.
      {"named_dispatcher", {dispatch}, [](H h) { return names_dispatcher(h) ? dispatcher_word(h) : Value(); }},
      {"named_flex_backend", {dispatch},
       [](H h) {
         if (!h.model().moe || !names_dispatcher(h)) return Value();
         return Value(dispatcher(h).path == TokenPath::Nodes ? dispatcher(h).name : "none");
       }},
      // transformer_config.py: pairs rule it out, and so do flex dispatchers.
      {"no_shared_overlap", {dispatch, s(D::Schedule)},
       [](H h) {
         const bool by_nodes = names_dispatcher(h) && dispatcher(h).path == TokenPath::Nodes;
         return Value(h.model().moe && (runs_pairs(h) || by_nodes));
       }},
  };
}

Facts recompute_facts() {
  const std::vector<Setting> layers{s(D::Recompute), s(D::RecomputeLayers)};
  return {
      {"recompute_method", layers,
       [](H h) { return where(h.degrees.recompute == Recompute::Full, h.degrees.recompute_layers > 0 ? "block" : "uniform"); }},
      {"recomputed_layers", layers,
       [](H h) { return where(h.degrees.recompute == Recompute::Full, std::max(1, h.degrees.recompute_layers)); }},
      {"recomputed_modules", {s(D::Recompute), s(D::RecomputeModules)}, recomputed_modules},
      {"uniform_recompute", {s(D::Recompute)}, [](H h) { return Value(h.degrees.recompute == Recompute::Full); }},
      {"recomputes_attention", {}}, {"recomputes_layers", {}},
  };
}

Facts megatron_formats() {
  const std::vector<Setting> precision{S::Precision}, states{s(D::Offload), chosen(C::OptimizerStates)},
      gradients{chosen(C::MainGradients)};
  return {
      {"bf16_or_narrower", precision,
       [](H h) { return Value(has_precision(h, {DataType::Bf16, DataType::Fp8, DataType::Mxfp8, DataType::Nvfp4})); },
       [](R r, V v) { if (is_on(v)) r.asked.precision = "bf16"; }},
      {"fp8_format", precision,
       [](H h) { return where(in_fp8(h), fp8_recipe(h) == "mxfp8" ? "e4m3" : "hybrid"); }},
      {"fp8_recipe_of_products", {S::Precision, chosen(C::Fp8Recipe)}, [](H h) { return where(in_fp8(h), fp8_recipe(h)); }},
      // Parameters are gathered in the format of the matrix products.
      {"fp8_gathers", precision, [](H h) { return Value(h.sharded() && in_fp8(h)); }},
      {"nvfp4", precision, [](H h) { return Value(has_precision(h, {DataType::Nvfp4})); }},
      // "fp8 delayed"
      {"mixed_precision", {S::Precision, chosen(C::Fp8Recipe)},
       [](H h) {
         if (in_fp8(h)) return Value(fmt::format("fp8 {}", fp8_recipe(h)));
         return Value(has_precision(h, {DataType::Fp16, DataType::Nvfp4}) ? to_text(h.problem.precision) : "bf16");
       }},
      // bf16 implies fp32 sums, fp16 does not.
      {"fp32_sums", gradients,
       [](H h) { return Value(has_precision(h, {DataType::Fp16}) && sums_in(h, {DataType::Fp32})); }},
      {"bf16_sums", gradients, [](H h) { return Value(sums_in(h, {DataType::Bf16})); }},
      // Megatron-FSDP has a format of its own, by default that of the parameters.
      {"fsdp_fp32_sums", gradients, [](H h) { return Value(by_fsdp(h) && sums_in(h, {DataType::Fp32})); }},
      {"narrow_sums", gradients, [](H h) { return Value(sums_in(h, {DataType::Bf16, DataType::Fp16})); }},
      {"full_graph", {chosen(C::CudaGraphs)}, [](H h) { return Value(h.chosen.cuda_graphs == "1"); },
       [](R r, V v) { if (is_on(v)) r.asked.cuda_graphs = "1"; }},
      {"precise_states", states, [](H h) { return Value(offloads_optimizer(h) || h.chosen.optimizer_states); }},
      {"precise_states_or_gradients", {s(D::Offload), chosen(C::OptimizerStates), chosen(C::MainGradients)},
       [](H h) { return Value(offloads_optimizer(h) || h.chosen.optimizer_states || sums_in(h, {DataType::Bf16})); }},
  };
}

Facts network_in_arguments() {
  const std::vector<Setting> model{S::Model};
  return {
      {"mlp_or_expert_width", model,
       [](H h) {
         const M& m = h.model();
         return Value(m.mlp.width > 0 && !experts_everywhere(m) ? m.mlp.width : m.moe->expert_width);
       },
       [](R r, V v) { r.model.mlp.width = whole_number(v); }},
      // Positions the embedding or the rotary table covers.
      {"covered_positions", model,
       [](H h) {
         const M& m = h.model();
         if (m.attention.positions == PositionKind::Learned) return Value(m.embedding.position_rows);
         return Value(std::max(m.max_positions.value_or(h.problem.seq_len), h.problem.seq_len));
       },
       [](R r, V v) { r.model.max_positions = whole_number(v); }},
      {"linear_bias_missing", model, [](H h) { return Value(!bias_everywhere(h.model())); }},
      {"no_linear_bias", model, [](H h) { return Value(bias_nowhere(h.model())); }},
      {"query_bias_only", model, [](H h) { return Value(bias_of_queries_only(h.model())); }},
      {"expert_layers", model, expert_layers, read_expert_layers},
  };
}

Facts megatron_adapter_facts() {
  const std::vector<Setting> rank{chosen(C::LoraRank)}, targets{chosen(C::LoraTargets), chosen(C::LoraRank)};
  return {
      {"adapters", rank, [](H h) { return Value(h.model().training.lora.has_value()); }},
      {"whole_training", {S::Model}, [](H h) { return Value(!h.model().training.lora.has_value()); }},
      {"adapter_rank", rank, adapter_rank},
      {"megatron_adapters", targets, megatron_adapters},
      {"megatron_adapters_by_name", targets,
       [](H h) {
         const Value words = megatron_adapters(h);
         return words.is_string() ? every_adapted_module(h) : words;
       }},
  };
}

/// Conditions of notes, conflicts and the environment.
Facts megatron_conditions() {
  return {
      {"muon_on_megatron_fsdp", {}, [](H h) { return Value(h.optimizer == "muon" && by_fsdp(h)); }},
      {"muon_on_shards", {}, [](H h) { return Value(h.optimizer == "muon" && h.sharded()); }},
      {"unsharded_moments", {}, [](H h) { return Value(h.chosen.optimizer_states.has_value() && !h.sharded()); }},
      {"unsharded_formats", {},
       [](H h) { return Value((h.chosen.optimizer_states || sums_in(h, {DataType::Bf16})) && !h.sharded()); }},
      {"experts_exposed", {}, [](H h) { return Value(h.overlaps(Overlap::ExpertAllToAll) && !overlaps_experts(h)); }},
      {"tensor_hidden_between_nodes", {},
       [](H h) { return Value(h.overlaps(Overlap::TensorParallel) && h.degrees.tensor() > h.gpus_per_node()); }},
      {"pairs_of_cut_layers", {}, [](H h) { return Value(runs_pairs(h) && cuts_layers(h)); }},
      // validate_args asserts 1 before Blackwell where layers are cut, and leaves it open beside
      // exchanges of experts, which ask for more; Megatron-FSDP asserts that it is not 1.
      {"device_queues", {},
       [](H h) {
         if (by_fsdp(h)) return Value("");
         if (cuts_layers(h)) return Value("1");
         return where(runs_pairs(h), "32");
       }},
  };
}
// clang-format on

}  // namespace

Facts megatron_facts() {
  return joined<Fact>({parallel_facts(), dispatcher_facts(), recompute_facts(), megatron_formats(),
                       network_in_arguments(), layer_facts(), megatron_adapter_facts(),
                       megatron_conditions()});
}

}  // namespace plansearch::exporters
