// SPDX-License-Identifier: Apache-2.0
#include "question/resolve_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plansearch/degree_table.hpp"

namespace plansearch {
namespace {

constexpr DegreeSet kTensor{Degree::TensorIn, Degree::TensorOut, Degree::TensorDepth};
/// A framework has values of its own for them.
constexpr DegreeSet kOfFramework{Degree::Zero, Degree::SequenceParallel, Degree::ContextKind,
                                 Degree::Recompute, Degree::Schedule};
/// Degrees of all stages together.
constexpr DegreeSet kOfPipeline{Degree::Pipeline, Degree::Chunks, Degree::MicroBatch,
                                Degree::Schedule};

/// Whether a value is worth a word in this plan.
bool is_told(Degree degree, const PlanDegrees& plan) {
  switch (degree) {
    case Degree::Data:
    case Degree::Pipeline:
    case Degree::TensorOut:
    case Degree::Zero:
    case Degree::MicroBatch:
    case Degree::Recompute:
      return true;
    case Degree::Schedule:
      return plan.pipeline > 1;
    case Degree::SequenceParallel:
      return plan.tensor() > 1;
    case Degree::ContextKind:
      return plan.context > 1;
    default:
      return degree_value(plan, degree) != degree_value(PlanDegrees{}, degree);
  }
}

bool is_open(Degree degree, const PinnedDegrees& said) {
  if (!kTensor.contains(degree)) return !said.has(degree);
  return !said.has(Degree::TensorIn) && !said.has(Degree::TensorOut) &&
         !said.has(Degree::TensorDepth);
}

std::string_view origin_of(Degree degree, bool by_stage) {
  if (degree == Degree::Data && !by_stage) return "gpus";
  return kOfFramework.contains(degree) ? "framework" : "default";
}

/// One value, or that of every stage.
std::string value_of(Degree degree, const ParallelPlan& plan) {
  std::vector<std::string> values;
  for (int p = 0; p < plan.assignment->stages(); ++p) {
    const PlanDegrees& degrees = plan.transform_at(p).degrees;
    values.push_back(std::string(value_text(degree, degree_value(degrees, degree))));
  }
  const bool alike =
      std::ranges::all_of(values, [&](const std::string& text) { return text == values.front(); });
  return alike ? values.front() : fmt::format("{}", fmt::join(values, "/"));
}

bool is_left_open(Degree degree, const PlanRequest& asked) {
  if (!asked.stages) return is_open(degree, asked.request.degrees);
  if (degree == Degree::Schedule) return !asked.stages->schedule;
  if (kOfPipeline.contains(degree)) return false;
  const auto& stages = asked.stages->stages;
  return std::ranges::any_of(
      stages, [&](const io::StageEntry& stage) { return is_open(degree, stage.degrees); });
}

bool places_all(const PlacementNames& names) {
  return names.operators.empty() || std::ranges::any_of(names.operators, [](const auto& entry) {
           return entry.operators == std::vector<std::string>{"others"};
         });
}

}  // namespace

void note_filled(const PlanRequest& asked, ResolvedPlan& given) {
  const bool by_file = !asked.request.from_plan.empty() || asked.stages || asked.placements ||
                       asked.shared || asked.window;
  if (!by_file || given.inexpressible) return;
  const PlanDegrees& first = given.plan.transform_at(0).degrees;
  const auto note = [&](std::string_view key, std::string value, std::string_view origin) {
    given.asked.settings.push_back({std::string(key), std::move(value), std::string(origin)});
  };
  for (const DegreeRow& row : degree_table()) {
    if (given.plan.order.window && row.degree == Degree::Schedule) continue;
    if (!is_left_open(row.degree, asked) || !is_told(row.degree, first)) continue;
    note(key_of(row.degree, {}), value_of(row.degree, given.plan),
         origin_of(row.degree, asked.stages.has_value()));
  }
  if (given.plan.order.window && !asked.window) note("order", "shortest window", "default");
  if (asked.placements && !places_all(asked.placements->names)) {
    note("other_operators", "by role", "default");
  }
}

}  // namespace plansearch
