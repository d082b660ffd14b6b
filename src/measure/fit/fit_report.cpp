// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/fit_profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "plansearch/error.hpp"
#include "report/columns.hpp"
#include "report/page/page.hpp"

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

const Columns<CurveChange>& change_columns() {
  using Change = const CurveChange&;
  static const Columns<CurveChange> kColumns{
      {"part", &CurveChange::part, {"measured", Align::Left}},
      {"constant", &CurveChange::quantity, {"constant", Align::Left}},
      {"unit", [](Change c) { return or_null(c.unit); }},
      {"base", &CurveChange::base, {"base"}, [](Change c) { return value_text(c, c.base); }},
      {"own", &CurveChange::own, {"own"}, [](Change c) { return value_text(c, c.own); }},
      {"",
       {},
       {"change"},
       [](Change c) {
         return c.base == 0.0 ? std::string("new")
                              : fmt::format("{:+.1f} %", 100.0 * (c.own / c.base - 1.0));
       }},
      {"spread", &CurveChange::spread, {"known to"}, [](Change c) {
         return fmt::format("{:.1f} %", 100.0 * c.spread);
       }}};
  return kColumns;
}

/// A run, and whether it contradicts the others.
struct JudgedRun {
  const FitRun& fit;
  bool odd;
};

const Columns<JudgedRun>& run_columns() {
  using Run = const JudgedRun&;
  static const Columns<JudgedRun> kColumns{
      {"run", [](Run r) { return Json(r.fit.place); }, {"run", Align::Left}},
      {"", {}, {"model", Align::Left}, [](Run r) { return r.fit.run.model; }},
      {"", {}, {"GPUs"}, [](Run r) { return fmt::format("{}", r.fit.run.gpus); }},
      {"measured_step_time_s",
       [](Run r) { return Json(r.fit.run.step_time->value()); },
       {"measured"},
       [](Run r) { return *r.fit.run.step_time; }},
      {"predicted_step_time_s",
       [](Run r) { return Json(r.fit.predicted.value()); },
       {"at factor 1"},
       [](Run r) { return r.fit.predicted; }},
      {"ratio",
       [](Run r) { return Json(std::exp(r.fit.log)); },
       {"ratio"},
       [](Run r) { return fmt::format("{:.3f}", std::exp(r.fit.log)); }},
      {"outlier", &JudgedRun::odd, {"remark", Align::Left}, [](Run r) {
         return r.odd ? "contradicts the others: left out" : "";
       }}};
  return kColumns;
}

std::vector<JudgedRun> judged_runs(const FitFindings& findings) {
  std::vector<JudgedRun> runs;
  for (std::size_t i = 0; i < findings.runs.runs.size(); ++i) {
    const auto& outliers = findings.outliers;
    runs.push_back({findings.runs.runs[i], std::ranges::find(outliers, i) != outliers.end()});
  }
  return runs;
}

std::string kernels_text(const KernelFit& kernels) {
  if (kernels.groups.empty()) return {};
  std::vector<CurveChange> changes;
  for (const KernelGroupFit& group : kernels.groups) {
    changes.insert(changes.end(), group.changes.begin(), group.changes.end());
  }
  std::string text = table_of(change_columns(), changes).text();
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

/// A difference between runs that separates a part from the others, by its name.
std::string run_that_separates(std::string_view part) {
  static const std::map<std::string_view, std::string_view> kRuns{
      {"recompute", "another --recompute"},  {"bubble", "other stages, or more micro-batches"},
      {"optimizer", "a much smaller batch"}, {"host", "smaller micro-batches"},
      {"tensor", "other tensor ranks"},      {"data", "a much smaller batch, or other data ranks"},
      {"context", "other context ranks"},    {"expert", "other expert ranks"},
      {"pipeline", "other stages"},          {"offload", "nothing in memory of the host"}};
  const auto found = kRuns.find(part);
  return std::string(found == kRuns.end() ? "other sizes" : found->second);
}

const Columns<PartFit>& part_columns() {
  using Part = const PartFit&;
  static const Columns<PartFit> kColumns{
      {"part", &PartFit::part, {"part of a step", Align::Left}},
      {"least_share", &PartFit::least},
      {"most_share",
       &PartFit::most,
       {"share"},
       [](Part p) { return fmt::format("{:.0f} - {:.0f} %", 100.0 * p.least, 100.0 * p.most); }},
      {"factor",
       &PartFit::factor,
       {"factor"},
       [](Part p) { return fmt::format("{:.3f}", p.factor); }},
      {"deviation",
       &PartFit::deviation,
       {"known to"},
       [](Part p) { return fmt::format("{:.1f} %", 100.0 * p.deviation); }},
      {"separated", &PartFit::separated, {"remark", Align::Left}, [](Part p) {
         return p.separated
                    ? ""
                    : fmt::format("not separated; a run with {} would", run_that_separates(p.part));
       }}};
  return kColumns;
}

std::string parts_text(const PartsFit& fit) {
  if (fit.parts.size() < 2) return {};
  return "\n" + table_of(part_columns(), fit.parts).text() +
         fmt::format(
             "a run left out is predicted to {:.1f} % by parts, {:.1f} % if all are alike: "
             "{}\n",
             100.0 * fit.error, 100.0 * fit.error_of_one,
             fit.factors.empty() ? "the profile has one factor"
                                 : "the profile has those of parts besides");
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
  text += parts_text(findings.parts);
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
  const std::string runs =
      findings.runs.runs.empty() ? "" : table_of(run_columns(), judged_runs(findings)).text();
  if (!text.empty() && !runs.empty()) text += "\n";
  text += runs;
  for (const std::string& row : findings.runs.unused) text += fmt::format("not used: {}\n", row);
  text += site_text(findings);
  if (!findings.refused) return text;
  if (!text.empty()) text += "\n";
  return text +
         fmt::format("no fit: {}\nhint: {}\n", findings.refused->reason, findings.refused->remedy);
}

Json held_out_json(const std::optional<HeldOut>& held_out) {
  if (!held_out) return nullptr;
  const Residual& residual = held_out->residual;
  return {{"median_error", held_out->error},
          {"p10", residual.p10},
          {"p50", residual.p50},
          {"p90", residual.p90}};
}

Json kernels_json(const KernelFit& kernels) {
  return array_of(kernels.groups, [](const KernelGroupFit& group) -> Json {
    return {{"part", group.part},
            {"rows", group.rows},
            {"scatter", group.scatter},
            {"median_error_before", group.error_before},
            {"median_error_after", group.error_after},
            {"held_out", held_out_json(group.held_out)},
            {"changes", objects_of(change_columns(), group.changes)},
            {"outliers", group.outliers}};
  });
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
          {"separating", or_null(findings.separating)},
          {"parts", objects_of(part_columns(), findings.parts.parts)},
          {"error_of_one_factor", findings.parts.error_of_one},
          {"error_by_parts", findings.parts.error},
          {"has_parts", !findings.parts.factors.empty()}};
}

