// SPDX-License-Identifier: Apache-2.0
#include "report/plan_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "plansearch/degree_table.hpp"
#include "report/plan_cells.hpp"
#include "report/training.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

Json step_json(const StepTimeBreakdown& step) {
  Json json = Json::object();
  for (const auto& part : parts_of(step)) {
    json[Json::json_pointer("/" + part.key)] = part.value.value();
  }
  return json;
}

/// The parts add up to whole_bytes(memory.total()): what rounding leaves goes to the activations.
Json memory_json(const MemoryBreakdown& memory) {
  Json json = Json::object();
  std::int64_t others = -whole_bytes(memory.activations);
  for (const auto& part : parts_of(memory)) {
    json[part.key] = whole_bytes(part.value);
    others += whole_bytes(part.value);
  }
  json["activations_bytes"] = std::max<std::int64_t>(0, whole_bytes(memory.total()) - others);
  return json;
}

Json communication_json(const std::vector<PricedCommunication>& lines) {
  return array_of(lines, [](const PricedCommunication& line) -> Json {
    return {{"what", line.what},
            {"purpose", std::string(to_text(purpose_of(line.communication)))},
            {"kind", std::string(to_text(line.communication.kind))},
            {"axis", to_text(line.communication.axes)},
            {"group_size", line.communication.group_size},
            {"bytes", whole_bytes(line.bytes)},
            {"wire_bytes", whole_bytes(line.wire_bytes)},
            {"count", line.count},
            {"time_s", line.time.value()},
            {"exposed_s", line.exposed.value()}};
  });
}

Json stages_json(const std::vector<StageReport>& stages) {
  return array_of(stages, [](const StageReport& s) -> Json {
    return {{"stage", s.stage},
            {"first_rank", s.first_rank},
            {"layers", s.layers},
            {"forward_s", s.forward.value()},
            {"backward_s", s.backward.value()},
            {"weight_gradient_s", s.weight_gradient.value()},
            {"recompute_s", s.recompute.value()},
            {"busy_s", s.busy.value()},
            {"waiting_s", s.waiting.value()},
            {"reduction_s", s.reduction.value()},
            {"optimizer_s", s.optimizer.value()},
            {"edge_bytes", whole_bytes(s.edge_bytes)},
            {"edge_s", s.edge_time.value()},
            {"edge_leaves_node", s.edge_leaves_node},
            {"peak_memory_bytes", whole_bytes(s.memory)}};
  });
}

Json passes_json(const std::vector<PassReport>& passes) {
  return array_of(passes, [](const PassReport& pass) -> Json {
    return {{"pass", pass.name},
            {"moved", pass.moved},
            {"what", pass.moves},
            {"kept", pass.kept},
            {"step_time_before_s", pass.before.value()},
            {"step_time_after_s", pass.after.value()},
            {"buffer_bytes", whole_bytes(pass.slots)},
            {"peak_growth_bytes", whole_bytes(pass.peak)}};
  });
}

Json operators_json(const std::vector<OperatorReport>& operators) {
  return array_of(operators, [](const OperatorReport& o) -> Json {
    return {{"block", o.block},
            {"copies", o.copies},
            {"operator", o.name},
            {"forward_s", o.forward.value()},
            {"input_gradient_s", o.input_gradient.value()},
            {"weight_gradient_s", o.weight_gradient.value()},
            {"messages_s", o.messages.value()}};
  });
}

Json peak_json(const PeakReport& peak) {
  return {
      {"stage", peak.device},
      {"allocated_bytes", whole_bytes(peak.allocated)},
      {"reserved_bytes", whole_bytes(peak.reserved)},
      {"process_bytes", whole_bytes(peak.process)},
      {"held", array_of(peak.parts, [](const HeldPart& part) -> Json {
         return {{"what", part.what}, {"count", part.count}, {"bytes", whole_bytes(part.bytes)}};
       })}};
}

Json hidden_json(const std::vector<HiddenMessage>& messages) {
  return array_of(messages, [](const HiddenMessage& m) -> Json {
    return {{"block", m.block},         {"copies", m.copies},
            {"pass", m.pass},           {"what", m.what},
            {"kind", to_text(m.kind)},  {"repeated", m.repeated},
            {"time_s", m.time.value()}, {"exposed_s", m.exposed.value()},
            {"under", m.under}};
  });
}

Json redistributions_json(const std::vector<Redistribution>& all) {
  return array_of(all, [](const Redistribution& r) -> Json {
    Json path = array_of(r.path, [](const RedistributionHop& hop) -> Json {
      return {{"kind", std::string(to_text(hop.kind))},
              {"axis", hop.axes},
              {"group_size", hop.ranks},
              {"links", hop.links},
              {"bytes", whole_bytes(hop.bytes)},
              {"time_s", hop.time.value()},
              {"count", hop.count}};
    });
    return {{"what", r.what},
            {"from", r.from},
            {"to", r.to},
            {"pass", r.pass},
            {"alike", r.alike},
            {"path", std::move(path)},
            {"time_s", r.time().value()}};
  });
}

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

