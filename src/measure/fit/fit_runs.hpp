// SPDX-License-Identifier: Apache-2.0
// Measured runs of one machine, predicted at factor 1, for a fit.
#pragma once

#include <string>
#include <vector>

#include "evidence/validate/run_record.hpp"
#include "measure/fit/fit_tables.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

struct FitRun {
  std::string place;  ///< file and id
  RunRecord run;
  Seconds predicted;  ///< at factor 1
  double log = 0.0;   ///< ln(measured / predicted)
};

struct FitRuns {
  std::vector<FitRun> runs;
  std::vector<std::string> unused;  ///< rows without a time or a prediction, with the reason
  std::string framework;
  std::string precision;
};

/// Every run of the tables on `base`, whose own site does not count. InputError for anything wrong
/// in a table, FitRefusal for runs that are not of one machine, framework and precision.
[[nodiscard]] FitRuns read_fit_runs(const std::vector<std::string>& tables, const Cluster& base,
                                    const ShippedData& data, int threads);

/// "tp: 1 in 3 runs at x1.10, 2 in 3 at x1.45": the column whose cells separate the runs best;
/// empty where none does.
[[nodiscard]] std::string separating_column(const std::vector<FitRun>& runs);

}  // namespace plansearch
