// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "studies/validate/error_columns.hpp"
#include "studies/validate/run_report.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

Json ranking_json(const RankingSummary& ranking) {
  return {{"sweeps", ranking.sweeps},
          {"median_regret", if_any(ranking.sweeps, ranking.median_regret)},
          {"mean_regret", if_any(ranking.sweeps, ranking.mean_regret)},
          {"worst_regret", if_any(ranking.sweeps, ranking.worst_regret)},
          {"tau_sweeps", ranking.tau_sweeps},
          {"mean_tau", if_any(ranking.tau_sweeps, ranking.mean_tau)},
          {"median_tau", if_any(ranking.tau_sweeps, ranking.median_tau)},
          {"top1", ranking.top1},
          {"top3", ranking.top3}};
}

Json feasibility_json(const FeasibilitySummary& f) {
  return {{"measured", f.measured},
          {"measured_called_illegal", f.measured_illegal},
          {"measured_called_out_of_memory", f.measured_too_large},
          {"failed", f.failed},
          {"failed_called_illegal", f.failed_illegal},
          {"failed_called_out_of_memory", f.failed_too_large},
          {"failed_called_feasible", f.failed_called_feasible}};
}

/// null where no failure was recorded.
Json risk_json(const RiskSummary& risk) {
  if (risk.rows == 0) return nullptr;
  Json bins = array_of(risk.bins, [&](const RiskBin& bin) -> Json {
    return {{"low", bin.low},
            {"high", bin.high},
            {"rows", bin.rows},
            {"stated", if_any(bin.rows, bin.stated)},
            {"failed", bin.failed}};
  });
  return {{"rows", risk.rows},
          {"failed", risk.failed},
          {"brier", risk.brier},
          {"brier_base_rate", risk.brier_base},
          {"brier_hard_limit", risk.brier_hard},
          {"bins", std::move(bins)}};
}

Json alike_json(const AlikeSummary& alike) {
  return {{"groups", alike.groups},
          {"mean_absolute_error", if_any(alike.groups, alike.mean)},
          {"median_of_mean_errors", if_any(alike.groups, alike.median)},
          {"bias", if_any(alike.groups, alike.bias)},
          {"within_p10_p90", if_any(alike.groups, alike.within)},
          {"groups_below_40_percent_inside", if_any(alike.groups, alike.rarely_inside)}};
}

Json at_sites_json(const GroupSummary& group) {
  Json json = Json::object();
  for (const SiteView view : kSiteViews) {
    const SiteErrors& at = group.at_sites.at(static_cast<std::size_t>(view));
    Json errors = object_of(time_error_columns(), at.errors);
    errors["sources_alike"] = alike_json(at.by_source);
    errors["sites_alike"] = alike_json(at.by_site);
    json[key_of(view)] = std::move(errors);
  }
  return json;
}

}  // namespace

Json summary_json(const std::string& set, const GroupSummary& group) {
  Json memory = Json::object();
  for (std::size_t kind = 0; kind < kMemoryKindCount; ++kind) {
    if (group.memory[kind].rows == 0) continue;
    memory[std::string(to_text(static_cast<MemoryKind>(kind)))] =
        object_of(error_columns(), group.memory[kind]);
  }
  return {{"set", set},
          {"by", group.by},
          {"value", group.by == "all" ? Json(nullptr) : Json(group.value)},
          {"rows", group.rows},
          {"inexpressible", group.inexpressible},
          {"step_time", object_of(time_error_columns(), group.step_time)},
          {"at_sites", at_sites_json(group)},
          {"memory", std::move(memory)},
          {"ranking", ranking_json(group.ranking)},
          {"feasibility", feasibility_json(group.feasibility)},
          {"memory_risk", risk_json(group.risk)}};
}

}  // namespace plansearch