std::string render_json(const FitFindings& findings) {
  std::vector<std::string> unused = findings.kernels.unused;
  unused.insert(unused.end(), findings.runs.unused.begin(), findings.runs.unused.end());
  Json refused = nullptr;
  if (findings.refused) {
    refused = {{"reason", findings.refused->reason}, {"remedy", findings.refused->remedy}};
  }
  const Json answer{{"schema", "plansearch/fit/v1"},
                    {"base", or_null(findings.base)},
                    {"files", findings.files},
                    {"kernels", kernels_json(findings.kernels)},
                    {"runs", objects_of(run_columns(), judged_runs(findings))},
                    {"site", site_json(findings)},
                    {"unused", unused},
                    {"remarks", findings.remarks},
                    {"refused", std::move(refused)}};
  return json_text(answer, 1) + "\n";
}

/// Points of the rows of a group over their predicted times, in order.
page::Curve row_points(const KernelGroupFit& group, double (*height)(const SeenRow& row)) {
  page::Curve points{.name = "rows", .line = false};
  for (const SeenRow& row : group.seen) {
    points.points.push_back(
        {std::exp(row.predicted), height(row),
         fmt::format("predicted {}, measured {}", to_text(Seconds(std::exp(row.predicted))),
                     to_text(Seconds(std::exp(row.measured))))});
  }
  std::ranges::sort(points.points, [](const auto& a, const auto& b) { return a.x < b.x; });
  return points;
}

page::Figure rows_figure(const KernelGroupFit& group, std::string_view alt, std::string_view y_name,
                         std::vector<page::Curve> curves, page::NumberText y_text) {
  return page::curves({.alt = fmt::format("{}: {}", group.part, alt),
                       .curves = std::move(curves),
                       .x_name = "predicted",
                       .y_name = fmt::format("{}: {}", group.part, y_name),
                       .x_text = [](double x) { return to_text(Seconds(x)); },
                       .y_text = std::move(y_text),
                       .scale = page::Scale::Logarithmic});
}

/// Measured times over predicted ones, and their ratio.
std::vector<page::Figure> group_figures(const KernelGroupFit& group) {
  page::Curve times = row_points(group, [](const SeenRow& row) { return std::exp(row.measured); });
  page::Curve ratios =
      row_points(group, [](const SeenRow& row) { return std::exp(row.measured - row.predicted); });
  const double first = times.points.front().x;
  const double last = times.points.back().x;
  const auto level = [&](std::string name, double at, bool dotted) {
    return page::Curve{std::move(name), {{first, at, {}}, {last, at, {}}}, false, dotted};
  };
  std::vector<page::Curve> lines{std::move(ratios), level("exact", 1.0, false)};
  if (group.held_out) {
    const auto& residual = group.held_out->residual;
    lines.push_back(level("p10 of rows left out", std::exp(residual.p10), true));
    lines.push_back(level("p90 of rows left out", std::exp(residual.p90), true));
  }
  page::Curve exact{"exact", {{first, first, {}}, {last, last, {}}}, false};
  return {
      rows_figure(group, "measured over predicted times, both axes logarithmic", "measured",
                  {std::move(times), std::move(exact)},
                  [](double y) { return to_text(Seconds(y)); }),
      rows_figure(group, "measured time as a multiple of the predicted one, both axes logarithmic",
                  "measured / predicted", std::move(lines),
                  [](double y) { return fmt::format("{:.2f}", y); })};
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

std::string fit_plot(const KernelFit& fit) {
  std::vector<page::Figure> figures;
  for (const KernelGroupFit& group : fit.groups) {
    if (group.seen.empty()) continue;
    for (page::Figure& figure : group_figures(group)) figures.push_back(std::move(figure));
  }
  return page::svg_file(figures);
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
