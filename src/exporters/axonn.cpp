// SPDX-License-Identifier: Apache-2.0
// AxoNN: arguments of Megatron-AxoNN's pretrain_gpt.py, which hands the grid to axonn.init.
//
// Keys and rules: axonn-ai/Megatron-AxoNN@885d2e75 (2024-08-08, branch gordon-bell-perlmutter)
//   megatron/arguments.py: validate_args, _add_network_size_args, _add_distributed_args
//   megatron/initialize.py: ax.init; pretrain_gpt.py: forward_step (optimize_communication)
//   megatron/model/transformer.py: ParallelMLP, ParallelAttention (Linear, always with a bias)
// and axonn-ai/axonn@660a2246 (2024-10-24) axonn/axonn.py: init, axonn/communication.py (rank
// order).

#include <algorithm>

#include "exporters/megatron_model.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;
using M = ModelDescription;

bool hides(const ExportRequest& h, Overlap overlap) {
  return h.problem.framework->overlap.at(static_cast<std::size_t>(overlap)).hides();
}
bool hides_sums(const ExportRequest& h) {
  return h.degrees.tensor() > 1 && hides(h, Overlap::TensorParallel);
}
/// Gradients scattered over the depth axis, and weights gathered from it.
bool hides_scatters(const ExportRequest& h) {
  return h.degrees.tensor_depth > 1 && hides(h, Overlap::GradientReduction);
}
bool hides_gathers(const ExportRequest& h) {
  return h.degrees.tensor_depth > 1 && hides(h, Overlap::ParameterGather);
}

// clang-format off
std::vector<Key> parallel_keys() {
  return {
      {"--row-tensor-model-parallel-size", {s(D::TensorOut)}, degree<&PlanDegrees::tensor_out>},
      {"--column-tensor-model-parallel-size", {s(D::TensorIn)}, degree<&PlanDegrees::tensor_in>},
      {"--depth-tensor-model-parallel-size", {s(D::TensorDepth)}, degree<&PlanDegrees::tensor_depth>},
      {"--pipeline-model-parallel-size", {s(D::Pipeline), s(D::Schedule)}, degree<&PlanDegrees::pipeline>},
      {"--overlap-axonn-comm", {setting_of(Overlap::TensorParallel)}, flag_of<hides_sums>},
      {"--overlap-axonn-reduce-scatter", {setting_of(Overlap::GradientReduction)}, flag_of<hides_scatters>},
      {"--overlap-axonn-all-gather", {setting_of(Overlap::ParameterGather)}, flag_of<hides_gathers>},
      // Counted before the depth axis splits them.
      {"--micro-batch-size", {s(D::MicroBatch), s(D::TensorDepth)},
       [](const ExportRequest& h) { return Value(h.degrees.micro_batch * h.degrees.tensor_depth); }},
      {"--global-batch-size", {S::GlobalBatch, S::MicroBatches, s(D::Data), S::Gpus},
       kBatch},
      {"--seq-length", {S::SequenceLength}, kSequence},
      {"--recompute-granularity", {s(D::Recompute)},
       [](const ExportRequest& h) { return h.degrees.recompute == Recompute::None ? Value() : Value("full"); }},
      {"--recompute-method", {s(D::Recompute)},
       [](const ExportRequest& h) { return h.degrees.recompute == Recompute::None ? Value() : Value("uniform"); }},
      {"--bf16", {S::Precision}, [](const ExportRequest& h) { return flag(h.problem.precision == DataType::Bf16); }},
      {"--fp16", {S::Precision}, [](const ExportRequest& h) { return flag(h.problem.precision == DataType::Fp16); }},
      {"--optimizer", {S::Optimizer}, [](const ExportRequest& h) { return Value(h.optimizer); }},
      {"--use-flash-attn", {S::Attention}, [](const ExportRequest& h) { return flag(h.attention == "flash"); }},
  };
}

