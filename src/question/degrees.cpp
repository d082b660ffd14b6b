// SPDX-License-Identifier: Apache-2.0
#include "question/degrees.hpp"
#include "base/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include "base/checked.hpp"
#include "plan/degrees/framework_defaults.hpp"
#include "plan/legality/legality.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/error.hpp"
#include "question/resolve_plan.hpp"
#include "schedule/table.hpp"
#include "search/strategies/strategy.hpp"

namespace plansearch {
namespace {

/// Divisors above this are not listed in hints.
constexpr std::int64_t kShownDivisors = 4096;

/// Degrees whose legality can be judged by themselves.
constexpr std::array kJudgedAlone{Degree::TensorIn, Degree::TensorOut, Degree::TensorDepth,
                                  Degree::Pipeline, Degree::Context,   Degree::Expert,
                                  Degree::Pieces};

/// The obstacle when only this degree is above one. The rest of the plan (number of GPUs, batch) is
/// not checked.
std::optional<Infeasible> obstacle_alone(Degree degree, int value, const PinnedDegrees& pinned,
                                         const Problem& problem) {
  PlanDegrees plan;
  set_degree(plan, degree, value);
  if (const auto kind = pinned.get(Degree::ContextKind)) {
    set_degree(plan, Degree::ContextKind, *kind);
  }
  if (degree == Degree::Expert) plan.data = value;
  plan.micro_batch = plan.pieces;
  plan.micro_batches = plan.pipeline;
  if (plan.pipeline > 1 && !suits(plan.schedule, *problem.network)) {
    plan.schedule = default_schedule(*problem.framework, *problem.network, plan.pipeline, 1);
  }
  const auto infeasible =
      check_legality(plan, *problem.network, *problem.framework, plan.devices(), problem.precision);
  if (!infeasible) return std::nullopt;
  switch (infeasible->obstacle) {
    case Obstacle::DegreesDoNotMultiply:
    case Obstacle::BatchNotDivisible:
    case Obstacle::ScheduleNeedsMicroBatches:
    case Obstacle::FrameworkForbids:
    case Obstacle::OutOfMemory:
      return std::nullopt;
    default:
      return infeasible;
  }
}

std::string legal_values(Degree degree, const PinnedDegrees& pinned, const Problem& problem) {
  constexpr int kTried = 1024;
  constexpr std::size_t kShown = 12;
  std::vector<int> legal;
  for (int value = 1; value <= kTried && legal.size() <= kShown; ++value) {
    if (!obstacle_alone(degree, value, pinned, problem)) legal.push_back(value);
  }
  const bool more = legal.size() > kShown;
  if (more) legal.pop_back();
  return fmt::format("legal values: {}{}", fmt::join(legal, ", "), more ? ", ..." : "");
}

/// Data-parallel degree from the flag, or what the GPUs leave.
int data_degree(std::optional<int> asked, const PlanDegrees& plan, std::optional<int> gpus) {
  const std::initializer_list<int> axes{plan.pipeline,   plan.context,      plan.tensor_in,
                                        plan.tensor_out, plan.tensor_depth, asked.value_or(1)};
  const auto all = product_within(std::numeric_limits<int>::max(), axes);
  if (!all) {
    throw InputError({}, "the degrees multiply to more than any machine has",
                     "dp x pp x cp x tp must be the number of GPUs");
  }
  const std::int64_t product = *all;
  const std::int64_t others = product / asked.value_or(1);
  if (!gpus) return asked.value_or(1);
  if (asked ? product != *gpus : *gpus % others != 0) {
    throw InputError(
        {},
        fmt::format("{} GPUs: pp {} x cp {} x tp {}{} is {}", *gpus, plan.pipeline, plan.context,
                    plan.tensor(), asked ? fmt::format(" x dp {}", *asked) : "", product),
        asked ? "dp x pp x cp x tp must be the number of GPUs"
              : "pp x cp x tp must divide the number of GPUs");
  }
  return static_cast<int>(*gpus / others);
}

void set_micro_batches(PlanDegrees& plan, std::int64_t batch) {
  const std::int64_t replicas = std::int64_t{plan.data} * plan.tensor_depth;
  if (batch % replicas != 0) {
    throw InputError(
        {},
        plan.tensor_depth == 1 ? fmt::format("batch {} does not divide over dp {}", batch, replicas)
                               : fmt::format("batch {} does not divide over dp {} x tp-z {}", batch,
                                             plan.data, plan.tensor_depth),
        fmt::format("make --batch a multiple of {}; legal values of {} for batch {}: {}", replicas,
                    plan.tensor_depth == 1 ? "--dp" : "dp x tp-z", batch,
                    fmt::join(divisors(batch, kShownDivisors), ", ")));
  }
  const std::int64_t local = batch / replicas;
  if (local % plan.micro_batch != 0) {
    throw InputError(
        {}, fmt::format("--micro-batch {}: each replica has {} sequences", plan.micro_batch, local),
        fmt::format("legal values: {}", fmt::join(divisors(local, kShownDivisors), ", ")));
  }
  plan.micro_batches = static_cast<int>(local / plan.micro_batch);
}

/// Values of one degree that break no rule by themselves.
std::string lawful_values(Degree degree, const PinnedDegrees& pinned, const Problem& problem) {
  constexpr int kTried = 8;
  const DegreeRow& row = row_of(degree);
  const int most = row.kind == DegreeKind::Word ? static_cast<int>(row.words().size()) - 1
                                                : std::min(row.high, row.low + kTried);
  std::vector<std::string> lawful;
  for (int value = row.kind == DegreeKind::Number ? row.low : 0; value <= most; ++value) {
    PinnedDegrees tried = pinned;
    tried.pin(degree, value);
    if (!rule_broken_by(tried, *problem.network, *problem.framework, problem.precision)) {
      lawful.push_back(value_text(degree, value));
    }
  }
  return fmt::format("legal values: {}", fmt::join(lawful, ", "));
}

/// Checks, before any plan, the rules of the framework on this network and on the requested
/// degrees.
void check_rules(const PinnedDegrees& pinned, const Problem& problem) {
  const auto broken =
      rule_broken_by(pinned, *problem.network, *problem.framework, problem.precision);
  if (!broken) return;
  std::vector<std::string> asked;
  std::string hint = "plansearch compare --framework LIST tells which frameworks do";
  for (const DegreeRow& row : degree_table()) {
    if (!broken->reads.contains(row.degree) || !pinned.has(row.degree)) continue;
    asked.push_back(fmt::format("{} {}", flag_of(key_of(row.degree, pinned)),
                                value_text(row.degree, *pinned.get(row.degree))));
    hint = asked.size() == 1 ? lawful_values(row.degree, pinned, problem) : "leave one of them out";
  }
  throw InputError(
      {},
      fmt::format("{}{}{}", fmt::join(asked, ", "), asked.empty() ? "" : ": ", broken->why.detail),
      hint);
}

/// Rings were asked for, where they are never run.
void check_rings_run(const PinnedDegrees& pinned, const Framework& framework) {
  if (pinned.get(Degree::Temporal) != static_cast<int>(Temporal::Ring)) return;
  if (const auto none = check_steps(framework, OperatorSteps::Rings)) {
    throw InputError({}, fmt::format("--temporal ring: {}", none->detail),
                     "--framework any and torchtitan-async-tp do");
  }
}

/// Squares were asked for, where they are never run.
void check_squares_run(const std::string& square, const Framework& framework) {
  if (square_side(square) == 0) return;
  if (const auto none = check_steps(framework, OperatorSteps::Squares)) {
    throw InputError({}, fmt::format("--temporal {}: {}", square, none->detail),
                     "--framework any and primepar do");
  }
}

/// The degrees of a plan without stages. Where operators are placed one by one, no rule by role
/// speaks of the whole tensor group; rings bring together and take apart what lies over its tokens.
PlanDegrees whole_degrees(const PlanRequest& asked, bool placed, const ResolvedQuestion& question) {
  PinnedDegrees pinned = asked.request.degrees;
  const auto rings = [](const PlacementEntry& entry) { return entry.ring.has_value(); };
  const PlacementNames* names = asked.placements ? &asked.placements->names : nullptr;
  const bool by_role = names != nullptr && names->operators.empty() && names->edges.empty();
  if (placed && !by_role && !pinned.has(Degree::SequenceParallel)) {
    const bool over_rings = names != nullptr && std::ranges::any_of(names->operators, rings);
    pinned.pin(Degree::SequenceParallel, over_rings ? 1 : 0);
  }
  // A plan that a target cannot express is an answer of its own (judge).
  if (!placed && asked.request.target.empty()) check_degrees_fit(pinned, question.problem);
  return plan_from_degrees(pinned, question.problem, question.gpus);
}

}  // namespace

int square_side(const std::string& text) {
  if (text.empty()) return 0;
  constexpr int kMostSide = 64;
  const std::size_t cross = text.find('x');
  const int rows = parse_as<int>(text.substr(0, cross)).value_or(0);
  const int columns =
      cross == std::string::npos ? 0 : parse_as<int>(text.substr(cross + 1)).value_or(0);
  if (rows < 2 || columns < 2 || rows > kMostSide || columns > kMostSide) {
    throw InputError(
        {}, fmt::format("--temporal {}: no square of devices", text),
        "rows x columns, such as 2x2 or 4x4; or ring: gathers and scatters under products");
  }
  if (rows != columns) {
    throw InputError({},
                     fmt::format("--temporal {}: the phases of a product fit each other on squares "
                                 "only (PrimePar, ASPLOS 2024)",
                                 text),
                     fmt::format("--temporal {0}x{0}; what is left of the tensor group cuts as "
                                 "without it",
                                 std::min(rows, columns)));
  }
  return rows;
}

void check_degrees(const PinnedDegrees& degrees, const DegreeLimits& limits) {
  for (const DegreeRow& row : degree_table()) {
    const auto value = degrees.get(row.degree);
    if (!value || limits.admits(row.degree, *value)) continue;
    throw InputError({},
                     fmt::format("{} {} is not {}", flag_of(key_of(row.degree, degrees)),
                                 value_text(row.degree, *value), limits.text(row.degree)),
                     "give the value, or its bounds");
  }
  const auto sequences = degrees.get(Degree::MicroBatch);
  const auto pieces = degrees.get(Degree::Pieces);
  if (sequences && pieces && *sequences % *pieces != 0) {
    throw InputError(
        {}, fmt::format("--overdecompose {}: a micro-batch has {} sequences", *pieces, *sequences),
        fmt::format("legal values: {}", fmt::join(divisors(*sequences, kShownDivisors), ", ")));
  }
  const auto schedule = degrees.get(Degree::Schedule);
  const auto chunks = degrees.get(Degree::Chunks);
  if (!schedule || !chunks) return;
  const auto id = static_cast<ScheduleId>(*schedule);
  const Schedule& row = schedule_row(id);
  const ChunkRange& legal = row.chunks;
  if (legal.contains(*chunks)) return;
  const ShapeFault fault{ShapeField::Chunks, *chunks, {legal.fewest, 1, legal.most}};
  throw InputError({}, fmt::format("--schedule {} with --vpp {}", to_text(id), *chunks),
                   row.needs.empty()
                       ? to_text(id, fault)
                       : fmt::format("{}; it needs {}", to_text(id, fault), row.needs));
}

/// A tensor degree leaves networks of convolutions nearly whole on every rank.
void check_tensor_cuts(const PinnedDegrees& degrees, const Problem& problem) {
  for (const Degree degree : {Degree::TensorOut, Degree::TensorIn, Degree::TensorDepth}) {
    const int ranks = degrees.get(degree).value_or(1);
    if (ranks == 1) continue;
    const double share = tensor_share(*problem.network);
    if (share >= kLeastTensorShare) return;
    throw InputError(
        {},
        fmt::format("{} {}: tensor ranks cut {:.0f} % of the parameters of {} and keep the rest "
                    "whole: its convolutions and norms are not cut",
                    flag_of(key_of(degree, degrees)), ranks, 100.0 * share, problem.network->name),
        "--zero 3 shards all parameters over data-parallel ranks");
  }
}

void check_degrees_fit(const PinnedDegrees& degrees, const Problem& problem) {
  check_tensor_cuts(degrees, problem);
  for (const Degree degree : kJudgedAlone) {
    const int value = degrees.get(degree).value_or(1);
    if (value == 1) continue;
    if (const auto infeasible = obstacle_alone(degree, value, degrees, problem)) {
      throw InputError(
          {}, fmt::format("{} {}: {}", flag_of(key_of(degree, degrees)), value, infeasible->detail),
          legal_values(degree, degrees, problem));
    }
  }
  const int depth = degrees.get(Degree::TensorDepth).value_or(1);
  const std::int64_t batch = problem.global_batch;
  if (batch % depth == 0) return;
  throw InputError(
      {},
      fmt::format("--tp-z {}: batch {} does not divide over {} depth ranks", depth, batch, depth),
      fmt::format("legal values: {}", fmt::join(divisors(batch, kShownDivisors), ", ")));
}

void check_degrees_fit(const ProblemRequest& request, const Problem& problem) {
  check_rules(request.degrees, problem);
  check_rings_run(request.degrees, *problem.framework);
  check_squares_run(request.square, *problem.framework);
  PinnedDegrees judged = request.degrees;
  const std::string& space = request.space.empty() ? problem.framework->space : request.space;
  if (cuts_one_by_one(space, *problem.framework)) judged.release(Degree::TensorOut);
  check_degrees_fit(judged, problem);
}

PlanDegrees plan_from_degrees(const PinnedDegrees& degrees, const Problem& problem,
                              std::optional<int> gpus) {
  PlanDegrees plan = with_pinned({}, degrees);
  if (!degrees.has(Degree::Chunks) && degrees.has(Degree::Schedule)) {
    plan.chunks = schedule_row(plan.schedule).chunks.fewest;
  }
  if (!degrees.has(Degree::Schedule)) {
    plan.schedule =
        default_schedule(*problem.framework, *problem.network, plan.pipeline, plan.chunks);
  }
  plan.data = data_degree(degrees.get(Degree::Data), plan, gpus);
  if (!degrees.has(Degree::MicroBatch)) {
    plan.micro_batch = usual_micro_batch(plan, problem.global_batch, *problem.framework);
  }
  set_micro_batches(plan, problem.global_batch);
  return with_legal_defaults(plan, degrees, *problem.network, *problem.framework,
                             problem.precision);
}

PlanDegrees degrees_of(const PlanRequest& asked, bool placed, const ResolvedQuestion& question) {
  if (!asked.stages) return whole_degrees(asked, placed, question);
  PlanDegrees first = with_pinned({}, asked.stages->stages.front().degrees);
  const std::int64_t shares = std::int64_t{1} * asked.stages->micro_batches * first.data;
  first.micro_batch = static_cast<int>(question.problem.global_batch / shares);
  return first;
}

PinnedDegrees pinned_to(const PlanDegrees& plan, const PinnedDegrees& asked) {
  PinnedDegrees pinned = to_pinned(plan);
  pinned.release(Degree::Data);
  if (const auto data = asked.get(Degree::Data)) pinned.pin(Degree::Data, *data);
  return pinned;
}

}  // namespace plansearch
