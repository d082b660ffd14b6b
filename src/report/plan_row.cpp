// SPDX-License-Identifier: Apache-2.0
#include "report/plan_row.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/training.hpp"

namespace plansearch {

std::int64_t whole_bytes(Bytes bytes) {
  constexpr double kMost = 9e18;  // of an integer of 64 bits
  return std::llround(std::min(bytes.value(), kMost));
}

namespace {

using Json = nlohmann::ordered_json;

/// By stage, where the degrees do not say them.
Json layers_json(const PlanSummary& plan) {
  if (plan.written.empty()) return nullptr;
  return array_of(plan.written, [&](const StageDescription& stage) -> Json {
    return layers_of(stage, *plan.network);
  });
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

Json plan_row(const QuestionReport& question, const PlanReport& plan, RowKind kind) {
  Json row = Json::object();
  if (kind == RowKind::Ranked) {
    row["rank"] = plan.rank;
    row["tie_with_previous"] = plan.ties.with_previous;
    row["tie_with_first"] = plan.ties.with_first;
    row["variant_of"] = or_null(plan.variant_of);
  }
  row.update(identity_json(question));
  Json config = to_json(plan.plan);
  config.erase("order");
  config.erase("stages");
  config.erase("placements");
  config.erase("assign");
  row.update(config);
  row["layers"] = layers_json(plan.plan);
  row["step_time_s"] = plan.estimate.step.total().value();
  row["step_time_p10_s"] = plan.p10.value();
  row["step_time_p90_s"] = plan.p90.value();
  row["tokens_per_s"] = plan.tokens_per_s;
  row["mfu"] = plan.mfu;
  row["hfu"] = plan.hfu;
  row["peak_memory_bytes"] = whole_bytes(plan.estimate.memory.total());
  row["memory_risk"] = plan.memory_risk;
  row["memory_verdict"] = std::string(to_text(plan.memory_fit));
  row["exposed_communication_s"] = plan.estimate.step.exposed_total().value();
  row["bubble_s"] = plan.estimate.step.bubble.value();
  if (const auto cost = training_cost(question, plan)) {
    const Json training = object_of(training_columns(), *cost);
    for (const auto& item : training.items()) row["training_" + item.key()] = item.value();
  }
  return row;
}

}  // namespace plansearch
