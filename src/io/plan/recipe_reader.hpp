// SPDX-License-Identifier: Apache-2.0
// Files of published plans (plansearch/recipes/v1).
#pragma once

#include <filesystem>
#include <vector>

#include "plansearch/recipe.hpp"

namespace plansearch::io {

/// The entries of one file, in its order. InputError for anything wrong, with its place.
[[nodiscard]] std::vector<Recipe> read_recipes(const std::filesystem::path& path);

}  // namespace plansearch::io
