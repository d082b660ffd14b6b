// SPDX-License-Identifier: Apache-2.0
// Plan files (plansearch/plan/v1): one plan, and what it was made for. The format is documented in
// docs/plan_format.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "io/document.hpp"
#include "io/placements_document.hpp"
#include "io/plan_stages_document.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/degree_set.hpp"
#include "plansearch/degrees.hpp"

namespace plansearch::io {

/// A shipped name or a file, and the hash of its content when the plan was written.
struct NamedContent {
  std::string name;
  std::optional<std::string> hash;
  bool operator==(const NamedContent&) const = default;
};

/// What a plan file says; everything but the schema may be left open and comes from the command
/// line or from defaults then.
struct PlanDocument {
  std::optional<NamedContent> hardware;
  std::optional<NamedContent> model;
  std::optional<NamedContent> framework;
  std::optional<int> gpus;
  std::optional<std::int64_t> global_batch;
  std::optional<std::int64_t> seq_len;
  std::optional<DataType> precision;
  std::optional<std::string> optimizer;
  std::optional<std::string> attention;
  std::optional<std::string> rank_order;
  std::optional<std::int64_t> lora_rank;
  std::optional<std::string> lora_targets;

  /// Either of the two: equal stages, or stages spelled out.
  PinnedDegrees degrees;
  std::optional<StagesDocument> stages;
  /// Operators that are not cut by role.
  std::optional<PlacementsDocument> placements{};

  bool operator==(const PlanDocument&) const = default;
};

/// The degrees of an entry of an earlier answer (its `config`).
[[nodiscard]] PinnedDegrees read_config(const Node& config);

/// Reads a plan file, YAML or JSON. Throws InputError for anything wrong.
[[nodiscard]] PlanDocument read_plan_document(const std::filesystem::path& path);
[[nodiscard]] PlanDocument read_plan_document(const Node& root);

/// The degrees of a plan as a document; the caller adds what it was made for.
[[nodiscard]] PlanDocument to_document(const PlanDegrees& plan);

/// YAML text that `read_plan_document` reads back to the same document.
[[nodiscard]] std::string to_yaml(const PlanDocument& document);

}  // namespace plansearch::io
