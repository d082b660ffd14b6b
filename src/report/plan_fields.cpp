// SPDX-License-Identifier: Apache-2.0
#include "report/plan_fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "report/plan_cells.hpp"
#include "report/training.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;
using Shown = const ShownPlan&;
using Degrees = const PlanDegrees&;

Json absent() {
  return Json::value_t::discarded;
}

/// Nothing for an empty part.
template <typename Part, typename Value>
Json unless_empty(const Part& part, const Value& value) {
  return part.empty() ? absent() : value(part);
}

std::string number(int value) {
  return fmt::format("{}", value);
}

/// "2 (4, 8 tie)", "2 (4-20 tie)": with the numbers of its variants.
std::string chunks_cell(const PlanReport& plan) {
  std::set<int> others;
  const PlanDegrees& own = plan.plan.degrees;
  for (const PlanDegrees& variant : plan.variants) {
    const bool twin = variant.zero != own.zero || variant.context_kind != own.context_kind;
    if (!twin) others.insert(variant.chunks);
  }
  others.erase(own.chunks);
  constexpr std::size_t kListed = 2;
  std::string text = across_stages(plan.plan, [](Degrees p) { return number(p.chunks); });
  if (others.size() > kListed) {
    text += fmt::format(" ({}-{} tie)", *others.begin(), *others.rbegin());
  } else if (!others.empty()) {
    text += fmt::format(" ({} tie)", fmt::join(others, ", "));
  }
  return text;
}

bool has_chunks(const PlanReport& plan) {
  const auto chunked = [](Degrees d) { return d.chunks > 1; };
  return any_stage(plan.plan, chunked) || std::ranges::any_of(plan.variants, chunked);
}

bool is_any(Degrees /*variant*/, Degrees /*plan*/) {
  return true;
}

/// "0 (1 tie)": with the cells of those variants that are meant.
std::string tied_cell(const PlanReport& plan, std::string (*cell)(Degrees),
                      bool (*is_meant)(Degrees, Degrees) = is_any) {
  std::string text = across_stages(plan.plan, cell);
  std::set<std::string> others;
  for (const PlanDegrees& variant : plan.variants) {
    if (is_meant(variant, plan.plan.degrees)) others.insert(cell(variant));
  }
  others.erase(text);
  if (!others.empty()) text += fmt::format(" ({} tie)", fmt::join(others, ", "));
  return text;
}

std::string zero_cell(Degrees plan) {
  return number(static_cast<int>(plan.zero));
}

/// The order of its pipeline, and those of variants with as many chunks.
std::string order_cell(const PlanReport& plan) {
  if (plan.plan.window) return "found";
  return tied_cell(plan, schedule_cell,
                   [](Degrees variant, Degrees own) { return variant.chunks == own.chunks; });
}

/// A column of the ranking for a degree, or any other decision of a plan.
PlanField decision(const TextColumn& title, std::function<std::string(const PlanReport&)> cell,
                   std::function<bool(const PlanReport&)> tells = {}) {
  return {.column = {"", [cell = std::move(cell)](Shown s) { return cell(s.plan); }, title},
          .in = {title.dispensable, kNotShown, kNotShown},
          .tells = std::move(tells)};
}

PlanField degree(const TextColumn& title, std::function<std::string(Degrees)> cell,
                 const std::function<bool(Degrees)>& tells = {}) {
  PlanField field = decision(
      title, [cell = std::move(cell)](const PlanReport& p) { return across_stages(p.plan, cell); });
  if (tells) field.tells = [tells](const PlanReport& p) { return any_stage(p.plan, tells); };
  return field;
}

constexpr std::array<int, 3> kNowhere{kNotShown, kNotShown, kNotShown};

/// A field of JSON and CSV, with its column where it has one.
PlanField flat(Column<ShownPlan> column, std::array<int, 3> in = kNowhere) {
  const std::string_view key = column.key;
  return {.column = std::move(column), .csv = key, .in = in};
}

/// A field of JSON only.
template <typename Get>
PlanField nested(std::string_view key, Get get) {
  return {.column = {key, get}};
}

