// SPDX-License-Identifier: Apache-2.0
// How much a step depends on single values of the data files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/provenance.hpp"
#include "plansearch/quantity.hpp"
#include "report/text_table.hpp"

namespace plansearch {

struct SensitivityRow {
  std::string key;    ///< as --set takes it
  std::string value;  ///< as the file says it
  std::optional<Evidence> evidence;
  double step_change = 0.0;  ///< ratio of step times, less 1, where the value is a tenth higher
  Bytes memory_change;       ///< of the peak
  /// What the value would have to be for the step that is asked for; absent: it alone cannot.
  std::optional<std::string> needed{};
};

struct SensitivityReport {
  double factor = 1.1;               ///< by which each value is raised
  std::optional<Seconds> goal{};     ///< a step that is asked for
  std::vector<SensitivityRow> rows;  ///< the largest change first
  int without_effect = 0;            ///< values that move nothing
  std::vector<std::string> refused;  ///< keys that cannot be changed alone
};

/// The values that move most.
[[nodiscard]] TextTable sensitivity_table(const SensitivityReport& report);
[[nodiscard]] std::string sensitivity_text(const SensitivityReport& report, int columns);
[[nodiscard]] nlohmann::ordered_json to_json(const SensitivityReport& report);

}  // namespace plansearch