Json degree_json(const DegreeRow& row, int value) {
  switch (row.kind) {
    case DegreeKind::Number:
      return value;
    case DegreeKind::Switch:
      return value != 0;
    case DegreeKind::Word:
      break;
  }
  return value_text(row.degree, value);
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

/// What a chunk holds, as in plan files.
Json held_json(const std::vector<BlockRun>& chunk, const Network& network) {
  Json blocks = Json::array();
  for (const NamedBlocks& named : named_blocks(chunk, network)) {
    blocks.push_back({{"block", named.block}, {"count", named.count}});
  }
  return {{"blocks", std::move(blocks)}};
}

/// As in plan files: a result can be read back.
void add_shared(const PlanSummary& plan, Json& json) {
  if (!plan.shared.empty()) json["assign"] = {{{"of", plan.shared}, {"devices", "all"}}};
  if (!plan.window) return;
  if (plan.window->empty()) {
    json["order"]["window"] = true;
  } else {
    json["order"]["before"] = *plan.window;
  }
}

void add_stages(const PlanSummary& plan, Json& json) {
  if (plan.written.empty()) return;
  json["order"] = Json::object();
  if (!plan.window) {
    json["order"]["schedule"] =
        value_text(Degree::Schedule, static_cast<int>(plan.degrees.schedule));
  }
  json["order"]["micro_batches"] = plan.degrees.micro_batches;
  Json stages = Json::array();
  for (const StageDescription& written : plan.written) {
    Json stage = Json::object();
    for (const auto& chunk : written.chunks) {
      Json held = held_json(chunk, *plan.network);
      if (written.chunks.size() == 1)
        stage = std::move(held);
      else
        stage["chunks"].push_back(std::move(held));
    }
    stage["first_rank"] = *written.first_rank;
    for (const DegreeRow& row : degree_table()) {
      if (kPipelineDegrees.contains(row.degree)) continue;
      stage[std::string(row.key)] = degree_json(row, row.get(written.degrees));
    }
    stages.push_back(std::move(stage));
  }
  json["stages"] = std::move(stages);
}

Json factors_json(const FactorList& list) {
  Json factors = Json::array();
  for (const std::uint8_t factor : list) factors.push_back(fmt::format("t{}", factor));
  return factors;
}

Json entry_json(const PlacementEntry& entry) {
  Json json = Json::object();
  if (!entry.operators.empty()) json["operators"] = entry.operators;
  json["blocks"] = entry.blocks;
  Json layers =
      array_of(entry.layers, [&](const LayerRange& range) -> Json { return layers_text({range}); });
  if (!layers.empty()) json["layers"] = std::move(layers);
  json["cut"] = Json::object();
  for (const NamedCut& cut : entry.cut) {
    json["cut"][cut.dimension] = factors_json(cut.factors.value_or(FactorList{}));
  }
  if (entry.ring) {
    json["ring"] = {{"rows", entry.ring->rows}, {"factors", factors_json(entry.ring->factors)}};
  }
  Json squares = array_of(entry.squares, [&](const NamedSquare& square) -> Json {
    return {{"rows", factors_json(square.rows)},
            {"columns", factors_json(square.columns)},
            {"m", square.m},
            {"n", square.n},
            {"k", square.k}};
  });
  if (squares.size() == 1) json["square"] = squares.front();
  if (squares.size() > 1) json["square"] = std::move(squares);
  return json;
}

Json region_json(const PieceEntry& entry) {
  Json json{{"operators", entry.operators}, {"blocks", entry.blocks}};
  Json layers =
      array_of(entry.layers, [&](const LayerRange& range) -> Json { return layers_text({range}); });
  if (!layers.empty()) json["layers"] = std::move(layers);
  json["dimensions"] = entry.dimensions;
  json["pieces"] = entry.pieces;
  if (entry.recompute == PieceRecompute::RunAgain) json["recompute"] = true;
  return json;
}

/// As in plan files.
void add_placements(const PlanSummary& plan, Json& json) {
  if (!plan.placements) return;
  Json& placements = json["placements"];
  placements["factors"] = plan.placements->factors;
  placements["operators"] = Json::array();
  for (const auto& entry : plan.placements->operators) {
    placements["operators"].push_back(entry_json(entry));
  }
  placements["edges"] = Json::array();
  for (const auto& entry : plan.placements->edges) placements["edges"].push_back(entry_json(entry));
  for (const PieceEntry& entry : plan.placements->regions) {
    placements["regions"].push_back(region_json(entry));
  }
}

}  // namespace