/// A field of CSV that is inside another one in JSON, with its column of the ranking.
PlanField inner(Column<ShownPlan> column, std::function<bool(const PlanReport&)> tells = {}) {
  const std::string_view csv = std::exchange(column.key, "");
  const int dispensable = column.title.dispensable;
  return {.column = std::move(column),
          .csv = csv,
          .in = {dispensable, kNotShown, kNotShown},
          .tells = std::move(tells)};
}

std::vector<PlanField> rank_fields() {
  std::vector<PlanField> fields{
      flat({"rank",
            [](Shown s) { return s.plan.rank; },
            {"#"},
            [](Shown s) {
              return fmt::format("{}{}", s.plan.ties.with_first ? "~" : "", s.plan.rank);
            }},
           {0, kNotShown, kNotShown}),
      flat({"tie_with_previous", [](Shown s) { return s.plan.ties.with_previous; }}),
      flat({"tie_with_first", [](Shown s) { return s.plan.ties.with_first; }}),
      flat({"variant_of", [](Shown s) { return s.plan.variant_of; }})};
  for (PlanField& field : fields) field.relative = true;
  return fields;
}

Json layers_json(Shown s) {
  const PlanSummary& plan = s.plan.plan;
  if (plan.written.empty()) return nullptr;
  return array_of(plan.written, [&](const StageDescription& stage) -> Json {
    return layers_of(stage, *plan.network);
  });
}

/// Identity of the question, and decisions.
std::vector<PlanField> decision_fields() {
  return {
      {.column = {"", [](Shown s) { return identity_json(s.question); }}, .csv = ""},
      {.column = {"config", [](Shown s) { return to_json(s.plan.plan); }}, .csv = ""},
      degree({"dp"}, [](Degrees d) { return number(d.data); }),
      degree({"pp"}, [](Degrees d) { return number(d.pipeline); }),
      inner(
          {"layers", layers_json, {"layers"}, [](Shown s) { return layers_by_stage(s.plan.plan); }},
          [](const PlanReport& p) { return !p.plan.written.empty(); }),
      decision({"vpp"}, chunks_cell, has_chunks),
      decision({"tp"},
               [](const PlanReport& p) {
                 return across_stages(p.plan, tensor_cell) + steps_cell(p.plan);
               }),
      decision(
          {"cp"}, [](const PlanReport& p) { return tied_cell(p, context_cell); },
          [](const PlanReport& p) {
            return any_stage(p.plan, [](Degrees d) { return d.context > 1; });
          }),
      degree(
          {"ep"}, [](Degrees d) { return number(d.expert); },
          [](Degrees d) { return d.expert > 1; }),
      degree(
          {"etp"}, [](Degrees d) { return number(d.expert_tensor); },
          [](Degrees d) { return d.expert_tensor > 1; }),
      decision({"zero"}, [](const PlanReport& p) { return tied_cell(p, zero_cell); }),
      degree({"mbs"}, [](Degrees d) { return number(d.micro_batch); }),
      degree(
          {"pieces"}, [](Degrees d) { return number(d.pieces); },
          [](Degrees d) { return d.pieces > 1; }),
      degree({"recompute", Align::Left}, recompute_cell,
             [](Degrees d) { return d.recompute != Recompute::None; }),
      degree(
          {"dispatcher", Align::Left}, [](Degrees d) { return std::string(to_text(d.dispatcher)); },
          [](Degrees d) { return d.dispatcher != kOwnDispatcher; }),
      degree(
          {"offload", Align::Left}, [](Degrees d) { return std::string(host_text(d.on_host)); },
          [](Degrees d) { return d.on_host != 0; }),
      decision({"schedule", Align::Left, 2}, order_cell, [](const PlanReport& p) {
        return p.plan.degrees.pipeline > 1 || schedule_row(p.plan.degrees.schedule).joins;
      })};
}

