// SPDX-License-Identifier: Apache-2.0
// How well a few runs of a group predict the others of it: what `plansearch fit` would have given.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "plansearch/site.hpp"
#include "studies/validate/run_prediction.hpp"

namespace plansearch {

struct FitDraws {
  int runs = 0;      ///< a fit sees; 0: no such study
  int repeat = 200;  ///< draws per group
  double min_mfu = 0.0;
  std::set<std::string> excluded{};  ///< ids left out altogether
};

/// Rows of one site, machine, framework and precision.
struct FittedGroup {
  std::string name;
  std::size_t rows = 0;
  double before = 0.0;   ///< mean absolute error of a typical site, the row's laboratory left out
  double after = 0.0;    ///< of the rows that a fit has not seen, mean over draws
  double refused = 0.0;  ///< share of draws; they count with the error before
  /// No better than a fifth above the error before, and a point.
  [[nodiscard]] bool worse() const { return after > 1.2 * before + 0.01; }
};

struct FitStudy {
  FitDraws draws;
  std::vector<FittedGroup> groups;  ///< with at least two rows more than a fit sees
  [[nodiscard]] double median_before() const;
  [[nodiscard]] double median_after() const;
  [[nodiscard]] double refused() const;  ///< mean over groups
};

/// The same draws for the same table, on any machine.
[[nodiscard]] FitStudy study_fits(const std::vector<PredictedRun>& runs, const SiteTable& sites,
                                  const FitDraws& draws);

[[nodiscard]] std::string fit_study_text(const FitStudy& study, int columns);

}  // namespace plansearch