Json to_json(const PlanSummary& plan) {
  const auto stages_or_one = [&](const auto& value) {
    Json values = Json::array();
    for (const PlanDegrees& stage : plan.stages) values.push_back(value(stage));
    const bool alike = std::all_of(values.begin(), values.end(),
                                   [&](const Json& other) { return other == values.front(); });
    return alike ? Json(value(plan.degrees)) : values;
  };
  Json json{{"gpus", plan.devices()},
            {"tp", stages_or_one([](const PlanDegrees& stage) { return stage.tensor(); })},
            {"micro_batches", plan.degrees.micro_batches},
            {"global_batch", plan.degrees.global_batch()}};
  for (const DegreeRow& row : degree_table()) {
    json[std::string(row.key)] =
        stages_or_one([&](const PlanDegrees& stage) { return degree_json(row, row.get(stage)); });
  }
  add_stages(plan, json);
  add_shared(plan, json);
  add_placements(plan, json);
  return json;
}

Json to_json(const PlanReport& plan) {
  Json json = {{"rank", plan.rank},
               {"tie_with_previous", plan.ties.with_previous},
               {"tie_with_first", plan.ties.with_first},
               {"variant_of", or_null(plan.variant_of)},
               {"config", to_json(plan.plan)},
               {"step_time_s", plan.estimate.step.total().value()},
               {"step_time_p10_s", plan.p10.value()},
               {"step_time_p90_s", plan.p90.value()},
               {"tokens_per_s", plan.tokens_per_s},
               {"mfu", plan.mfu},
               {"model_tflops_per_gpu", plan.model_rate_per_gpu.value() / 1e12},
               {"hfu", plan.hfu},
               {"hardware_tflops_per_gpu", plan.hardware_rate_per_gpu.value() / 1e12},
               {"peak_memory_bytes", whole_bytes(plan.estimate.memory.total())},
               {"peak_memory_stage", plan.estimate.worst_memory_stage},
               {"memory_risk", plan.memory_risk},
               {"memory_verdict", std::string(to_text(plan.memory_fit))},
               {"step", step_json(plan.estimate.step)},
               {"busiest_stage", plan.estimate.busiest_stage},
               {"imbalance_s", plan.estimate.imbalance.value()},
               {"stages", stages_json(plan.stages)},
               {"memory", memory_json(plan.estimate.memory)},
               {"communication", communication_json(plan.communication)},
               {"operators", operators_json(plan.operators)},
               {"hidden", hidden_json(plan.hidden)},
               {"peak", peak_json(plan.peak)},
               {"why", plan.why}};
  if (!plan.redistributions.empty()) {
    json["redistributions"] = redistributions_json(plan.redistributions);
  }
  if (plan.order) {
    json["found_order"] = {{"window_s", plan.order->window.value()},
                           {"bound_s", plan.order->bound.value()},
                           {"kept", plan.order->kept}};
  }
  if (plan.estimate.host_memory > Bytes(0)) {
    json["host_memory_bytes"] = whole_bytes(plan.estimate.host_memory);
  }
  if (plan.slow) {
    const Seconds slow = plan.estimate.step.total() + plan.slow->excess;
    json["slow_mode"] = {
        {"fabric", plan.slow->fabric}, {"share", plan.slow->share}, {"step_time_s", slow.value()}};
  }
  return json;
}

Json plan_json(const QuestionReport& question, const PlanReport& plan) {
  Json json = to_json(plan);
  if (plan.estimate.next_step_overlap > Seconds(0)) {
    json["next_step_overlap_s"] = plan.estimate.next_step_overlap.value();
  }
  if (!plan.passes.empty()) json["passes"] = passes_json(plan.passes);
  for (const PlanFeature& feature : plan.features) json["features"].push_back(feature.name);
  if (const auto cost = training_cost(question, plan))
    json["training"] = object_of(training_columns(), *cost);
  return json;
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

Json to_json(const SearchReport& report) {
  Json json{{"schema", "plansearch/result/v1"}, {"question", question_json(report.question)}};
  json["feasible"] = !report.plans.empty() && report.misses.empty();
  json["plans"] = array_of(report.plans, [&](const PlanReport& plan) -> Json {
    return plan_json(report.question, plan);
  });
  json["admitted"] = std::string(to_text(report.admitted));
  json["faster_tight_plan"] =
      report.faster_tight ? plan_json(report.question, *report.faster_tight) : Json(nullptr);
  json["beyond_framework"] = array_of(report.beyond, [&](const BeyondReport& beyond) -> Json {
    return {{"what", beyond.what}, {"plan", plan_json(report.question, beyond.plan)}};
  });
  json["without_features"] = without_json(report.without);
  json["published"] = array_of(report.published, [](const PublishedReport& plan) -> Json {
    const bool known = plan.reason.empty();
    return {
        {"name", plan.name},
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
        {"published_step_time_s", plan.measured ? Json(plan.measured->value()) : Json(nullptr)}};
  });
  json["pareto_front"] = array_of(report.front, [&](const PlanReport& plan) -> Json {
    return {{"config", to_json(plan.plan)},
            {"step_time_s", plan.estimate.step.total().value()},
            {"peak_memory_bytes", whole_bytes(plan.estimate.memory.total())}};
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
