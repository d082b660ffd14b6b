// SPDX-License-Identifier: Apache-2.0
// Hugging Face's config.json, read by the rules of its family (models/families).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/document/document.hpp"
#include "plansearch/model_description.hpp"

namespace plansearch::io {

struct HfModel {
  ModelDescription model;
  std::vector<std::string> left_out;     ///< parts of a composite network that are not in `model`
  std::vector<std::string> passed_over;  ///< keys that no rule of the family knows
};

/// The description of the configuration, or of its text part. `name` is used when the file has
/// none; `families` is the directory of family files.
[[nodiscard]] HfModel read_hf_config(const Node& root, const std::string& name,
                                     const std::filesystem::path& families);

}  // namespace plansearch::io
