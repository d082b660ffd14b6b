// SPDX-License-Identifier: Apache-2.0
// Report of a fit, for people and for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plansearch/report.hpp"
#include "plansearch/site.hpp"
#include "studies/fit/fit_runs.hpp"
#include "studies/fit/kernel_fit.hpp"
#include "studies/validate/site_fit.hpp"

namespace plansearch {

struct FitFindings {
  std::string base;
  std::vector<std::string> files;
  std::vector<std::string> remarks;
  KernelFit kernels;                  ///< `groups` empty: nothing was measured, or refused
  FitRuns runs;                       ///< `runs` empty: none given, or refused
  std::vector<std::size_t> outliers;  ///< among the runs
  std::optional<SiteFit> site;
  SiteEffect typical;
  std::string separating;             ///< the column that separates scattered runs
  std::optional<FitRefusal> refused;  ///< nothing is written
};

/// Sentences that stand both in the provenance of the profile and in the report.
[[nodiscard]] std::string site_summary(const FitFindings& findings);
[[nodiscard]] std::string group_summary(const KernelGroupFit& group);

/// SVG: the measured rows of every class of kernels over their predictions, and what is left over.
[[nodiscard]] std::string fit_plot(const KernelFit& fit);

/// Format::Table or Format::Json; InputError for the others.
[[nodiscard]] std::string render_fit(const FitFindings& findings, Format format);

}  // namespace plansearch