std::vector<Key> model_keys() {
  const Setting model = S::Model;
  return {
      {"--num-layers", {model}, of_model<&ModelDescription::layers>},
      {"--hidden-size", {model}, of_model<&ModelDescription::hidden>},
      {"--ffn-hidden-size", {model}, [](const ExportRequest& h) { return Value(h.model().mlp.width); }},
      {"--num-attention-heads", {model}, of_attention<&AttentionDescription::heads>},
      {"--kv-channels", {model}, of_attention<&AttentionDescription::head_size>},
      {"--group-query-attention", {model},
       [](const ExportRequest& h) { return flag(h.model().attention.kv_heads != h.model().attention.heads); }},
      {"--num-query-groups", {model},
       [](const ExportRequest& h) {
         const auto& attention = h.model().attention;
         return attention.kv_heads == attention.heads ? Value() : Value(attention.kv_heads);
       }},
      {"--max-position-embeddings", {model},
       [](const ExportRequest& h) {
         return Value(std::max(h.model().max_positions.value_or(h.problem.seq_len), h.problem.seq_len));
       }},
      {"--position-embedding-type", {model},
       [](const ExportRequest& h) {
         return Value(h.model().attention.positions == PositionKind::Rotary ? "rope" : "learned_absolute");
       }},
      {"--normalization", {model},
       [](const ExportRequest& h) { return Value(h.model().norm.kind == NormKind::RmsNorm ? "RMSNorm" : "LayerNorm"); }},
      {"--swiglu", {model}, [](const ExportRequest& h) { return flag(h.model().mlp.gated); }},
      {"--squared-relu", {model},
       [](const ExportRequest& h) { return flag(h.model().mlp.activation == Activation::SquaredRelu); }},
      {"--untie-embeddings-and-output-weights", {model},
       [](const ExportRequest& h) { return flag(!h.model().embedding.tied); }},
      {"--hidden-dropout", {model}, of_model<&ModelDescription::dropout>},
      {"--attention-dropout", {model}, of_model<&ModelDescription::attention_dropout>},
  };
}
// clang-format on

std::vector<Trait> lacks() {
  const std::vector<Trait> own{
      {"experts (megatron/model/transformer.py has none on a grid)",
       [](const M& m) { return m.moe.has_value(); }},
      {"linear layers without a bias (AxoNN's Linear is made with one)",
       [](const M& m) {
         return !m.attention.query_key_value_bias || !m.attention.output_bias || !m.mlp.bias;
       }},
      {"no positions (attention.positions)",
       [](const M& m) { return m.attention.positions == PositionKind::None; }},
      {"a gate that is not SiLU (mlp.activation)",
       [](const M& m) { return m.mlp.gated && m.mlp.activation != Activation::Silu; }},
      {"an activation that is neither GELU nor squared ReLU (mlp.activation)",
       [](const M& m) {
         return !m.mlp.gated && m.mlp.activation != Activation::Gelu &&
                m.mlp.activation != Activation::SquaredRelu;
       }},
  };
  return joined<Trait>({beyond_decoders(), own, beyond_first_decoders()});
}

/// optimize_communication is entered for all-reduces, or not at all.
bool scatters_alone(const ExportRequest& h) {
  return (hides_scatters(h) || hides_gathers(h)) && !hides_sums(h);
}

/// validate_args wants it; with one queue, messages that were posted first are sent first.
std::optional<std::string> max_connections(const ExportRequest& /*request*/) {
  return "1";
}

std::vector<std::string> notes(const ExportRequest&) {
  return {"not in a plan: data, vocabulary, learning rate, initialisation, checkpoints",
          "needs axonn-ai/axonn; the launcher of its cluster sets NCCL's variables "
          "(examples/run_axonn.sh)"};
}

Launch launch() {
  return {.script = "pretrain_gpt.py",
          .arguments = "\"${AXONN_ARGS[@]}\" \"${TRAIN_ARGS[@]}\"",
          .environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", max_connections}}};
}

}  // namespace

Exporter axonn_exporter() {
  return {
      .title = "arguments of Megatron-AxoNN",
      .checked = "axonn-ai/Megatron-AxoNN@885d2e75 (2024-08-08)",
      .framework = "axonn",
      .accepts = {{s(D::Recompute), {"none", "full"}},
                  {s(D::Schedule), {"1f1b"}},
                  {S::Precision, {"bf16", "fp16", "fp32"}, By::Key, "fp32"},
                  {S::Optimizer, {"adam", "sgd"}},
                  {S::Attention, {"flash", "unfused"}, By::Key, "unfused"},
                  {S::RankOrder, {"tp_x-tp-tp_z-pp-dp"}, By::Target},
                  {S::Layers, {kOwnSplit}, By::Target}},
      .documents = {{.keys = joined<Key>({parallel_keys(), model_keys()}), .array = "AXONN_ARGS"}},
      .launch = launch(),
      .lacks = lacks(),
      .conflicts = {{"messages of the depth axis hidden beside all-reduces that are not",
                     scatters_alone}},
      .notes = notes};
}

}  // namespace plansearch::exporters
