// SPDX-License-Identifier: Apache-2.0
// Framework files (plansearch/framework/v1) into `Framework`. The format is documented in
// docs/frameworks.md.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/overrides.hpp"
#include "io/document/name_resolver.hpp"
#include "plansearch/framework.hpp"

namespace plansearch::io {

/// Reads a framework by path, name or alias; `overrides` are values to read in the place of its
/// own. Throws InputError for anything wrong.
[[nodiscard]] Framework load_framework(std::string_view name_or_path,
                                       std::span<const std::filesystem::path> directories,
                                       std::span<const Override> overrides = {});

/// Names, aliases and paths of all frameworks in the directories.
[[nodiscard]] std::vector<NamedFile> list_frameworks(
    std::span<const std::filesystem::path> directories);

}  // namespace plansearch::io
