// SPDX-License-Identifier: Apache-2.0
// Rows of one site, machine, framework and precision have one factor.
#include "studies/validate/fit_draws.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/hash.hpp"
#include "evaluate/answer/site_population.hpp"
#include "report/text_table.hpp"
#include "studies/validate/error_columns.hpp"
#include "studies/validate/site_fit.hpp"
#include "studies/validate/statistics.hpp"

namespace plansearch {
namespace {

/// ln(measured / predicted at factor 1) of a group, and what is known of sites without it.
struct Group {
  std::string name;
  SitePopulation population;
  std::vector<double> logs;
};

std::vector<Group> groups_of(const std::vector<PredictedRun>& runs, const SiteTable& sites,
                             const FitDraws& draws) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    const PredictedRun& run = runs[row];
    if (!run.has_both_times() || draws.excluded.contains(run.run.id)) continue;
    if (run.measured_mfu().value_or(1.0) >= draws.min_mfu) rows.push_back(row);
  }
  std::vector<Group> groups;
  for (const RowGroup& named : grouped(rows, [&](std::size_t row) {
         const auto& [run, predicted] = runs[row];
         return std::vector{fmt::format(
             "{}, {}, {}, {}", predicted.site.empty() ? run.cell("source") : predicted.site,
             run.hardware, run.framework, run.question.precision.value_or(""))};
       })) {
    const std::string& site = runs[named.rows.front()].predicted.site;
    const auto known = std::find_if(sites.begin(), sites.end(),
                                    [&](const MeasuredSite& other) { return other.name == site; });
    const std::string laboratory = known == sites.end() ? std::string() : known->laboratory;
    Group group{named.value, population_of(sites, laboratory), {}};
    for (const std::size_t row : named.rows) {
      const auto& [run, predicted] = runs[row];
      group.logs.push_back(std::log(*run.step_time / *predicted.tuned));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

/// Mean absolute error of a factor on the runs from `first` on.
double error_of(double factor, const std::vector<double>& logs, std::size_t first) {
  double sum = 0.0;
  for (std::size_t run = first; run < logs.size(); ++run) {
    sum += std::abs(factor / std::exp(logs[run]) - 1.0);
  }
  return sum / static_cast<double>(logs.size() - first);
}

FittedGroup fit_often(Group group, const FitDraws& draws) {
  FittedGroup fitted;
  fitted.name = group.name;
  fitted.rows = group.logs.size();
  const double typical = typical_site(group.population).factor;
  fitted.before = error_of(typical, group.logs, 0);
  std::mt19937_64 engine(content_hash(group.name));
  const auto seen = static_cast<std::size_t>(draws.runs);
  for (int draw = 0; draw < draws.repeat; ++draw) {
    // The first `seen` runs become a random choice of all.
    for (std::size_t run = 0; run < seen; ++run) {
      const std::size_t other = run + engine() % (group.logs.size() - run);
      std::swap(group.logs[run], group.logs[other]);
    }
    const auto fit = fit_site(std::span(group.logs).first(seen), group.population);
    const auto* accepted = std::get_if<SiteFit>(&fit);
    if (accepted == nullptr) fitted.refused += 1.0;
    fitted.after +=
        error_of(accepted == nullptr ? typical : accepted->effect.factor, group.logs, seen);
  }
  fitted.after /= draws.repeat;
  fitted.refused /= draws.repeat;
  return fitted;
}

double median_of(const std::vector<FittedGroup>& groups, double FittedGroup::*value) {
  std::vector<double> values;
  for (const FittedGroup& group : groups) values.push_back(group.*value);
  return median(std::move(values));
}

}  // namespace

double FitStudy::median_before() const {
  return median_of(groups, &FittedGroup::before);
}

double FitStudy::median_after() const {
  return median_of(groups, &FittedGroup::after);
}

double FitStudy::refused() const {
  std::vector<double> shares;
  for (const FittedGroup& group : groups) shares.push_back(group.refused);
  return mean(shares);
}

FitStudy study_fits(const std::vector<PredictedRun>& runs, const SiteTable& sites,
                    const FitDraws& draws) {
  FitStudy study{draws, {}};
  if (draws.runs == 0) return study;
  for (Group& group : groups_of(runs, sites, draws)) {
    if (group.logs.size() < static_cast<std::size_t>(draws.runs) + 2) continue;
    study.groups.push_back(fit_often(std::move(group), draws));
  }
  return study;
}

std::string fit_study_text(const FitStudy& study, int columns) {
  if (study.draws.runs == 0) return {};
  if (study.groups.empty()) {
    return fmt::format("\nno site, machine, framework and precision has {} rows to fit on {}\n",
                       study.draws.runs + 2, study.draws.runs);
  }
  TextTable table({{fmt::format("FITTED ON {} RUNS, error in %", study.draws.runs), Align::Left},
                   {"rows"},
                   {"before"},
                   {"after"},
                   {"refused"},
                   {"remark", Align::Left}});
  for (const FittedGroup& group : study.groups) {
    table.add_row({"  " + shortened(group.name), fmt::format("{}", group.rows),
                   percent_cell(group.before), percent_cell(group.after),
                   fmt::format("{:.0f}", 100.0 * group.refused), group.worse() ? "worse" : ""});
  }
  table.add_row({"median over groups (refused: mean)", fmt::format("{}", study.groups.size()),
                 percent_cell(study.median_before()), percent_cell(study.median_after()),
                 fmt::format("{:.0f}", 100.0 * study.refused()), ""});
  return "\n" + table.text(columns) +
         fmt::format(
             "  before: a typical site, the laboratory left out; after: what {} draws of {} runs "
             "leave on the others,\n  refused ones at the error before\n",
             study.draws.repeat, study.draws.runs);
}

}  // namespace plansearch
