// SPDX-License-Identifier: Apache-2.0
#include "studies/fit/fit_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "plansearch/error.hpp"
#include "report/json_text.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownPlaces = 5;

std::string value_text(const CurveChange& change, double value) {
  if (change.unit == "s") return to_text(Seconds(value));
  if (change.unit == "byte_per_s") return to_text(Bandwidth(value));
  return fmt::format("{:.3f}", value);
}

/// The first few, and how many more.
std::string few(const std::vector<std::string>& places) {
  const auto shown = std::min(places.size(), kShownPlaces);
  std::string text = fmt::format("{}", fmt::join(places.begin(), places.begin() + shown, ", "));
  if (places.size() > shown) text += fmt::format(" and {} more", places.size() - shown);
  return text;
}

std::string kernels_text(const KernelFit& kernels) {
  if (kernels.groups.empty()) return {};
  TextTable table({{"measured", Align::Left},
                   {"constant", Align::Left},
                   {"base"},
                   {"own"},
                   {"change"},
                   {"known to"}});
  for (const KernelGroupFit& group : kernels.groups) {
    for (const CurveChange& change : group.changes) {
      table.add_row({change.part, change.quantity, value_text(change, change.base),
                     value_text(change, change.own),
                     fmt::format("{:+.1f} %", 100.0 * (change.own / change.base - 1.0)),
                     fmt::format("{:.1f} %", 100.0 * change.spread)});
    }
  }
  std::string text = table.text();
  for (const KernelGroupFit& group : kernels.groups) {
    text += group_summary(group) + "\n";
    if (!group.outliers.empty()) {
      text += fmt::format("  contradict the others, left out: {}\n", few(group.outliers));
    }
    if (group.scatter > kLargeScatter) {
      text += fmt::format("  the rows scatter by more than {:.0f} %: p10 - p90 is wider for it\n",
                          100.0 * kLargeScatter);
    }
  }
  return text;
}

std::string runs_text(const FitRuns& runs, const std::vector<std::size_t>& outliers) {
  if (runs.runs.empty()) return {};
  TextTable table({{"run", Align::Left},
                   {"model", Align::Left},
                   {"GPUs"},
                   {"measured"},
                   {"at factor 1"},
                   {"ratio"},
                   {"remark", Align::Left}});
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const FitRun& fit = runs.runs[i];
    const bool odd = std::find(outliers.begin(), outliers.end(), i) != outliers.end();
    table.add_row({fit.place, fit.run.model, fmt::format("{}", fit.run.gpus), *fit.run.step_time,
                   fit.predicted, fmt::format("{:.3f}", std::exp(fit.log)),
                   odd ? "contradicts the others: left out" : ""});
  }
  return table.text();
}

std::string site_text(const FitFindings& findings) {
  if (!findings.site) return {};
  const SiteEffect& own = findings.site->effect;
  std::string text = "\n" + site_summary(findings) + "\n";
  text += fmt::format(
      "what changes: predictions {:+.1f} %; their spread from the site {:.1f} % instead of {:.1f} "
      "%\n",
      100.0 * (own.factor / findings.typical.factor - 1.0), 100.0 * own.spread,
      100.0 * findings.typical.spread);
  if (own.scatter <= kLargeScatter) return text;
  return text + fmt::format(
                    "the runs scatter by more than {:.0f} %: p10 - p90 is wider for it; {}\n",
                    100.0 * kLargeScatter,
                    findings.separating.empty() ? "no column separates them" : findings.separating);
}

std::string render_text(const FitFindings& findings) {
  std::string text;
  for (const std::string& remark : findings.remarks) text += "note: " + remark + "\n";
  text += kernels_text(findings.kernels);
  if (!findings.kernels.unused.empty()) {
    text += fmt::format("not used: {}\n", few(findings.kernels.unused));
  }
  const std::string runs = runs_text(findings.runs, findings.outliers);
  if (!text.empty() && !runs.empty()) text += "\n";
  text += runs;
  for (const std::string& row : findings.runs.unused) text += fmt::format("not used: {}\n", row);
  text += site_text(findings);
  if (!findings.refused) return text;
  if (!text.empty()) text += "\n";
  return text +
         fmt::format("no fit: {}\nhint: {}\n", findings.refused->reason, findings.refused->remedy);
}

