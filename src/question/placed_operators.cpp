// SPDX-License-Identifier: Apache-2.0
// Operators that a plan places one by one: in one plan, or in every plan of a search.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/placements/check_placements.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plansearch/error.hpp"
#include "plansearch/plan_stages.hpp"
#include "question/degrees.hpp"
#include "question/framework_flags.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch {
namespace {

/// Makes the layers that are cut differently blocks of their own. The tensor degree is the same in
/// all stages.
Placements resolved(const io::PlacementsDocument& document, const PlanDegrees& degrees,
                    Problem& problem) {
  auto made = resolve_placements(document.names, *problem.network, degrees, *problem.framework);
  if (const auto* fault = std::get_if<PlacementFault>(&made)) {
    throw InputError(document.where(*fault), fault->message, fault->hint);
  }
  auto& distinguished = std::get<DistinguishedNetwork>(made);
  problem.network = std::move(distinguished.network);
  return std::move(distinguished.placements);
}

/// The framework runs no operators in pieces; its hint names those that do.
std::optional<Infeasible> pieces_fault(const Framework& framework) {
  auto bad = check_pieces(framework);
  if (bad) bad->legal_words = run_by([](const Framework& other) { return other.runs_pieces; });
  return bad;
}

}  // namespace

std::optional<Infeasible> steps_fault(const Framework& framework, OperatorSteps steps) {
  auto bad = check_steps(framework, steps);
  if (!bad) return bad;
  bad->legal_words =
      run_by([&](const Framework& other) { return runs_steps(other.operator_steps, steps); });
  return bad;
}

PlacedOperators placed_operators(const PlanRequest& asked, const PlanDegrees& degrees,
                                 Problem& problem) {
  const std::string& square = asked.request.square;
  if (square.empty()) {
    return {resolved(*asked.placements, degrees, problem), asked.placements->place.where};
  }
  auto made = square_placements(*problem.network, degrees, square_side(square));
  if (const auto* fault = std::get_if<PlacementFault>(&made)) {
    throw InputError({}, fmt::format("--temporal {}: {}", square, fault->message), fault->hint);
  }
  const io::PlacementsDocument all{std::get<PlacementNames>(std::move(made)), {}, {}, {}};
  return {resolved(all, degrees, problem), {}};
}

std::optional<PlanFault> place_operators(const PlacedOperators& operators, ResolvedPlan& given) {
  const Problem& problem = given.problem;
  const Placements& placements = operators.placements;
  auto placed =
      with_placements(std::move(given.plan), placements, *problem.network, *problem.framework);
  if (const auto* bad = std::get_if<Infeasible>(&placed)) {
    return PlanFault{*bad, operators.where, true};
  }
  given.plan = std::get<ParallelPlan>(std::move(placed));
  std::optional<Infeasible> bad;
  if (placements.in_pieces()) bad = pieces_fault(*problem.framework);
  if (!bad && placements.over_squares()) {
    bad = steps_fault(*problem.framework, OperatorSteps::Squares);
  } else if (!bad && placements.over_rings()) {
    bad = steps_fault(*problem.framework, OperatorSteps::Rings);
  }
  if (!bad) return std::nullopt;
  return PlanFault{*std::move(bad), operators.where};
}

void place_in_all(const io::PlacementsDocument& document, ResolvedQuestion& question) {
  PlanDegrees degrees;
  for (const int factor : document.names.factors) degrees.tensor_out *= factor;
  if (degrees.tensor_out > 1) question.request.degrees.pin(Degree::TensorOut, degrees.tensor_out);
  question.placements =
      std::make_shared<const Placements>(resolved(document, degrees, question.problem));
  if (!question.placements->in_pieces()) return;
  if (const auto bad = pieces_fault(*question.problem.framework)) {
    throw InputError(document.place.where, bad->detail, legal_values_text(*bad));
  }
}

}  // namespace plansearch
