// SPDX-License-Identifier: Apache-2.0
// A hardware profile with rates and a site of its own, from measured runs, kernels and messages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evidence/evidence.hpp"
#include "measure/fit/fit_tables.hpp"
#include "measure/fit/kernel_fit.hpp"
#include "measure/sample_file.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/kernel_curves.hpp"
#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/site.hpp"

namespace plansearch {

struct FitRun {
  std::string place;  ///< file and id
  RunRecord run;
  Seconds predicted;         ///< at factor 1
  double log = 0.0;          ///< ln(measured / predicted)
  StepTimeBreakdown step{};  ///< as predicted
};

struct FitRuns {
  std::vector<FitRun> runs;
  std::vector<std::string> unused;  ///< rows without a time or a prediction, with the reason
  std::string framework;
  std::string precision;
};

/// The measured runs of a fit.
struct FitSources {
  std::vector<std::string> tables;
  std::vector<std::string> logs;   ///< of training programs
  std::vector<std::string> plans;  ///< of the logs: none, one for all, or one for each
  std::string base;                ///< profile that is like the machine
};

/// Every run on `machine`, whose own site does not count. InputError for anything wrong
/// in a file, FitRefusal for runs that are not of one machine, framework and precision.
[[nodiscard]] FitRuns read_fit_runs(const FitSources& sources, const Cluster& machine,
                                    const ShippedData& data, int threads);

/// A part of a step (step_part), as runs show it.
struct PartFit {
  std::string_view part;
  double least = 0.0;  ///< of its shares in the runs
  double most = 0.0;
  double factor = 1.0;     ///< what it takes over its prediction at factor 1
  double deviation = 0.0;  ///< how far ln(factor) may be off
  bool separated = false;  ///< the runs say more of it than that it is like the others
};

/// Parts of a step that runs depend on, each with a factor of its own.
struct PartsFit {
  std::vector<double>
      factors;  ///< of all parts, over that of the site; empty: one factor is as good
  std::vector<PartFit> parts;  ///< those in the runs
  double error_of_one = 0.0;   ///< mean error of a run left out, by one factor
  double error = 0.0;          ///< the same by parts
};

/// The posterior of the factors of parts: a site's prior, parts that err as in trials. Where runs left out
/// are predicted no better than by one factor, there are no factors.
[[nodiscard]] PartsFit fit_parts(const std::vector<FitRun>& runs, const SitePopulation& population,
                                 double site_factor);

/// "tp: 1 in 3 runs at x1.10, 2 in 3 at x1.45": the column whose cells separate the runs best;
/// empty where none does.
[[nodiscard]] std::string separating_column(const std::vector<FitRun>& runs);

struct FitRequest {
  std::vector<std::string>
      tables;  ///< samples; CSV of runs, kernels, collectives; logs of nccl-tests
  std::vector<std::string> plans;  ///< of the logs of training programs
  std::string base;                ///< profile that is like the machine; empty: samples describe it
  std::string fresh;               ///< name of the new profile; empty: the stem of `out`
  std::string out;                 ///< the profile to write
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
  PartsFit parts;
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

/// A change of another profile says what it changes, a profile of its own all constants.
enum class WrittenKeys : std::uint8_t { Changed, All };

/// "{launch: 2 us, ...}".
[[nodiscard]] std::string matmul_keys(const MatmulCurve& curve);
[[nodiscard]] std::string attention_keys(const AttentionCurve& curve);
[[nodiscard]] std::string stream_keys(const StreamCurve& curve);

/// One entry of a list of evidence, with the end of its line.
[[nodiscard]] std::string evidence_entry(std::string_view fields, std::string_view evidence,
                                         std::string_view source);
/// "plansearch fit a.csv: ...; like B otherwise"; an empty base is none.
[[nodiscard]] std::string source_of(const KernelGroupFit& group, const std::string& base);

/// "  kernels: ..." of an accelerator; empty where the fit has none. `like` names the accelerator
/// whose fractions hold otherwise; empty: none.
[[nodiscard]] std::string kernels_section(const KernelFit& fit, WrittenKeys keys,
                                          const std::string& like = {});
/// "software: ..." that makes a fitted kernel of attention the machine's; empty where none can
/// train.
[[nodiscard]] std::string software_section(const KernelFit& fit);
/// The entries of its `provenance` list that belong to the section.
[[nodiscard]] std::string kernels_provenance(const KernelFit& fit, const std::string& base);
/// "    link: {...}" of a tier that the fit moved; empty for others.
[[nodiscard]] std::string link_lines(const KernelFit& fit, const std::string& tier,
                                     const std::string& base);

[[nodiscard]] std::vector<std::string> names_of(const std::vector<std::string>& paths);

/// A machine without a base, as its samples show it before any fit.
struct NewMachine {
  std::string name;  ///< of the profile
  io::SampledMachine sampled;
  std::string shipped;  ///< the accelerator of that name; empty: none
  std::string donor{};  ///< an accelerator whose fractions hold where nothing was measured
  std::string link{};   ///< a shipped link that messages follow, before its constants are fitted
  std::map<std::string, double> peaks;  ///< FLOP/s by format, just above the fastest product
  double memory_rate = 0.0;             ///< B/s, just above the fastest pass
  double link_rate = 0.0;  ///< B/s of a rank, just above the fastest message; 0: no message
  std::map<std::string, double> host_rates;  ///< B/s by direction
};

/// Throws FitRefusal for samples of several machines, and without products or passes over memory.
[[nodiscard]] NewMachine new_machine(const std::string& name,
                                     const std::vector<io::SampleFile>& files,
                                     const ShippedData& data);

/// Whether samples are of messages within a node.
[[nodiscard]] bool has_link(const NewMachine& machine);

/// The cluster before the fit; every constant that products, passes and messages move is there.
[[nodiscard]] Cluster starting_cluster(const NewMachine& machine, const ShippedData& data);

/// The whole profile with the constants of the fit, each with its evidence.
[[nodiscard]] std::string new_profile_text(const NewMachine& machine, const KernelFit& fit);

}  // namespace plansearch
