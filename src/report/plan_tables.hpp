// SPDX-License-Identifier: Apache-2.0
// Tables of plans and of the parts of one, for every view that shows them.
#pragma once

#include <vector>

#include "plansearch/report.hpp"
#include "report/text_table.hpp"

namespace plansearch {

/// The ranked plans, without variants of others.
[[nodiscard]] TextTable plan_table(const SearchReport& report);
/// Meanings of the short names of those columns, for a table of that many characters.
[[nodiscard]] std::string plan_legend(const std::vector<PlanReport>& plans, const TextTable& table,
                                      int columns);
/// That table with its legend, and plans beyond the framework or the accepted risk.
[[nodiscard]] std::string ranking_table(const SearchReport& report, int columns);
/// The best plan of every size.
[[nodiscard]] TextTable ladder_rows(const std::vector<LadderRung>& ladder);
/// Plans that need a little more memory than there is.
[[nodiscard]] TextTable miss_table(const std::vector<NearMissReport>& misses);
/// Published plans of the question, priced.
[[nodiscard]] TextTable published_table(const std::vector<PublishedReport>& published);
/// Stages; runs of those that are alike but for their memory are one row.
[[nodiscard]] TextTable stage_table(const std::vector<StageReport>& stages);
[[nodiscard]] TextTable communication_table(const std::vector<PricedCommunication>& lines);
/// Tensors on the device when it is fullest.
[[nodiscard]] TextTable peak_table(const PeakReport& peak);

}  // namespace plansearch
