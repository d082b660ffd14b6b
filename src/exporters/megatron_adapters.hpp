// SPDX-License-Identifier: Apache-2.0
// Adapters on Megatron's modules, each of which holds several matrices.
#pragma once

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

[[nodiscard]] Value adapter_rank(const ExportRequest& request);
/// linear_qkv, linear_proj, linear_fc1, linear_fc2 (projections by themselves under latent
/// attention); "all-linear"; null without adapters.
[[nodiscard]] Value megatron_adapters(const ExportRequest& request);
/// Everything that "all-linear" stands for, by name.
[[nodiscard]] Value every_adapted_module(const ExportRequest& request);
/// Rank and modules. WrongValue for modules without a counterpart.
void read_megatron_adapters(Reading& reading);

}  // namespace plansearch::exporters