std::vector<PlanField> rate_fields() {
  return {
      flat({"step_time_s", [](Shown s) { return s.plan.estimate.step.total(); }, {"step"}},
           {0, 0, 0}),
      flat({"step_time_p10_s",
            [](Shown s) { return s.plan.p10; },
            {"p10 - p90"},
            [](Shown s) { return range_cell(s.plan.p10, s.plan.p90); }},
           {3, 2, 3}),
      flat({"step_time_p90_s", [](Shown s) { return s.plan.p90; }}),
      flat({"tokens_per_s", [](Shown s) { return s.plan.tokens_per_s; }, {"tokens/s"}, count_cell},
           {6, 3, 5}),
      flat({"mfu", [](Shown s) { return s.plan.mfu; }, {"MFU"}, share_text}, {2, 2, 2}),
      nested("model_tflops_per_gpu",
             [](Shown s) { return s.plan.model_rate_per_gpu.value() / 1e12; }),
      flat({"hfu", [](Shown s) { return s.plan.hfu; }}),
      nested("hardware_tflops_per_gpu",
             [](Shown s) { return s.plan.hardware_rate_per_gpu.value() / 1e12; })};
}

Cell memory_cell(Shown s) {
  return memory_of(s.plan.estimate.memory.total(), s.question.memory_capacity) +
         std::string(s.memory_note);
}

/// The share of a part of the step, the site's own part left out.
template <typename Part>
auto share_of_step(const Part& part) {
  return [part](Shown s) {
    const StepTimeBreakdown& step = s.plan.estimate.step;
    return share_text(part(s) / (step.total() - step.site));
  };
}

/// Memory, and the parts of the step that have columns.
std::vector<PlanField> cost_fields() {
  const auto exposed = [](Shown s) { return s.plan.estimate.step.exposed_total(); };
  const auto bubble = [](Shown s) { return s.plan.estimate.step.bubble; };
  std::vector<PlanField> fields{
      flat({"peak_memory_bytes",
            [](Shown s) { return s.plan.estimate.memory.total(); },
            {"memory"},
            memory_cell},
           {0, 1, 4}),
      nested("peak_memory_stage", [](Shown s) { return s.plan.estimate.worst_memory_stage; }),
      flat({"memory_risk",
            [](Shown s) { return s.plan.memory_risk; },
            {"risk"},
            [](Shown s) { return risk_text(s.plan); }},
           {2, kNotShown, kNotShown}),
      flat({"memory_verdict", [](Shown s) { return to_text(s.plan.memory_fit); }}),
      inner(
          {"exposed_communication_s", exposed, {"comm", Align::Right, 5}, share_of_step(exposed)}),
      inner({"bubble_s", bubble, {"bubble", Align::Right, 4}, share_of_step(bubble)},
            [](const PlanReport& p) { return p.plan.degrees.pipeline > 1; })};
  fields[2].tells = [](const PlanReport& p) { return p.memory_risk >= 0.005; };
  return fields;
}

std::vector<PlanField> detail_fields() {
  return {nested("step", [](Shown s) { return step_json(s.plan.estimate.step); }),
          nested("busiest_stage", [](Shown s) { return s.plan.estimate.busiest_stage; }),
          nested("imbalance_s", [](Shown s) { return s.plan.estimate.imbalance; }),
          nested("stages", [](Shown s) { return stages_json(s.plan.stages); }),
          nested("memory", [](Shown s) { return memory_json(s.plan.estimate.memory); }),
          nested("communication", [](Shown s) { return communication_json(s.plan.communication); }),
          nested("operators", [](Shown s) { return operators_json(s.plan.operators); }),
          nested("hidden", [](Shown s) { return hidden_json(s.plan.hidden); }),
          nested("peak", [](Shown s) { return peak_json(s.plan.peak); }),
          {.column = {"why",
                      [](Shown s) { return s.plan.why; },
                      {"why", Align::Left},
                      [](Shown s) { return reasons_cell(s.plan); }},
           .in = {7, kNotShown, kNotShown}}};
}

