// SPDX-License-Identifier: Apache-2.0
// Framework files (plansearch/framework/v1) into `Framework`. The format is documented in
// docs/frameworks.md.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/overrides.hpp"
#include "io/document/document.hpp"
#include "io/document/name_resolver.hpp"
#include "io/hardware/profile_parts.hpp"
#include "plansearch/framework.hpp"

namespace plansearch::io {

/// Reads a framework by path, name or alias; `overrides` are values to read in the place of its
/// own. Throws InputError for anything wrong.
[[nodiscard]] Framework load_framework(std::string_view name_or_path,
                                       std::span<const std::filesystem::path> directories,
                                       std::span<const Override> overrides = {});

/// All frameworks in the directories; files that several refer to are read once.
[[nodiscard]] std::vector<Framework> load_frameworks(
    std::span<const std::filesystem::path> directories);

/// Look-up of a framework in the directories, by a file in the folder `beside` (empty: by none).
[[nodiscard]] NamedFiles framework_files(std::span<const std::filesystem::path> directories,
                                         const std::filesystem::path& beside);

/// Names, aliases and paths of all frameworks in the directories.
[[nodiscard]] std::vector<NamedFile> list_frameworks(
    std::span<const std::filesystem::path> directories);

// Parts of the framework reader. Private to io.

/// `precision:`, a map from what the user asks for to the formats of everything that is kept.
void read_precision(const Node& map, Framework& framework);
/// `sharding:`, when sharded parameters are gathered and gradients summed.
void read_sharding(const Node& map, ShardingRules& rules);

[[nodiscard]] FrameworkRule read_rule(const Node& node);
/// `matrix_updates:`, how Muon runs; `none` where it does not.
[[nodiscard]] std::optional<MatrixUpdates> read_matrix_updates(const Node& node);

/// `dispatchers:`, of a table of them those that the framework can use, its default first.
void read_dispatchers(const Node& map, const Document& table, Framework& framework);

/// A file of implementations of memory-bound operators.
/// Curves of recurrences (frameworks/operators/recurrences.yaml).
[[nodiscard]] std::vector<NamedKernel> read_named_kernels(const Document& document);
[[nodiscard]] OperatorTable read_operators(const Document& document);
/// The implementations that `implementation:` names.
void read_operator_choices(const Node& map, OperatorTable& table);
/// `implementation:`, what kernels keep from forward to backward.
void read_implementation(const Node& map, Implementation& kept);

}  // namespace plansearch::io
