// SPDX-License-Identifier: Apache-2.0
// Source: NVIDIA/Megatron-LM@d98e8a64 megatron/training/arguments.py: validate_args;
// megatron/core/transformer/transformer_config.py: TransformerConfig.
#include "exporters/megatron_words.hpp"

#include <algorithm>

#include "base/names.hpp"
#include "plan/primitives/recompute.hpp"

namespace plansearch::exporters {

bool megatron_fsdp(const ExportRequest& h) {
  return h.sharded() && h.degrees.zero >= ZeroStage::Gradients;
}

Value sharding_strategy(const ExportRequest& h) {
  if (!megatron_fsdp(h)) return {};
  return Value(h.degrees.zero == ZeroStage::Parameters ? "optim_grads_params" : "optim_grads");
}

bool hides_gradients(const ExportRequest& h) {
  return h.overlaps(Overlap::GradientReduction);
}

bool hides_gathers(const ExportRequest& h) {
  return h.sharded() && hides_gradients(h) && h.overlaps(Overlap::ParameterGather);
}

bool hides_tensor_messages(const ExportRequest& h) {
  const bool inside = h.degrees.tensor() <= h.gpus_per_node();
  return h.overlaps(Overlap::TensorParallel) && inside && h.spreads_tokens();
}

bool offloads_optimizer(const ExportRequest& h) {
  return host_tensors(h.degrees.on_host).optimizer;
}

bool has_precision(const ExportRequest& h, std::initializer_list<DataType> types) {
  return std::find(types.begin(), types.end(), h.problem.precision) != types.end();
}

std::string fp8_recipe_word(const ExportRequest& h) {
  if (h.problem.precision == DataType::Mxfp8) return "mxfp8";
  switch (h.problem.framework->fp8_recipe.value_or(Fp8Recipe::Tensorwise)) {
    case Fp8Recipe::Delayed:
      return "delayed";
    case Fp8Recipe::Block:
      return "blockwise";
    case Fp8Recipe::Mxfp8:
      return "mxfp8";
    default:
      return "tensorwise";
  }
}

Value context_word(const ExportRequest& h) {
  if (h.degrees.context == 1) return {};
  if (h.degrees.context_kind == ContextKind::AllGather) return Value("all_gather");
  return Value(h.degrees.context_kind == ContextKind::Ring ? "p2p" : "a2a");
}

Value recompute_method(const ExportRequest& h) {
  if (h.degrees.recompute != Recompute::Full) return {};
  return Value(h.degrees.recompute_layers > 0 ? "block" : "uniform");
}

Value recompute_layers(const ExportRequest& h) {
  if (h.degrees.recompute != Recompute::Full) return {};
  return Value(std::max(1, h.degrees.recompute_layers));
}

bool names_modules(const ExportRequest& h) {
  return h.degrees.recompute == Recompute::Selective &&
         selective_of(*h.problem.framework, h.degrees).rule == SelectiveRule::Modules;
}

Value recomputed_modules(const ExportRequest& h) {
  if (h.degrees.recompute != Recompute::Selective) return {};
  if (!names_modules(h)) return Value({"core_attn"});
  return Value(words_of(to_text(selective_of(*h.problem.framework, h.degrees).modules, " "), " "));
}

Value dispatcher_word(const ExportRequest& h) {
  if (!h.model().moe) return {};
  const TokenPath path = dispatcher_of(*h.problem.framework, h.degrees.dispatcher).path;
  if (path == TokenPath::Nodes) return Value("flex");
  return Value(path == TokenPath::Gather ? "allgather" : "alltoall");
}

Value spelled_out(bool on) {
  return Value(on ? "true" : "false");
}

}  // namespace plansearch::exporters
