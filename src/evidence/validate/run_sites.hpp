// SPDX-License-Identifier: Apache-2.0
// Whose run a measured row is: its column `site`, else the measured site that its source is of.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "evidence/validate/run_record.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/site.hpp"

namespace plansearch {

struct RowSites {
  std::string name;               ///< empty: the row does not say and nobody listed its source
  std::optional<SiteEffect> own;  ///< where the site was measured
  SiteEffect typical;
  SiteEffect left_out;  ///< typical of all laboratories but the row's own
  SiteEffect answer;    ///< what the row, the command line or the profile name; else typical
};

class RunSites {
 public:
  /// `asked`: the site of rows that name none; empty: not asked. InputError for an unknown one.
  RunSites(const SiteTable& sites, const std::string& asked);

  [[nodiscard]] RowSites of(const RunRecord& run, const Cluster& cluster,
                            const Framework& framework) const;

 private:
  [[nodiscard]] const MeasuredSite* measured(const RunRecord& run) const;

  const SiteTable& sites_;
  std::optional<SiteEffect> asked_;
  std::map<std::string, SiteEffect, std::less<>> own_;       ///< by name
  std::map<std::string, SiteEffect, std::less<>> left_out_;  ///< by laboratory; "": none left out
};

}  // namespace plansearch
