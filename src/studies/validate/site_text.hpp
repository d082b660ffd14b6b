// SPDX-License-Identifier: Apache-2.0
// Three errors side by side: at a row's own site, at a typical one, and left out.
#pragma once

#include <string>
#include <vector>

#include "studies/validate/run_report.hpp"
#include "studies/validate/summary_section.hpp"

namespace plansearch {

[[nodiscard]] std::string site_errors_text(const RunReport& report,
                                           const std::vector<GroupPair>& pairs, int columns);
/// What the columns mean; ends in a line feed.
[[nodiscard]] std::string site_legend();

}  // namespace plansearch
