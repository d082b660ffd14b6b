// SPDX-License-Identifier: Apache-2.0
// Which blocks each virtual pipeline stage holds, by the rule of the framework.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// Runs of blocks by virtual stage, first to last. Virtual stage k is chunk k / pipeline of the
/// device at pipeline coordinate k % pipeline.
using StageRuns = std::vector<std::vector<BlockRun>>;

/// Layers (encoder and decoder blocks) go to stages by `framework.layers`; embeddings stand before
/// the layer they feed, heads and additional prediction blocks behind the last layer.
[[nodiscard]] std::variant<StageRuns, Infeasible> distribute_layers(const Network& network,
                                                                    const PlanDegrees& plan,
                                                                    const Framework& framework);

/// Encoder and decoder blocks are layers.
[[nodiscard]] bool is_layer(BlockKind kind);
[[nodiscard]] std::int64_t count_layers(const Network& network);

/// The same where the layers of every virtual stage are given.
[[nodiscard]] std::variant<StageRuns, Infeasible> place_layers(
    const Network& network, const std::vector<std::int64_t>& layers);

}  // namespace plansearch
