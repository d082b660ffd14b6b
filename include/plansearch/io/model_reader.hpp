// SPDX-License-Identifier: Apache-2.0
// Model files: our own format plansearch/model/v1 (docs/models.md) and Hugging Face config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/io/document.hpp"
#include "plansearch/workload/model_description.hpp"

namespace plansearch::io {

enum class ModelFormat { Plansearch, HuggingFace };

struct ModelFile {
  ModelDescription model;
  ModelFormat format = ModelFormat::Plansearch;
  std::vector<std::string> aliases;
  std::optional<std::int64_t> published_parameters;  ///< checked against the sizes on reading
  std::uint64_t hash = 0;                            ///< of the file's text
};

/// Reads a model by path. A document with `schema` is ours, one with `model_type` Hugging Face's.
/// Throws InputError for anything wrong, contradicting sizes included.
[[nodiscard]] ModelFile read_model(const std::filesystem::path& path);
[[nodiscard]] ModelFile read_model(const Document& document, const std::string& fallback_name);

}  // namespace plansearch::io
