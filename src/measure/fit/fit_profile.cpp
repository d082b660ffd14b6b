// SPDX-License-Identifier: Apache-2.0
// Kernels and links are corrected first, the site is what is then left of the runs.
#include "measure/fit/fit_profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "evaluate/answer/site_population.hpp"
#include "io/document/file.hpp"
#include "io/plan/plan_document.hpp"
#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

namespace fs = std::filesystem;

std::string accelerator_text(const KernelFit& fit, const std::string& base) {
  const std::string kernels = kernels_section(fit, WrittenKeys::Changed) + concurrency_section(fit);
  if (kernels.empty()) return {};
  return fmt::format("accelerator:\n  name: {}\n{}  provenance:\n{}",
                     io::in_quotes(fit.cluster.accelerator.name), kernels,
                     kernels_provenance(fit, base));
}

std::string tiers_text(const KernelFit& fit, const std::string& base) {
  std::string text;
  for (const std::string& tier : fit.tiers) {
    text += fmt::format("  - name: {}\n{}", io::in_quotes(tier), link_lines(fit, tier, base));
  }
  return text.empty() ? text : "tiers:\n" + text;
}

std::string parts_entry(const PartsFit& parts) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < parts.factors.size(); ++i)
    texts.push_back(fmt::format("{}: {:.4g}", step_part(i), parts.factors[i]));
  return texts.empty() ? "" : fmt::format(", parts: {{{}}}", fmt::join(texts, ", "));
}

std::string site_text(const FitFindings& findings, const std::string& name) {
  if (!findings.site) return {};
  const SiteEffect& effect = findings.site->effect;
  const FitRuns& runs = findings.runs;
  return fmt::format(
      "site: {{name: {}, framework: {}, rows: {}, factor: {:.6g}, spread: {:.6g}, scatter: "
      "{:.6g}{}}}\n"
      "provenance:\n"
      "  - {}",
      io::in_quotes(name), io::in_quotes(runs.framework), findings.site->kept.size(), effect.factor,
      effect.spread, effect.scatter, parts_entry(findings.parts),
      evidence_entry(
          "site", "measured",
          fmt::format("plansearch fit {}, {}, {}: {}", fmt::join(names_of(findings.files), " "),
                      runs.framework, runs.precision.empty() ? "bf16" : runs.precision,
                      site_summary(findings))));
}

std::string name_of(const FitRequest& request) {
  return request.fresh.empty() ? fs::path(request.out).stem().string() : request.fresh;
}

std::string changed_profile_text(const FitRequest& request, const FitFindings& findings) {
  std::error_code error;
  const bool is_file = fs::is_regular_file(request.base, error);
  const std::string base = is_file ? fs::absolute(request.base).string() : request.base;
  std::vector<std::string> own;
  const KernelFit& kernels = findings.kernels;
  const auto fitted = [&](std::string_view part) {
    return std::ranges::any_of(kernels.groups,
                               [&](const KernelGroupFit& group) { return group.part == part; });
  };
  if (!kernels.formats.empty()) own.emplace_back("matrix products");
  if (!kernels.attentions.empty()) own.emplace_back("attention");
  if (fitted("stream")) own.emplace_back("passes over memory");
  if (fitted("overlap")) own.emplace_back("overlap");
  if (!kernels.tiers.empty()) own.emplace_back("links");
  if (findings.site) own.emplace_back("a site");
  return fmt::format(
             "# written by plansearch fit\n"
             "schema: plansearch/profile/v1\n"
             "name: {}\n"
             "description: {}\n"
             "like: {}\n",
             io::in_quotes(name_of(request)),
             io::in_quotes(
                 fmt::format("{} with {} of its own", request.base, fmt::join(own, ", "))),
             io::in_quotes(base)) +
         software_section(kernels) + accelerator_text(kernels, findings.base) +
         tiers_text(kernels, findings.base);
}

/// The machine that samples are of, where nothing else is.
struct Start {
  Cluster cluster;
  std::optional<NewMachine> fresh;
};

std::string profile_text(const FitRequest& request, const FitFindings& findings,
                         const Start& start) {
  const std::string text = start.fresh ? new_profile_text(*start.fresh, findings.kernels)
                                       : changed_profile_text(request, findings);
  return text + site_text(findings, name_of(request));
}