Json kernels_json(const KernelFit& kernels) {
  Json groups = Json::array();
  for (const KernelGroupFit& group : kernels.groups) {
    Json changes = Json::array();
    for (const CurveChange& change : group.changes) {
      changes.push_back({{"part", change.part},
                         {"constant", change.quantity},
                         {"unit", change.unit.empty() ? Json(nullptr) : Json(change.unit)},
                         {"base", change.base},
                         {"own", change.own},
                         {"spread", change.spread}});
    }
    groups.push_back({{"part", group.part},
                      {"rows", group.rows},
                      {"scatter", group.scatter},
                      {"median_error_before", group.error_before},
                      {"median_error_after", group.error_after},
                      {"changes", std::move(changes)},
                      {"outliers", group.outliers}});
  }
  return groups;
}

Json runs_json(const FitFindings& findings) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < findings.runs.runs.size(); ++i) {
    const FitRun& fit = findings.runs.runs[i];
    const bool odd =
        std::find(findings.outliers.begin(), findings.outliers.end(), i) != findings.outliers.end();
    runs.push_back({{"run", fit.place},
                    {"measured_step_time_s", fit.run.step_time->value()},
                    {"predicted_step_time_s", fit.predicted.value()},
                    {"ratio", std::exp(fit.log)},
                    {"outlier", odd}});
  }
  return runs;
}

Json site_json(const FitFindings& findings) {
  if (!findings.site) return nullptr;
  const SiteEffect& own = findings.site->effect;
  return {{"framework", findings.runs.framework},
          {"rows", findings.site->kept.size()},
          {"factor", own.factor},
          {"spread", own.spread},
          {"scatter", own.scatter},
          {"typical_factor", findings.typical.factor},
          {"typical_spread", findings.typical.spread},
          {"separating", findings.separating.empty() ? Json(nullptr) : Json(findings.separating)}};
}

std::string render_json(const FitFindings& findings) {
  std::vector<std::string> unused = findings.kernels.unused;
  unused.insert(unused.end(), findings.runs.unused.begin(), findings.runs.unused.end());
  Json refused = nullptr;
  if (findings.refused) {
    refused = {{"reason", findings.refused->reason}, {"remedy", findings.refused->remedy}};
  }
  const Json answer{{"schema", "plansearch/fit/v1"},
                    {"base", findings.base},
                    {"files", findings.files},
                    {"kernels", kernels_json(findings.kernels)},
                    {"runs", runs_json(findings)},
                    {"site", site_json(findings)},
                    {"unused", unused},
                    {"remarks", findings.remarks},
                    {"refused", std::move(refused)}};
  return json_text(answer, 1) + "\n";
}

}  // namespace

std::string site_summary(const FitFindings& findings) {
  const SiteEffect& own = findings.site.value().effect;
  return fmt::format(
      "{} of {} runs: a step takes {:.3f} of its prediction at factor 1 (a typical site {:.3f}), "
      "known to {:.1f} %; single runs differ by {:.1f} %",
      findings.site->kept.size(), findings.runs.runs.size(), own.factor, findings.typical.factor,
      100.0 * own.spread, 100.0 * own.scatter);
}

std::string group_summary(const KernelGroupFit& group) {
  return fmt::format(
      "{}: {} of {} rows, off by {:.1f} % (median) before, {:.1f} % now; single rows scatter by "
      "{:.1f} %",
      group.part, group.rows, group.rows + group.outliers.size(), 100.0 * group.error_before,
      100.0 * group.error_after, 100.0 * group.scatter);
}

std::string render_fit(const FitFindings& findings, Format format) {
  switch (format) {
    case Format::Table:
      return render_text(findings);
    case Format::Json:
      return render_json(findings);
    case Format::JsonLines:
    case Format::Csv:
      break;
  }
  throw InputError({}, "a fit answers as a table or as one JSON document",
                   "--format table or --format json");
}

}  // namespace plansearch
