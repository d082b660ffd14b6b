// SPDX-License-Identifier: Apache-2.0
// What programs that train by Megatron-LM say of a plan, whatever their keys are called.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

/// ZeRO 2 and 3 are Megatron-FSDP.
[[nodiscard]] bool megatron_fsdp(const ExportRequest& request);
/// "optim_grads", "optim_grads_params"; null without Megatron-FSDP.
[[nodiscard]] Value sharding_strategy(const ExportRequest& request);
[[nodiscard]] bool hides_gradients(const ExportRequest& request);
/// Gathers are hidden where reductions are.
[[nodiscard]] bool hides_gathers(const ExportRequest& request);
/// User buffers of Transformer Engine, which lie inside a node; without sequence parallelism the
/// backward all-reduce hides behind the weight gradient by itself.
[[nodiscard]] bool hides_tensor_messages(const ExportRequest& request);
[[nodiscard]] bool offloads_optimizer(const ExportRequest& request);
[[nodiscard]] bool has_precision(const ExportRequest& request,
                                 std::initializer_list<DataType> types);
/// Words of --fp8-recipe; a row-wise recipe is not among them.
[[nodiscard]] std::string fp8_recipe_word(const ExportRequest& request);
/// "p2p", "a2a", "all_gather"; null without context parallelism.
[[nodiscard]] Value context_word(const ExportRequest& request);
/// "uniform" or "block" of full recomputation, and the layers; null of any other.
[[nodiscard]] Value recompute_method(const ExportRequest& request);
[[nodiscard]] Value recompute_layers(const ExportRequest& request);
/// Modules of selective recomputation: "core_attn", or those that the plan names.
[[nodiscard]] Value recomputed_modules(const ExportRequest& request);
/// Whether selective recomputation goes by modules that the plan names.
[[nodiscard]] bool names_modules(const ExportRequest& request);
/// "alltoall", "allgather", "flex"; null without experts.
[[nodiscard]] Value dispatcher_word(const ExportRequest& request);
/// A switch that is said whether it is on or off.
[[nodiscard]] Value spelled_out(bool on);

}  // namespace plansearch::exporters