/// The shipped link whose law the messages follow best; empty: none of them.
std::string nearest_link(const NewMachine& machine, const FitRequest& request,
                         const ShippedData& data) {
  const SitePopulation population = population_of(data.sites());
  std::string nearest;
  double least = 0.0;
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(data.directory() / "hardware_profiles/links")) {
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  }
  std::ranges::sort(names);
  for (const std::string& name : names) {
    check_stop();
    NewMachine tried = machine;
    tried.link = name;
    const Cluster cluster = starting_cluster(tried, data);
    const FitTables tables = read_fit_tables(request.tables, cluster, data);
    const auto error = link_error(tables.kernels, cluster, population);
    if (!error || (!nearest.empty() && *error >= least)) continue;
    nearest = name;
    least = *error;
  }
  return nearest;
}

Start start_of(const FitRequest& request, const ShippedData& data) {
  if (!request.base.empty()) return {data.cluster(request.base), std::nullopt};
  std::vector<io::SampleFile> files;
  for (const std::string& path : request.tables) {
    const std::string text = io::read_file(path, io::kLargestSampleFile);
    if (io::is_sample_file(text)) files.push_back(io::parse_samples(text, path));
  }
  if (files.empty()) {
    throw InputError({}, "no profile that is like the machine: --base is missing",
                     "name one with --base (plansearch list hw); without one, a fit needs samples "
                     "of plansearch calibrate");
  }
  NewMachine fresh = new_machine(name_of(request), files, data);
  if (has_link(fresh)) fresh.link = nearest_link(fresh, request, data);
  Cluster cluster = starting_cluster(fresh, data);
  return {std::move(cluster), std::move(fresh)};
}

void read_runs_of(const FitTables& tables, const Cluster& machine, const ShippedData& data,
                  const FitRequest& request, FitFindings& findings) {
  findings.runs = read_fit_runs({tables.runs, tables.logs, request.plans, request.base}, machine,
                                data, request.threads);
  std::vector<double> logs;
  for (const FitRun& fit : findings.runs.runs) logs.push_back(fit.log);
  const SitePopulation population = population_of(data.sites());
  const auto fitted = fit_site(logs, population);
  if (const auto* refused = std::get_if<SiteFitRefusal>(&fitted)) {
    findings.outliers = refused->outliers;
    throw FitRefusal{refused->reason,
                     "add warm runs of the same machine, framework and precision, one line "
                     "each, or check those that contradict the others"};
  }
  findings.site = std::get<SiteFit>(fitted);
  findings.outliers = findings.site->outliers;
  std::vector<FitRun> kept;
  for (const std::size_t run : findings.site->kept) kept.push_back(findings.runs.runs[run]);
  if (findings.site->effect.scatter > kLargeScatter) findings.separating = separating_column(kept);
  findings.parts = fit_parts(kept, population, findings.site->effect.factor);
}

void find(const FitRequest& request, const ShippedData& data, const Start& start,
          FitFindings& findings) {
  const Cluster& base = start.cluster;
  const FitTables tables = read_fit_tables(request.tables, base, data);
  findings.remarks = tables.remarks;
  if (tables.mixed) throw FitRefusal(*tables.mixed);
  const SitePopulation population = population_of(data.sites());
  findings.typical = typical_site(population);
  findings.kernels = fit_kernels(tables.kernels, base, population,
                                 start.fresh ? Carried::WholeCurve : Carried::Rates);
  fit_overlap(tables.singles, findings.kernels);
  if (!tables.runs.empty() || !tables.logs.empty()) {
    read_runs_of(tables, findings.kernels.cluster, data, request, findings);
  } else if (base.site) {
    throw FitRefusal{
        fmt::format("the site of {} was fitted to runs as its kernels and links were before",
                    base.name),
        "give the table of those runs too"};
  }
}

}  // namespace

FitAnswer fit_profile(const FitRequest& request, const ShippedData& data) {
  FitFindings findings;
  findings.base = request.base;
  findings.files = request.tables;
  Start start;
  try {
    start = start_of(request, data);
    find(request, data, start, findings);
  } catch (const FitRefusal& refusal) {
    findings.refused = refusal;
  }
  std::string report = render_fit(findings, request.format);
  std::string plot = fit_plot(findings.kernels);
  if (findings.refused) return {std::move(report), {}, std::move(plot)};
  return {std::move(report), profile_text(request, findings, start), std::move(plot)};
}

}  // namespace plansearch
