// SPDX-License-Identifier: Apache-2.0
// JSON of a plan's configuration, as plan files have it, and of the other parts of a plan.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "plansearch/degree_table.hpp"
#include "report/capacity.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

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

/// The blocks of a chunk, as in plan files.
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
    const bool alike =
        std::ranges::all_of(values, [&](const Json& other) { return other == values.front(); });
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

Json goodput_json(const Goodput& goodput) {
  return {{"share", goodput.share},
          {"share_p10", goodput.p10},
          {"share_p90", goodput.p90},
          {"mtbf_s", goodput.mtbf.value()},
          {"checkpoint_bytes", whole_bytes(goodput.checkpoint)},
          {"write_s", goodput.write.value()},
          {"interval_s", goodput.interval.value()},
          {"spare_nodes", goodput.spare_nodes},
          {"gpu_mtbf_s", goodput.rests_on.gpu_mtbf.value()},
          {"restart_s", goodput.rests_on.restart.value()}};
}

Json reliability_json(const Reliability& reliability) {
  Json json{{"gpu_mtbf_s", reliability.gpu_mtbf.value()},
            {"spread", reliability.spread},
            {"restart_s", reliability.restart.value()},
            {"repair_s", reliability.repair.value()},
            {"storage_bytes_per_s_per_node", reliability.storage_per_node.value()},
            {"records", Json::array()}};
  for (const ReliabilityRecord& record : reliability.records) {
    json["records"].push_back({{"name", record.name},
                               {"gpu_mtbf_s", record.gpu_mtbf().value()},
                               {"source", record.source}});
  }
  return json;
}

namespace {

/// "one in 38 k hours of a GPU, as BLOOM on 384 A100 had it"
std::string rate_text(const Reliability& rests) {
  const std::string rate =
      fmt::format("one in {} hours of a GPU", count_text(rests.gpu_mtbf.value() / 3600.0));
  if (rests.records.empty()) return rate;
  if (rests.records.size() == 1) return rate + ", as published of " + rests.records.front().name;
  return fmt::format("{}, from {} published records", rate, rests.records.size());
}

}  // namespace

std::string goodput_line(const CapacityRow& row) {
  const Goodput& goodput = *row.plan.goodput;
  return fmt::format(
      "goodput on {}: an interruption every {} ({}; {} to restart), "
      "checkpoints of {} written in {} every {}; spares for 95 % of the time: {} "
      "node{}\n",
      size_text(row), duration_text(goodput.mtbf), rate_text(goodput.rests_on),
      duration_text(goodput.rests_on.restart), to_text(goodput.checkpoint),
      duration_text(goodput.write), duration_text(goodput.interval), goodput.spare_nodes,
      goodput.spare_nodes == 1 ? "" : "s");
}

}  // namespace plansearch
