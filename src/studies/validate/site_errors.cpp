// SPDX-License-Identifier: Apache-2.0
// Computes: errors and coverage of step times at a row's own site, a typical one, and one without
//           the row's laboratory.
// Source: definitions in docs/validate.md.
// Assumes: a row without a known site has no error at its own.
// Units: ratios and counts.
// Checked by: tests/unit/studies/site_errors_test.cpp
#include "studies/validate/site_errors.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

using Rows = std::vector<std::size_t>;

const std::optional<SitedTime>& at(const RunPrediction& prediction, SiteView view) {
  return prediction.at_sites.at(static_cast<std::size_t>(view));
}

struct Judged {
  ErrorSummary errors;
  std::size_t within = 0;
};

class Judge {
 public:
  Judge(const std::vector<RunRecord>& runs, const std::vector<RunPrediction>& predictions,
        SiteView view)
      : runs_(runs), predictions_(predictions), view_(view) {}

  [[nodiscard]] Judged judge(std::span<const std::size_t> rows) const {
    Judged judged;
    std::vector<double> errors;
    for (const std::size_t row : rows) {
      const auto& predicted = at(predictions_[row], view_);
      if (!predicted) continue;
      const Seconds measured = *runs_[row].step_time;
      errors.push_back(predicted->time / measured - 1.0);
      if (measured >= predicted->p10 && measured <= predicted->p90) ++judged.within;
    }
    judged.errors = summarise_errors(errors);
    return judged;
  }

  /// Groups by a name; rows without one are in none.
  [[nodiscard]] AlikeSummary alike(std::span<const std::size_t> rows, std::size_t fewest,
                                   const std::function<std::string(std::size_t)>& name) const {
    std::map<std::string, Rows> groups;
    for (const std::size_t row : rows) {
      const std::string group = name(row);
      if (!group.empty()) groups[group].push_back(row);
    }
    AlikeSummary summary;
    std::vector<double> means;
    for (const auto& [unused, members] : groups) {
      const Judged judged = judge(members);
      if (judged.errors.rows < fewest) continue;
      const double inside =
          static_cast<double>(judged.within) / static_cast<double>(judged.errors.rows);
      means.push_back(judged.errors.mean);
      summary.mean += judged.errors.mean;
      summary.bias += judged.errors.bias;
      summary.within += inside;
      constexpr double kRarely = 0.4;
      summary.rarely_inside += inside < kRarely ? 1.0 : 0.0;
    }
    summary.groups = means.size();
    if (means.empty()) return summary;
    const auto count = static_cast<double>(means.size());
    for (double* value : {&summary.mean, &summary.bias, &summary.within, &summary.rarely_inside}) {
      *value /= count;
    }
    std::sort(means.begin(), means.end());
    summary.median = quantile(means, 0.5);
    return summary;
  }

 private:
  const std::vector<RunRecord>& runs_;
  const std::vector<RunPrediction>& predictions_;
  SiteView view_;
};

}  // namespace

std::string_view to_text(SiteView view) {
  switch (view) {
    case SiteView::Own:
      return "own site";
    case SiteView::Typical:
      return "typical";
    case SiteView::LeftOut:
      return "left out";
  }
  throw InternalError("unknown view of sites");
}

std::string_view key_of(SiteView view) {
  switch (view) {
    case SiteView::Own:
      return "own_site";
    case SiteView::Typical:
      return "typical";
    case SiteView::LeftOut:
      return "left_out";
  }
  throw InternalError("unknown view of sites");
}

std::array<SiteErrors, kSiteViewCount> summarise_sites(
    const std::vector<RunRecord>& runs, const std::vector<RunPrediction>& predictions,
    std::span<const std::size_t> rows) {
  std::array<SiteErrors, kSiteViewCount> views;
  for (std::size_t view = 0; view < kSiteViewCount; ++view) {
    const Judge judge(runs, predictions, static_cast<SiteView>(view));
    const Judged judged = judge.judge(rows);
    views[view].errors = judged.errors;
    views[view].within = judged.within;
    views[view].by_source =
        judge.alike(rows, 1, [&](std::size_t row) { return runs[row].cell("source"); });
    views[view].by_site =
        judge.alike(rows, kFewestSiteRows, [&](std::size_t row) { return predictions[row].site; });
  }
  return views;
}

}  // namespace plansearch
