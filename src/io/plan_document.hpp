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
#include "plansearch/degrees.hpp"
#include "plansearch/setting_table.hpp"

namespace plansearch::io {

/// What a plan file says; everything but the schema may be left open and comes from the command
/// line or from defaults then.
struct PlanDocument {
  /// Settings and degrees, and the hashes that files had when the plan was written.
  ProblemRequest question;
  /// In place of degrees: a list of stages.
  std::optional<StagesDocument> stages;
  /// Operators that are not cut by role.
  std::optional<PlacementsDocument> placements{};

  bool operator==(const PlanDocument&) const = default;
};

/// Reads a plan file, YAML or JSON. Throws InputError for anything wrong.
[[nodiscard]] PlanDocument read_plan_document(const std::filesystem::path& path);
[[nodiscard]] PlanDocument read_plan_document(const Node& root);

/// YAML text that `read_plan_document` reads back to the same document.
[[nodiscard]] std::string to_yaml(const PlanDocument& document);

}  // namespace plansearch::io
