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
  return any_stage(plan.plan, chunked) ||
         std::any_of(plan.variants.begin(), plan.variants.end(), chunked);
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

/// The order of its pipeline, and those of variants with as many chunks.
std::string order_cell(const PlanReport& plan) {
  if (plan.plan.window) return "found";
  return tied_cell(plan, schedule_cell,
                   [](Degrees variant, Degrees own) { return variant.chunks == own.chunks; });
}

/// A column of the ranking for a degree, or any other decision of a plan.
PlanField decision(TextColumn title, std::function<std::string(const PlanReport&)> cell,
                   std::function<bool(const PlanReport&)> tells = {}) {
  const int dispensable = title.dispensable;
  return {.title = std::move(title),
          .cell = [cell = std::move(cell)](Shown s) { return cell(s.plan); },
          .in = {dispensable, kNotShown, kNotShown},
          .tells = std::move(tells)};
}

PlanField degree(TextColumn title, std::function<std::string(Degrees)> cell,
                 const std::function<bool(Degrees)>& tells = {}) {
  PlanField field = decision(std::move(title), [cell = std::move(cell)](const PlanReport& p) {
    return across_stages(p.plan, cell);
  });
  if (tells) field.tells = [tells](const PlanReport& p) { return any_stage(p.plan, tells); };
  return field;
}

