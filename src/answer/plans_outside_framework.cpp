// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "answer/make_report.hpp"
#include "plan/legality/legality.hpp"
#include "plan/placements/check_placements.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/gangs.hpp"
#include "plansearch/degree_table.hpp"
#include "question/framework_flags.hpp"

namespace plansearch {
namespace {

/// Degrees that make sense together alone.
constexpr std::array kParts{
    DegreeSet{Degree::TensorIn, Degree::TensorOut, Degree::TensorDepth, Degree::SequenceParallel},
    DegreeSet{Degree::Temporal},
    DegreeSet{Degree::Pipeline, Degree::Chunks, Degree::Schedule},
    DegreeSet{Degree::Context, Degree::ContextKind},
    DegreeSet{Degree::Expert, Degree::ExpertTensor},
    DegreeSet{Degree::Zero, Degree::ShardGroup, Degree::Offload},
    DegreeSet{Degree::Recompute, Degree::RecomputeLayers},
    DegreeSet{Degree::Pieces},
};

template <typename Runs>
std::string names_of(const std::vector<Framework>& programs, Runs runs) {
  std::vector<std::string> names;
  for (const Framework& program : programs) {
    if (runs(program)) names.push_back(program.name);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

/// The degrees of a part where they do something.
PinnedDegrees chosen(const PlanDegrees& plan, DegreeSet part) {
  const PlanDegrees neutral;
  PinnedDegrees degrees;
  for (const DegreeRow& row : degree_table()) {
    if (part.contains(row.degree) && row.get(plan) != row.get(neutral)) {
      degrees.pin(row.degree, row.get(plan));
    }
  }
  return degrees;
}

/// The steps in which a plan that is written out runs single operators.
OperatorSteps steps_of(const PlanCandidate& candidate) {
  if (!candidate.written) return OperatorSteps::None;
  for (const Transform& transform : candidate.written->transforms) {
    if (!transform.placements) continue;
    if (transform.placements->over_squares()) return OperatorSteps::Squares;
    if (transform.placements->over_rings()) return OperatorSteps::Rings;
  }
  return OperatorSteps::None;
}

bool runs(const PlanCandidate& candidate, const Problem& problem, const Framework& program) {
  const Network& network = *problem.network;
  if (!candidate.written) {
    return !check_legality(candidate.plan, network, program, problem.gpus, problem.precision);
  }
  const OperatorSteps steps = steps_of(candidate);
  if (steps != OperatorSteps::None && check_steps(program, steps)) return false;
  if (candidate.written->order.window && check_shared_devices(program)) return false;
  const bool in_pieces = std::ranges::any_of(candidate.written->transforms, [](const Transform& t) {
    return t.placements && t.placements->in_pieces();
  });
  if (in_pieces && check_pieces(program)) return false;
  return !check_plan(*candidate.written, network, program, problem.gpus, problem.global_batch,
                     problem.precision);
}

}  // namespace

std::string runners_of(const Problem& problem, const PlanCandidate& first, const Framework* own) {
  const std::vector<Framework>& all = shipped_programs();
  const Network& network = *problem.network;
  std::string text =
      names_of(all, [&](const Framework& program) { return runs(first, problem, program); });
  if (text != "none") return text;
  const PlanDegrees& degrees = first.plan;
  for (const DegreeSet part : kParts) {
    const PinnedDegrees of_part = chosen(degrees, part);
    if (of_part.empty()) continue;
    PlanDegrees alone;
    alone.data = degrees.data * degrees.tensor();  // a group to shard over
    if (of_part.has(Degree::Temporal)) alone = degrees;
    const PlanDegrees asked = with_pinned(alone, of_part);
    const auto takes = [&](const Framework& program) {
      return !check_transform(asked, network, program, problem.precision);
    };
    if (own != nullptr && takes(*own)) continue;
    text += fmt::format("; {} in: {}", to_text(of_part), names_of(all, takes));
  }
  const OperatorSteps steps = steps_of(first);
  if (steps != OperatorSteps::None) {
    text += fmt::format("; operators in steps in: {}", names_of(all, [&](const Framework& program) {
                          return runs_steps(program.operator_steps, steps);
                        }));
  }
  return text;
}

std::string programs_for(const Problem& problem, const PlanCandidate& first) {
  return fmt::format("no program is called {}; plan 1 as a whole runs in: {}",
                     problem.framework->name, runners_of(problem, first, nullptr));
}

}  // namespace plansearch
