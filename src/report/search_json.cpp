// SPDX-License-Identifier: Apache-2.0
// The answer of a search as one JSON document.

#include "report/plan_fields.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

Json question_json(const QuestionReport& question) {
  Json json = identity_json(question);
  json["framework_validation"] = or_null(question.framework_validation);
  json["parameters"] = question.parameters;
  json["memory_capacity_bytes"] = whole_bytes(question.memory_capacity);
  json["memory_risk_accepted"] = question.memory_risk;
  json["gpu_power_w"] = or_null(question.gpu_power_watt);
  json["gpu_price_usd_per_h"] = or_null(question.gpu_price_usd_per_hour);
  json["tokens"] = or_null(question.tokens);
  json["site"] = {{"name", question.site.name},
                  {"factor", question.site.factor},
                  {"spread", question.site.spread},
                  {"basis", question.site.basis}};
  json["settings"] = array_of(question.settings, [&](const SettingReport& s) -> Json {
    return {{"key", s.key}, {"value", s.value}, {"origin", s.origin}};
  });
  return json;
}

Json counts_json(const CountsReport& counts) {
  Json rejected = Json::object();
  for (const auto& [reason, plans] : counts.rejected) rejected[reason] = plans;
  return {{"space", counts.space},           {"total", counts.total},
          {"evaluated", counts.evaluated},   {"simulated", counts.simulated},
          {"pruned", counts.pruned},         {"subtrees", counts.subtrees},
          {"classes", counts.classes},       {"unvisited", counts.unvisited},
          {"rejected", std::move(rejected)}, {"left_out", counts.left_out}};
}

/// The best plan without the features of plan 1.
Json without_json(const std::optional<WithoutReport>& without) {
  if (!without) return nullptr;
  const bool found = without->plan.has_value();
  return {{"features", without->features},
          {"config", found ? to_json(*without->plan) : Json(nullptr)},
          {"step_time_s", found ? Json(without->step.value()) : Json(nullptr)},
          {"over_first", found ? Json(without->over_first) : Json(nullptr)}};
}

}  // namespace

std::string framework_text(const QuestionReport& question) {
  return question.framework + (question.framework_validation.empty() ? " (unvalidated)" : "");
}

std::string beyond_line(const QuestionReport& question) {
  return question.beyond_machine.empty() ? std::string() : question.beyond_machine + "\n";
}

Json identity_json(const QuestionReport& question) {
  Json identity{{"model", question.model},
                {"hardware", question.hardware},
                {"accelerator", question.accelerator},
                {"framework", question.framework},
                {"precision", question.precision},
                {"seq_len", question.seq_len},
                {"global_batch", question.global_batch},
                {"gpus", question.gpus}};
  if (question.lora_rank) {
    identity["lora_rank"] = *question.lora_rank;
    identity["lora_targets"] = question.lora_targets;
  }
  return identity;
}

Json to_json(const SearchReport& report) {
  Json json{{"schema", "plansearch/result/v1"}, {"question", question_json(report.question)}};
  json["feasible"] = !report.plans.empty() && report.misses.empty();
  json["plans"] = array_of(report.plans, [&](const PlanReport& plan) -> Json {
    return plan_json(report.question, plan);
  });
  json["admitted"] = std::string(to_text(report.admitted));
  json["faster_tight_plan"] =
      report.faster_tight ? plan_json(report.question, *report.faster_tight) : Json(nullptr);
  json["beyond_framework"] = array_of(report.beyond.plans, [&](const BeyondReport& one) -> Json {
    return {{"what", one.what},
            {"gain", one.gain},
            {"gain_p10", one.least},
            {"gain_p90", one.most},
            {"runs_in", one.runs_in},
            {"command", one.command},
            {"plan", plan_json(report.question, one.plan)}};
  });
  json["without_features"] = without_json(report.without);
  json["published"] = array_of(report.published, [](const PublishedReport& plan) -> Json {
    const bool known = plan.reason.empty();
    return {{"name", plan.name},
            {"publisher", plan.publisher},
            {"source", plan.source},
            {"date", plan.date},
            {"plan", or_null(plan.words)},
            {"reason", or_null(plan.reason)},
            {"step_time_s", known ? Json(plan.step.value()) : Json(nullptr)},
            {"peak_memory_bytes", known ? Json(whole_bytes(plan.memory)) : Json(nullptr)},
            {"fits", plan.fits},
            {"rank", plan.rank > 0 ? Json(plan.rank) : Json(nullptr)},
            {"over_first", known ? Json(plan.over_first) : Json(nullptr)},
            {"published_step_time_s", plan.measured ? Json(plan.measured->value()) : Json(nullptr)},
            {"published_tokens_per_s_per_gpu",
             plan.measured_rate > 0.0 ? Json(plan.measured_rate) : Json(nullptr)},
            {"published_step_error", plan.measured_rate > 0.0 ? Json(plan.error) : Json(nullptr)}};
  });
  constexpr std::string_view kFrontKeys[] = {"config", "step_time_s", "peak_memory_bytes"};
  json["pareto_front"] = array_of(report.front, [&](const PlanReport& plan) {
    return plan_json(report.question, plan, kFrontKeys);
  });
  json["nearest_misses"] = array_of(report.misses, [&](const NearMissReport& miss) -> Json {
    return {{"config", to_json(miss.plan)},
            {"needed_bytes", whole_bytes(miss.memory.total())},
            {"limit_bytes", whole_bytes(miss.limit)},
            {"memory", memory_json(miss.memory)}};
  });
  json["remedies"] = report.remedies;
  json["advice"] = report.advice;
  json["counts"] = counts_json(report.counts);
  json["optimality"] = report.optimality;
  json["evidence"] = report.evidence;
  return json;
}

}  // namespace plansearch
