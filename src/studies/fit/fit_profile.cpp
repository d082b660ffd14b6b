// SPDX-License-Identifier: Apache-2.0
// Kernels and links are corrected first, the site is what is then left of the runs.
#include "studies/fit/fit_profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "evaluate/answer/site_population.hpp"
#include "io/plan_document.hpp"
#include "io/profile_reader.hpp"
#include "plansearch/error.hpp"
#include "studies/fit/fit_report.hpp"
#include "studies/fit/fit_tables.hpp"

namespace plansearch {
namespace {

namespace fs = std::filesystem;

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

/// Nothing that was read is written over.
void require_new(const FitRequest& request) {
  std::vector<std::string> inputs = request.tables;
  inputs.push_back(request.base);
  for (const std::string& input : inputs) {
    if (!same_file(input, request.out)) continue;
    throw InputError({request.out, 0, 0}, "the profile would be written over what it is made from",
                     "name another file with --out");
  }
}

std::vector<std::string> names_of(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(fs::path(path).filename().string());
  return names;
}

std::string measured_entry(const std::string& fields, const std::string& source) {
  return fmt::format("{{fields: [{}], evidence: measured, source: {}}}", fields,
                     io::in_quotes(source));
}

std::string source_of(const KernelGroupFit& group, const std::string& base) {
  return fmt::format("plansearch fit {}: {}; like {} otherwise",
                     fmt::join(names_of(group.files), " "), group_summary(group), base);
}

const KernelGroupFit& group_named(const KernelFit& fit, const std::string& part) {
  for (const KernelGroupFit& group : fit.groups) {
    if (group.part == part) return group;
  }
  throw InternalError("no group of this name");
}

std::string matmul_text(const KernelFit& fit, const std::string& base) {
  if (fit.formats.empty()) return {};
  std::vector<std::string> curves;
  std::vector<std::string> provenance;
  for (const std::string& format : fit.formats) {
    const KernelGroupFit& group = group_named(fit, "matmul " + format);
    std::vector<std::string> keys;
    for (const CurveChange& change : group.changes) {
      keys.push_back(fmt::format("{}: {:.6g}", change.quantity, change.own));
    }
    const KernelCurves& kernels = fit.cluster.accelerator.kernels;
    const auto type = parse_data_type(format);
    const auto& curve =
        type ? kernels.matmul.at(static_cast<std::size_t>(*type)) : kernels.matmul_fp8_block;
    if (const auto& residual = curve.value().residual) {
      keys.push_back(fmt::format("residual: {{p10: {:.6g}, p50: {:.6g}, p90: {:.6g}}}",
                                 residual->p10, residual->p50, residual->p90));
    }
    curves.push_back(fmt::format("      {}: {{{}}}\n", format, fmt::join(keys, ", ")));
    provenance.push_back("    - " +
                         measured_entry("kernels.matmul." + format, source_of(group, base)) + "\n");
  }
  return fmt::format("accelerator:\n  name: {}\n  kernels:\n    matmul:\n{}  provenance:\n{}",
                     io::in_quotes(fit.cluster.accelerator.name), fmt::join(curves, ""),
                     fmt::join(provenance, ""));
}

std::string tiers_text(const KernelFit& fit, const std::string& base) {
  if (fit.tiers.empty()) return {};
  std::string text = "tiers:\n";
  for (const LinkTier& tier : fit.cluster.tiers) {
    if (std::find(fit.tiers.begin(), fit.tiers.end(), tier.name) == fit.tiers.end()) continue;
    std::string curve = io::curve_text(tier.curve);
    curve.pop_back();  // the brace, behind the provenance
    text += fmt::format("  - name: {}\n    {}: {}, provenance: [{}]}}\n", io::in_quotes(tier.name),
                        tier.is_fabric() ? "fabric" : "link", curve,
                        measured_entry("curve", source_of(group_named(fit, "collectives"), base)));
  }
  return text;
}

std::string site_text(const FitFindings& findings, const std::string& name) {
  if (!findings.site) return {};
  const SiteEffect& effect = findings.site->effect;
  const FitRuns& runs = findings.runs;
  return fmt::format(
      "site: {{name: {}, framework: {}, rows: {}, factor: {:.6g}, spread: {:.6g}, scatter: "
      "{:.6g}}}\n"
      "provenance:\n"
      "  - {}\n",
      io::in_quotes(name), io::in_quotes(runs.framework), findings.site->kept.size(), effect.factor,
      effect.spread, effect.scatter,
      measured_entry("site", fmt::format("plansearch fit {}, {}, {}: {}",
                                         fmt::join(names_of(findings.files), " "), runs.framework,
                                         runs.precision.empty() ? "bf16" : runs.precision,
                                         site_summary(findings))));
}

std::string profile_text(const FitRequest& request, const FitFindings& findings) {
  const std::string name = fs::path(request.out).stem().string();
  std::error_code error;
  const bool is_file = fs::is_regular_file(request.base, error);
  const std::string base = is_file ? fs::absolute(request.base).string() : request.base;
  std::vector<std::string> own;
  if (!findings.kernels.formats.empty()) own.emplace_back("matrix products");
  if (!findings.kernels.tiers.empty()) own.emplace_back("links");
  if (findings.site) own.emplace_back("a site");
  return fmt::format(
             "# written by plansearch fit\n"
             "schema: plansearch/profile/v1\n"
             "name: {}\n"
             "description: {}\n"
             "like: {}\n",
             io::in_quotes(name),
             io::in_quotes(
                 fmt::format("{} with {} of its own", request.base, fmt::join(own, ", "))),
             io::in_quotes(base)) +
         matmul_text(findings.kernels, findings.base) +
         tiers_text(findings.kernels, findings.base) + site_text(findings, name);
}

void read_runs_of(const FitTables& tables, const Cluster& machine, const ShippedData& data,
                  int threads, FitFindings& findings) {
  findings.runs = read_fit_runs(tables.runs, machine, data, threads);
  std::vector<double> logs;
  for (const FitRun& fit : findings.runs.runs) logs.push_back(fit.log);
  const auto fitted = fit_site(logs, population_of(data.sites()));
  if (const auto* refused = std::get_if<SiteFitRefusal>(&fitted)) {
    findings.outliers = refused->outliers;
    throw FitRefusal{refused->reason,
                     "add warm runs of the same machine, framework and precision, one line "
                     "each, or check those that contradict the others"};
  }
  findings.site = std::get<SiteFit>(fitted);
  findings.outliers = findings.site->outliers;
  if (findings.site->effect.scatter > kLargeScatter) {
    std::vector<FitRun> kept;
    for (const std::size_t run : findings.site->kept) kept.push_back(findings.runs.runs[run]);
    findings.separating = separating_column(kept);
  }
}

void find(const FitRequest& request, const ShippedData& data, FitFindings& findings) {
  const Cluster base = data.cluster(request.base);
  const FitTables tables = read_fit_tables(request.tables, base, data);
  findings.remarks = tables.remarks;
  if (tables.mixed) throw FitRefusal(*tables.mixed);
  const SitePopulation population = population_of(data.sites());
  findings.typical = typical_site(population);
  findings.kernels = fit_kernels(tables.kernels, base, population);
  if (!tables.runs.empty()) {
    read_runs_of(tables, findings.kernels.cluster, data, request.threads, findings);
  } else if (base.site) {
    throw FitRefusal{
        fmt::format("the site of {} was fitted to runs as its kernels and links were before",
                    base.name),
        "give the table of those runs too"};
  }
}

}  // namespace

FitAnswer fit_profile(const FitRequest& request, const ShippedData& data) {
  require_new(request);
  FitFindings findings;
  findings.base = request.base;
  findings.files = request.tables;
  try {
    find(request, data, findings);
  } catch (const FitRefusal& refusal) {
    findings.refused = refusal;
  }
  std::string report = render_fit(findings, request.format);
  if (findings.refused) return {std::move(report), {}};
  return {std::move(report), profile_text(request, findings)};
}

}  // namespace plansearch
