// SPDX-License-Identifier: Apache-2.0
// Model files: our own format plansearch/model/v1 (docs/models.md) and Hugging Face config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/overrides.hpp"
#include "io/document/document.hpp"
#include "io/document/name_resolver.hpp"
#include "plansearch/model_description.hpp"

namespace plansearch::io {

enum class ModelFormat { Plansearch, HuggingFace };

struct ModelFile {
  ModelDescription model;
  ModelFormat format = ModelFormat::Plansearch;
  std::vector<std::string> aliases;
  std::optional<std::int64_t> published_parameters;  ///< checked against the sizes on reading
  std::uint64_t hash = 0;                            ///< of the file's text
  std::vector<std::string> left_out;     ///< of a Hugging Face file: parts that are not in `model`
  std::vector<std::string> passed_over;  ///< ... and unknown keys
};

/// Reads a model by path. A document with `schema` is ours, one with `model_type` Hugging Face's.
/// Throws InputError for anything wrong, contradicting sizes included.
/// `families` is the directory of family files, by which Hugging Face's are read.
[[nodiscard]] ModelFile read_model(const std::filesystem::path& path,
                                   const std::filesystem::path& families = {});
[[nodiscard]] ModelFile read_model(const Document& document, const std::string& fallback_name,
                                   const std::filesystem::path& families = {});

/// Reads a model by path, shipped name or alias; `directories` hold model files, the first one
/// those of families too (families/). `overrides` are values to read in the place of its own; the
/// published number of parameters then no longer binds. `stubs` is a file that describes operators
/// of a network of another program (docs/imports.md), or empty; InputError where the model is none.
[[nodiscard]] ModelFile load_model(std::string_view name_or_path,
                                   std::span<const std::filesystem::path> directories,
                                   std::span<const Override> overrides = {},
                                   const std::filesystem::path& stubs = {});
/// Names, aliases and paths of all models in the directories.
[[nodiscard]] std::vector<NamedFile> list_models(
    std::span<const std::filesystem::path> directories);

// Hugging Face's config.json, read by the rules of its family (models/families).

struct HfModel {
  ModelDescription model;
  std::vector<std::string> left_out;     ///< parts of a composite network that are not in `model`
  std::vector<std::string> passed_over;  ///< keys that no rule of the family knows
};

/// The description of the configuration, or of its text part. `name` is used when the file has
/// none; `families` is the directory of family files.
[[nodiscard]] HfModel read_hf_config(const Node& root, const std::string& name,
                                     const std::filesystem::path& families);

/// Whether the name of a file says that it holds a network of another program (.pt2, .onnx).
[[nodiscard]] bool is_import(const std::filesystem::path& path);

/// The network of a `.pt2` or `.onnx` file as a document plansearch/graph/v1. `stubs` is a file plansearch/stubs/v1 or
/// empty, `families` the directory of the table of operators. An operator that has no row is an
/// InputError. The wing `exchange` defines it; src/absent/exchange.cpp where a build leaves that out.
[[nodiscard]] Document read_import(const std::filesystem::path& path,
                                   const std::filesystem::path& stubs,
                                   const std::filesystem::path& families);

}  // namespace plansearch::io
