// SPDX-License-Identifier: Apache-2.0
// Computes: the site of a profile from measured runs, and the text of that profile.
// Source: studies/site_fit.hpp; validation/sites.yaml for the prior.
// Assumes: one machine, framework and precision; anything else is refused.
// Units: ratios.
// Checked by: tests/cli/cli_test.py
#include "studies/fit_profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/units.hpp"
#include "evaluate/site_population.hpp"
#include "io/plan_text.hpp"
#include "plansearch/error.hpp"
#include "report/text_table.hpp"
#include "studies/fit_runs.hpp"
#include "studies/site_fit.hpp"

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

std::string runs_table(const FitRuns& runs, const std::vector<std::size_t>& outliers) {
  TextTable table({{"run", Align::Left},
                   {"model", Align::Left},
                   {"GPUs"},
                   {"measured"},
                   {"at factor 1"},
                   {"ratio"},
                   {"", Align::Left}});
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const FitRun& fit = runs.runs[i];
    const bool odd = std::find(outliers.begin(), outliers.end(), i) != outliers.end();
    table.add_row({fit.place, fit.run.model, fmt::format("{}", fit.run.gpus),
                   to_text(*fit.run.step_time), to_text(fit.predicted),
                   fmt::format("{:.3f}", std::exp(fit.log)),
                   odd ? "contradicts the others: left out" : ""});
  }
  std::string text = table.text();
  for (const std::string& row : runs.unused) text += fmt::format("not used: {}\n", row);
  return text;
}

std::string refusal(const std::string& reason, const std::string& remedy) {
  return fmt::format("no fit: {}\nhint: {}\n", reason, remedy);
}

/// What the profile's provenance and the report both say.
std::string summary_of(const SiteFit& fit, const SiteEffect& typical, std::size_t all) {
  std::string text = fmt::format(
      "{} of {} runs: a step takes {:.3f} of its prediction at factor 1 (a typical site {:.3f}), "
      "known to {:.1f} %; single runs differ by {:.1f} %",
      fit.kept.size(), all, fit.effect.factor, typical.factor, 100.0 * fit.effect.spread,
      100.0 * fit.effect.scatter);
  return text;
}

std::string profile_text(const FitRequest& request, const FitRuns& runs, const SiteFit& fit,
                         const std::string& summary) {
  const std::string name = fs::path(request.out).stem().string();
  std::error_code error;
  const bool is_file = fs::is_regular_file(request.base, error);
  const std::string base = is_file ? fs::absolute(request.base).string() : request.base;
  std::vector<std::string> tables;
  for (const std::string& table : request.tables) {
    tables.push_back(fs::path(table).filename().string());
  }
  return fmt::format(
      "# written by plansearch fit\n"
      "schema: plansearch/profile/v1\n"
      "name: {}\n"
      "description: {}\n"
      "like: {}\n"
      "site: {{name: {}, framework: {}, rows: {}, factor: {:.6g}, spread: {:.6g}, scatter: "
      "{:.6g}}}\n"
      "provenance:\n"
      "  - fields: [site]\n"
      "    evidence: measured\n"
      "    source: {}\n",
      io::in_quotes(name), io::in_quotes(fmt::format("{} with a site of its own", request.base)),
      io::in_quotes(base), io::in_quotes(name), io::in_quotes(runs.framework), fit.kept.size(),
      fit.effect.factor, fit.effect.spread, fit.effect.scatter,
      io::in_quotes(fmt::format("plansearch fit {}, {}, {}: {}", fmt::join(tables, " "),
                                runs.framework, runs.precision.empty() ? "bf16" : runs.precision,
                                summary)));
}

std::string accepted_report(const FitRuns& runs, const SiteFit& fit, const SiteEffect& typical,
                            const std::string& summary) {
  std::string text = "\n" + summary + "\n";
  text += fmt::format(
      "what changes: predictions {:+.1f} %; their spread from the site {:.1f} % instead of {:.1f} "
      "%\n",
      100.0 * (fit.effect.factor / typical.factor - 1.0), 100.0 * fit.effect.spread,
      100.0 * typical.spread);
  if (fit.effect.scatter <= kLargeScatter) return text;
  std::vector<FitRun> kept;
  for (const std::size_t run : fit.kept) kept.push_back(runs.runs[run]);
  const std::string column = separating_column(kept);
  text += fmt::format("the runs scatter by more than {:.0f} %: p10 - p90 is wider for it; {}\n",
                      100.0 * kLargeScatter, column.empty() ? "no column separates them" : column);
  return text;
}

}  // namespace

FitAnswer fit_profile(const FitRequest& request, const ShippedData& data) {
  require_new(request);
  const Cluster base = data.cluster(request.base);
  const auto read = read_fit_runs(request.tables, base, data, request.threads);
  if (const auto* mix = std::get_if<MixedRuns>(&read))
    return {refusal(mix->reason, mix->remedy), {}};
  const auto& runs = std::get<FitRuns>(read);
  std::vector<double> logs;
  for (const FitRun& fit : runs.runs) logs.push_back(fit.log);
  const SiteTable sites = data.sites();
  const SitePopulation population = population_of(sites);
  const auto fitted = fit_site(logs, population);
  if (const auto* refused = std::get_if<SiteFitRefusal>(&fitted)) {
    return {runs_table(runs, refused->outliers) + "\n" +
                refusal(refused->reason,
                        "add warm runs of the same machine, framework and precision, one line "
                        "each, or look at those that contradict the others"),
            {}};
  }
  const auto& fit = std::get<SiteFit>(fitted);
  const SiteEffect typical = typical_site(population);
  const std::string summary = summary_of(fit, typical, runs.runs.size());
  return {runs_table(runs, fit.outliers) + accepted_report(runs, fit, typical, summary),
          profile_text(request, runs, fit, summary)};
}

}  // namespace plansearch