Json found_order_json(const FoundOrder& order) {
  return {
      {"window_s", order.window.value()}, {"bound_s", order.bound.value()}, {"kept", order.kept}};
}

Json slow_mode_json(const SlowRuns& slow, Seconds step) {
  return {{"fabric", slow.fabric},
          {"share", slow.share},
          {"step_time_s", (step + slow.excess).value()}};
}

Json features_json(const std::vector<PlanFeature>& features) {
  return array_of(features, [](const PlanFeature& feature) -> Json { return feature.name; });
}

/// Fields that only some plans have.
std::vector<PlanField> optional_fields() {
  return {
      nested("redistributions",
             [](Shown s) { return unless_empty(s.plan.redistributions, redistributions_json); }),
      nested("found_order",
             [](Shown s) { return s.plan.order ? found_order_json(*s.plan.order) : absent(); }),
      nested("host_memory_bytes",
             [](Shown s) {
               const Bytes held = s.plan.estimate.host_memory;
               return held > Bytes(0) ? Json(whole_bytes(held)) : absent();
             }),
      nested("slow_mode",
             [](Shown s) {
               const Seconds step = s.plan.estimate.step.total();
               return s.plan.slow ? slow_mode_json(*s.plan.slow, step) : absent();
             }),
      nested("next_step_overlap_s",
             [](Shown s) {
               const Seconds overlap = s.plan.estimate.next_step_overlap;
               return overlap > Seconds(0) ? Json(overlap.value()) : absent();
             }),
      nested("passes", [](Shown s) { return unless_empty(s.plan.passes, passes_json); }),
      nested("features", [](Shown s) { return unless_empty(s.plan.features, features_json); }),
      {.column = {"training",
                  [](Shown s) {
                    const auto cost = training_cost(s.question, s.plan);
                    return cost ? object_of(training_columns(), *cost) : absent();
                  }},
       .csv = "training_"}};
}

bool is_nested(const Json& value) {
  return value.is_object() || (value.is_array() && !value.empty() && value.front().is_object());
}

}  // namespace

const std::vector<PlanField>& plan_fields() {
  static const std::vector<PlanField> kFields = [] {
    std::vector<PlanField> all;
    for (auto part :
         {rank_fields, decision_fields, rate_fields, cost_fields, detail_fields, optional_fields}) {
      for (PlanField& field : part()) all.push_back(std::move(field));
    }
    return all;
  }();
  return kFields;
}

Columns<ShownPlan> plan_columns(PlanTable table, std::span<const ShownPlan> plans) {
  Columns<ShownPlan> columns;
  for (const PlanField& field : plan_fields()) {
    const int dispensable = field.in.at(static_cast<std::size_t>(table));
    if (dispensable == kNotShown) continue;
    const auto tells = [&](Shown s) { return field.tells(s.plan); };
    if (field.tells && std::ranges::none_of(plans, tells)) continue;
    columns.push_back(field.column);
    columns.back().title.dispensable = dispensable;
  }
  return columns;
}

Json plan_json(const QuestionReport& question, const PlanReport& plan,
               std::span<const std::string_view> keys) {
  Json json = Json::object();
  for (const PlanField& field : plan_fields()) {
    const std::string_view key = field.column.key;
    const bool wanted = keys.empty() || std::ranges::find(keys, key) != keys.end();
    if (key.empty() || !wanted) continue;
    Json value = field.column.value({question, plan});
    if (!value.is_discarded()) json[std::string(key)] = std::move(value);
  }
  return json;
}

Json plan_row(const QuestionReport& question, const PlanReport& plan, RowKind kind) {
  Json row = Json::object();
  for (const PlanField& field : plan_fields()) {
    if (!field.csv || (field.relative && kind == RowKind::Collected)) continue;
    const Json value = field.column.value({question, plan});
    const std::string name(*field.csv);
    if (value.is_object()) {
      for (const auto& [key, member] : value.items()) {
        if (!is_nested(member)) row[name + key] = member;
      }
    } else if (!value.is_discarded()) {
      row[name] = value;
    }
  }
  return row;
}

}  // namespace plansearch
