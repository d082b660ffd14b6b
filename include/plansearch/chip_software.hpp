// SPDX-License-Identifier: Apache-2.0
// The software that runs on a chip where it is not stated (frameworks/operators/chips.yaml).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plansearch {

/// The format that most runs of a framework have on a chip, dense networks and mixtures apart.
struct UsualPrecision {
  std::string dense;
  std::string experts;
  double spread = 0.0;  ///< of ln(step) between the formats in use
};

struct ChipSoftware {
  std::vector<std::string> accelerators;            ///< names of the chips
  std::optional<std::string> framework;             ///< where a question names none
  std::optional<std::string> attention_kernel;      ///< in the place of a framework's own
  std::map<std::string, std::string> releases;      ///< of a framework, the one for these chips
  std::map<std::string, UsualPrecision> precision;  ///< by framework, of runs that leave it out
};

using ChipSoftwareTable = std::vector<ChipSoftware>;

/// Nothing for chips that no entry names.
[[nodiscard]] inline const ChipSoftware* software_of(const ChipSoftwareTable& table,
                                                     std::string_view accelerator) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const ChipSoftware& one) {
    return std::find(one.accelerators.begin(), one.accelerators.end(), accelerator) !=
           one.accelerators.end();
  });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace plansearch