/// Identity of the question, and decisions.
std::vector<PlanField> decision_fields() {
  return {
      {.key = "rank",
       .csv = "rank",
       .value = [](Shown s) { return s.plan.rank; },
       .title = {"#"},
       .cell =
           [](Shown s) {
             return fmt::format("{}{}", s.plan.ties.with_first ? "~" : "", s.plan.rank);
           },
       .in = {0, kNotShown, kNotShown},
       .relative = true},
      {.key = "tie_with_previous",
       .csv = "tie_with_previous",
       .value = [](Shown s) { return s.plan.ties.with_previous; },
       .relative = true},
      {.key = "tie_with_first",
       .csv = "tie_with_first",
       .value = [](Shown s) { return s.plan.ties.with_first; },
       .relative = true},
      {.key = "variant_of",
       .csv = "variant_of",
       .value = [](Shown s) { return or_null(s.plan.variant_of); },
       .relative = true},
      {.csv = "", .value = [](Shown s) { return identity_json(s.question); }},
      {.key = "config", .csv = "", .value = [](Shown s) { return to_json(s.plan.plan); }},
      degree({"dp"}, [](Degrees d) { return number(d.data); }),
      degree({"pp"}, [](Degrees d) { return number(d.pipeline); }),
      {.csv = "layers",
       .value = [](Shown s) -> Json {
         const PlanSummary& plan = s.plan.plan;
         if (plan.written.empty()) return nullptr;
         return array_of(plan.written, [&](const StageDescription& stage) -> Json {
           return layers_of(stage, *plan.network);
         });
       },
       .title = {"layers"},
       .cell = [](Shown s) { return layers_by_stage(s.plan.plan); },
       .in = {0, kNotShown, kNotShown},
       .tells = [](const PlanReport& p) { return !p.plan.written.empty(); }},
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
      decision({"zero"},
               [](const PlanReport& p) {
                 return tied_cell(p, [](Degrees d) { return number(static_cast<int>(d.zero)); });
               }),
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

/// A part of the step as its share, the site's own part left out.
Cell share_of_step(const StepTimeBreakdown& step, Seconds part) {
  return share_text(part / (step.total() - step.site));
}

/// Times, rates and memory.
std::vector<PlanField> cost_fields() {
  return {
      {.key = "step_time_s",
       .csv = "step_time_s",
       .value = [](Shown s) { return s.plan.estimate.step.total().value(); },
       .title = {"step"},
       .cell = [](Shown s) { return s.plan.estimate.step.total(); },
       .in = {0, 0, 0}},
      {.key = "step_time_p10_s",
       .csv = "step_time_p10_s",
       .value = [](Shown s) { return s.plan.p10.value(); },
       .title = {"p10 - p90"},
       .cell = [](Shown s) { return range_cell(s.plan.p10, s.plan.p90); },
       .in = {3, 2, 3}},
      {.key = "step_time_p90_s",
       .csv = "step_time_p90_s",
       .value = [](Shown s) { return s.plan.p90.value(); }},
      {.key = "tokens_per_s",
       .csv = "tokens_per_s",
       .value = [](Shown s) { return s.plan.tokens_per_s; },
       .title = {"tokens/s"},
       .cell = [](Shown s) { return count_cell(s.plan.tokens_per_s); },
       .in = {6, 3, 5}},
      {.key = "mfu",
       .csv = "mfu",
       .value = [](Shown s) { return s.plan.mfu; },
       .title = {"MFU"},
       .cell = [](Shown s) { return share_text(s.plan.mfu); },
       .in = {2, 2, 2}},
      {.key = "model_tflops_per_gpu",
       .value = [](Shown s) { return s.plan.model_rate_per_gpu.value() / 1e12; }},
      {.key = "hfu", .csv = "hfu", .value = [](Shown s) { return s.plan.hfu; }},
      {.key = "hardware_tflops_per_gpu",
       .value = [](Shown s) { return s.plan.hardware_rate_per_gpu.value() / 1e12; }},
      {.key = "peak_memory_bytes",
       .csv = "peak_memory_bytes",
       .value = [](Shown s) { return whole_bytes(s.plan.estimate.memory.total()); },
       .title = {"memory"},
       .cell =
           [](Shown s) {
             return memory_of(s.plan.estimate.memory.total(), s.question.memory_capacity) +
                    std::string(s.memory_note);
           },
       .in = {0, 1, 4}},
      {.key = "peak_memory_stage",
       .value = [](Shown s) { return s.plan.estimate.worst_memory_stage; }},
      {.key = "memory_risk",
       .csv = "memory_risk",
       .value = [](Shown s) { return s.plan.memory_risk; },
       .title = {"risk"},
       .cell = [](Shown s) { return risk_text(s.plan); },
       .in = {2, kNotShown, kNotShown},
       .tells = [](const PlanReport& p) { return p.memory_risk >= 0.005; }},
      {.key = "memory_verdict",
       .csv = "memory_verdict",
       .value = [](Shown s) { return std::string(to_text(s.plan.memory_fit)); }},
      {.csv = "exposed_communication_s",
       .value = [](Shown s) { return s.plan.estimate.step.exposed_total().value(); },
       .title = {"comm"},
       .cell =
           [](Shown s) {
             const StepTimeBreakdown& step = s.plan.estimate.step;
             return share_of_step(step, step.exposed_total());
           },
       .in = {5, kNotShown, kNotShown}},
      {.csv = "bubble_s",
       .value = [](Shown s) { return s.plan.estimate.step.bubble.value(); },
       .title = {"bubble"},
       .cell =
           [](Shown s) { return share_of_step(s.plan.estimate.step, s.plan.estimate.step.bubble); },
       .in = {4, kNotShown, kNotShown},
       .tells = [](const PlanReport& p) { return p.plan.degrees.pipeline > 1; }}};
}

/// Breakdowns, reasons, and fields that only some plans have.
std::vector<PlanField> detail_fields() {
  return {
      {.key = "step", .value = [](Shown s) { return step_json(s.plan.estimate.step); }},
      {.key = "busiest_stage", .value = [](Shown s) { return s.plan.estimate.busiest_stage; }},
      {.key = "imbalance_s", .value = [](Shown s) { return s.plan.estimate.imbalance.value(); }},
      {.key = "stages", .value = [](Shown s) { return stages_json(s.plan.stages); }},
      {.key = "memory", .value = [](Shown s) { return memory_json(s.plan.estimate.memory); }},
      {.key = "communication",
       .value = [](Shown s) { return communication_json(s.plan.communication); }},
      {.key = "operators", .value = [](Shown s) { return operators_json(s.plan.operators); }},
      {.key = "hidden", .value = [](Shown s) { return hidden_json(s.plan.hidden); }},
      {.key = "peak", .value = [](Shown s) { return peak_json(s.plan.peak); }},
      {.key = "why",
       .value = [](Shown s) { return s.plan.why; },
       .title = {"why", Align::Left},
       .cell = [](Shown s) { return reasons_cell(s.plan); },
       .in = {7, kNotShown, kNotShown}},
      {.key = "redistributions",
       .value = [](Shown s) { return unless_empty(s.plan.redistributions, redistributions_json); }},
      {.key = "found_order",
       .value = [](Shown s) -> Json {
         if (!s.plan.order) return absent();
         const FoundOrder& order = *s.plan.order;
         return {{"window_s", order.window.value()},
                 {"bound_s", order.bound.value()},
                 {"kept", order.kept}};
       }},
      {.key = "host_memory_bytes",
       .value = [](Shown s) -> Json {
         const Bytes held = s.plan.estimate.host_memory;
         return held > Bytes(0) ? Json(whole_bytes(held)) : absent();
       }},
      {.key = "slow_mode",
       .value = [](Shown s) -> Json {
         if (!s.plan.slow) return absent();
         const SlowRuns& slow = *s.plan.slow;
         return {{"fabric", slow.fabric},
                 {"share", slow.share},
                 {"step_time_s", (s.plan.estimate.step.total() + slow.excess).value()}};
       }},
      {.key = "next_step_overlap_s",
       .value = [](Shown s) -> Json {
         const Seconds overlap = s.plan.estimate.next_step_overlap;
         return overlap > Seconds(0) ? Json(overlap.value()) : absent();
       }},
      {.key = "passes", .value = [](Shown s) { return unless_empty(s.plan.passes, passes_json); }},
      {.key = "features",
       .value =
           [](Shown s) {
             return unless_empty(s.plan.features, [](const std::vector<PlanFeature>& features) {
               return array_of(features, [](const PlanFeature& f) -> Json { return f.name; });
             });
           }},
      {.key = "training", .csv = "training_", .value = [](Shown s) {
         const auto cost = training_cost(s.question, s.plan);
         return cost ? object_of(training_columns(), *cost) : absent();
       }}};
}

bool is_nested(const Json& value) {
  return value.is_object() || (value.is_array() && !value.empty() && value.front().is_object());
}

}  // namespace

const std::vector<PlanField>& plan_fields() {
  static const std::vector<PlanField> kFields = [] {
    std::vector<PlanField> all;
    for (auto part : {decision_fields, cost_fields, detail_fields}) {
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
    if (field.tells && std::none_of(plans.begin(), plans.end(), tells)) continue;
    columns.push_back({.key = field.key,
                       .title = {field.title.title, field.title.align, dispensable},
                       .cell = field.cell});
  }
  return columns;
}

Json plan_json(const QuestionReport& question, const PlanReport& plan,
               std::span<const std::string_view> keys) {
  Json json = Json::object();
  for (const PlanField& field : plan_fields()) {
    const bool wanted =
        keys.empty() || std::find(keys.begin(), keys.end(), field.key) != keys.end();
    if (field.key.empty() || !wanted) continue;
    Json value = field.value({question, plan});
    if (!value.is_discarded()) json[std::string(field.key)] = std::move(value);
  }
  return json;
}

Json plan_row(const QuestionReport& question, const PlanReport& plan, RowKind kind) {
  Json row = Json::object();
  for (const PlanField& field : plan_fields()) {
    if (!field.csv || (field.relative && kind == RowKind::Collected)) continue;
    const Json value = field.value({question, plan});
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
