// SPDX-License-Identifier: Apache-2.0
// A hardware profile with rates and a site of its own, from measured runs, kernels and messages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evidence/evidence.hpp"
#include "measure/fit/fit_tables.hpp"
#include "measure/fit/kernel_fit.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/site.hpp"

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

struct FitRequest {
  std::vector<std::string>
      tables;         ///< samples; CSV of runs, kernels, collectives; logs of nccl-tests
  std::string base;   ///< profile that is like the machine; empty: samples describe it
  std::string fresh;  ///< name of the new profile; empty: the stem of `out`
  std::string out;    ///< the profile to write
  int threads = 1;
  Format format = Format::Table;  ///< of the report
};

struct FitAnswer {
  std::string report;   ///< what was seen and what follows
  std::string profile;  ///< the text of the new profile; empty: refused, `report` says why
  std::string plot;     ///< SVG of kernels and links
};

/// Kernels and links first; the factor of the site is that of the runs as they are predicted with
/// them. InputError for anything wrong in a file, and for an output that is one of the inputs.
[[nodiscard]] FitAnswer fit_profile(const FitRequest& request, const ShippedData& data);

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

/// Sentences that the provenance of the profile and the report both have.
[[nodiscard]] std::string site_summary(const FitFindings& findings);

/// SVG: the measured rows of every class of kernels over their predictions, and what is left over.
[[nodiscard]] std::string fit_plot(const KernelFit& fit);

/// Format::Table or Format::Json; InputError for the others.
[[nodiscard]] std::string render_fit(const FitFindings& findings, Format format);

}  // namespace plansearch
