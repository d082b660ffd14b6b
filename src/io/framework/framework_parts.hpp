// SPDX-License-Identifier: Apache-2.0
// Parts of the framework reader. Private to io.
#pragma once

#include "io/document/document.hpp"
#include "io/hardware/profile_parts.hpp"
#include "plansearch/framework.hpp"

namespace plansearch::io {

/// `precision:`, a map from what the user asks for to the formats of everything that is kept.
void read_precision(const Node& map, Framework& framework);
/// `sharding:`, when sharded parameters are gathered and gradients summed.
void read_sharding(const Node& map, ShardingRules& rules);

/// A line of `rules:`.
[[nodiscard]] FrameworkRule read_rule(const Node& node);
/// `matrix_updates:`, how Muon runs; `none` where it does not.
[[nodiscard]] std::optional<MatrixUpdates> read_matrix_updates(const Node& node);

/// `dispatchers:`, of a table of them those that the framework can use, its default first.
void read_dispatchers(const Node& map, const Document& table, Framework& framework);

/// A file of implementations of memory-bound operators.
[[nodiscard]] OperatorTable read_operators(const Document& document);
/// The implementations that `implementation:` names.
void read_operator_choices(const Node& map, OperatorTable& table);
/// `implementation:`, what kernels keep from forward to backward.
void read_implementation(const Node& map, Implementation& kept);

}  // namespace plansearch::io
