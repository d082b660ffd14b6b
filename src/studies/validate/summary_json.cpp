// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/summary_json.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

Json if_any(std::size_t rows, double value) {
  return rows == 0 ? Json(nullptr) : Json(value);
}

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
  Json bins = Json::array();
  for (const RiskBin& bin : risk.bins) {
    bins.push_back({{"low", bin.low},
                    {"high", bin.high},
                    {"rows", bin.rows},
                    {"stated", if_any(bin.rows, bin.stated)},
                    {"failed", bin.failed}});
  }
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
  for (std::size_t view = 0; view < kSiteViewCount; ++view) {
    const SiteErrors& at = group.at_sites[view];
    Json errors = errors_json(at.errors);
    errors["within_p10_p90"] =
        if_any(at.errors.rows, static_cast<double>(at.within) /
                                   static_cast<double>(std::max<std::size_t>(1, at.errors.rows)));
    errors["sources_alike"] = alike_json(at.by_source);
    errors["sites_alike"] = alike_json(at.by_site);
    json[std::string(key_of(static_cast<SiteView>(view)))] = std::move(errors);
  }
  return json;
}

}  // namespace

Json errors_json(const ErrorSummary& e) {
  return {{"rows", e.rows},
          {"mean_absolute_error", if_any(e.rows, e.mean)},
          {"median_absolute_error", if_any(e.rows, e.median)},
          {"p90_absolute_error", if_any(e.rows, e.p90)},
          {"bias", if_any(e.rows, e.bias)}};
}

Json summary_json(const std::string& set, const GroupSummary& group) {
  Json json{{"set", set},
            {"by", group.by},
            {"value", group.by == "all" ? Json(nullptr) : Json(group.value)},
            {"rows", group.rows},
            {"inexpressible", group.inexpressible},
            {"step_time", errors_json(group.step_time)}};
  json["step_time"]["within_p10_p90"] =
      if_any(group.step_time.rows,
             static_cast<double>(group.within_interval) /
                 static_cast<double>(std::max<std::size_t>(1, group.step_time.rows)));
  json["at_sites"] = at_sites_json(group);
  Json memory = Json::object();
  for (std::size_t kind = 0; kind < kMemoryKindCount; ++kind) {
    if (group.memory[kind].rows == 0) continue;
    memory[std::string(to_text(static_cast<MemoryKind>(kind)))] = errors_json(group.memory[kind]);
  }
  json["memory"] = std::move(memory);
  json["ranking"] = ranking_json(group.ranking);
  json["feasibility"] = feasibility_json(group.feasibility);
  json["memory_risk"] = risk_json(group.risk);
  return json;
}

}  // namespace plansearch
