// SPDX-License-Identifier: Apache-2.0
// One file of data as people read it: every number with its evidence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plansearch/provenance.hpp"
#include "plansearch/report.hpp"

namespace plansearch {

struct ShownRow {
  std::string field;             ///< path in the file, such as "peak.bf16"
  std::string text;              ///< the value as people read it
  std::optional<double> number;  ///< the value in base units, where it is a quantity or a count
  std::string unit;              ///< of `number`: "B", "B/s", "FLOP/s", "s", "W", "USD/h" or ""
  std::optional<Provenance> from;
  std::string meaning;  ///< where the field does not say it
};

struct ShownSection {
  std::string title;
  std::vector<ShownRow> rows;
};

struct Shown {
  std::string kind;  ///< "hw", "model" or "framework"
  std::string name;
  std::string description;
  std::vector<std::string> aliases;
  std::vector<ShownSection> sections;
};

/// Sources of the evidence are numbered below the table, each once.
/// docs/schema/show.v1.schema.json.
[[nodiscard]] std::string render_shown(const Shown& shown, Format format, int columns = 0);

}  // namespace plansearch
