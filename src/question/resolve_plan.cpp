// SPDX-License-Identifier: Apache-2.0
#include "question/resolve_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/legality/legality.hpp"
#include "plan/placements/check_placements.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plan/stages/expand.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/plan_stages.hpp"
#include "question/degrees.hpp"
#include "question/filled_degrees.hpp"
#include "question/framework_names.hpp"
#include "question/gpu_count.hpp"
#include "question/other_model.hpp"

namespace plansearch {
namespace {

bool is_about_framework(Obstacle obstacle) {
  return obstacle == Obstacle::FrameworkForbids || obstacle == Obstacle::NoSuchFeature;
}

/// What to change about a plan that is not legal, where the obstacle itself does not say.
std::string remedy_for(const Infeasible& infeasible) {
  if (std::string legal = legal_values_text(infeasible); !legal.empty()) return legal;
  switch (infeasible.obstacle) {
    case Obstacle::FrameworkForbids:
    case Obstacle::NoSuchFeature:
      return "change the degrees, or price it as another framework: plansearch list frameworks";
    case Obstacle::ScheduleNeedsMicroBatches:
      return "change --batch, --dp or --micro-batch, or use --schedule 1f1b";
    default:
      return "leave a degree out and plansearch search finds what fits";
  }
}

/// The GPUs the plan takes must be a number the machine can give, and the question's.
void check_devices(const ResolvedQuestion& asked, int devices, const SourceLocation& where) {
  const Cluster& cluster = *asked.problem.cluster;
  if (const auto problem = bad_gpu_count(cluster, devices)) {
    throw InputError(where, fmt::format("the plan takes {} GPUs: {}", devices, *problem),
                     gpu_count_hint(cluster));
  }
  if (asked.gpus.value_or(devices) == devices) return;
  throw InputError(where, fmt::format("the stages take {} GPUs, not {}", devices, *asked.gpus),
                   "leave gpus out, or change the stages");
}

/// Refuses the plan, or notes that the target cannot express it.
void judge(const std::optional<Infeasible>& infeasible, const SourceLocation& where,
           const ProblemRequest& request, ResolvedPlan& given) {
  if (!infeasible) return;
  const InputError error(where,
                         fmt::format("{}: {}", to_text(infeasible->obstacle), infeasible->detail),
                         remedy_for(*infeasible));
  if (request.target.empty() || !is_about_framework(infeasible->obstacle)) throw InputError(error);
  given.inexpressible = error.formatted();
}

/// Makes the layers that are cut differently blocks of their own. The tensor degree is the same in
/// all stages.
Placements take_placements(const io::PlacementsDocument& document, const PlanDegrees& degrees,
                           ResolvedPlan& given) {
  const Problem& problem = given.asked.problem;
  auto made = resolve_placements(document.names, *problem.network, degrees, *problem.framework);
  if (const auto* fault = std::get_if<PlacementFault>(&made)) {
    throw InputError(document.where(*fault), fault->message, fault->hint);
  }
  auto& distinguished = std::get<DistinguishedNetwork>(made);
  given.asked.problem.network = std::move(distinguished.network);
  return std::move(distinguished.placements);
}

void judge_steps(OperatorSteps steps, const SourceLocation& where, const ProblemRequest& request,
                 ResolvedPlan& given) {
  auto bad = check_steps(*given.problem.framework, steps);
  if (bad) {
    bad->legal_words =
        run_by([&](const Framework& other) { return runs_steps(other.operator_steps, steps); });
  }
  judge(bad, where, request, given);
}

/// Places the operators of a plan; what a target runs follows from roles alone.
void place_operators(const Placements& placements, const io::PlacementsDocument& document,
                     const ProblemRequest& request, ResolvedPlan& given) {
  const Problem& problem = given.problem;
  auto placed =
      with_placements(std::move(given.plan), placements, *problem.network, *problem.framework);
  if (const auto* bad = std::get_if<Infeasible>(&placed)) {
    throw InputError(document.place.where,
                     fmt::format("{}: {}", to_text(bad->obstacle), bad->detail), remedy_for(*bad));
  }
  given.plan = std::get<ParallelPlan>(std::move(placed));
  if (placements.in_pieces()) {
    auto bad = check_pieces(*problem.framework);
    if (bad) bad->legal_words = run_by([](const Framework& other) { return other.runs_pieces; });
    judge(bad, document.place.where, request, given);
    if (placements.by_role() || given.inexpressible) return;
  }
  if (placements.over_squares() || placements.over_rings()) {
    return judge_steps(placements.over_squares() ? OperatorSteps::Squares : OperatorSteps::Rings,
                       document.place.where, request, given);
  }
  if (request.target.empty()) return;
  const InputError error(
      document.place.where,
      fmt::format("{} cuts operators by the role of their dimensions, not one by one",
                  problem.framework->name),
      "leave placements out for plans that it runs");
  given.inexpressible = error.formatted();
}

/// What the plan file says of operators, or what squares for all linear ones come to.
io::PlacementsDocument placements_asked(const PlanRequest& asked, const PlanDegrees& degrees,
                                        const Problem& problem) {
  const std::string& square = asked.request.square;
  if (square.empty()) return *asked.placements;
  auto made = square_placements(*problem.network, degrees, square_side(square));
  if (const auto* fault = std::get_if<PlacementFault>(&made)) {
    throw InputError({}, fmt::format("--temporal {}: {}", square, fault->message), fault->hint);
  }
  return {std::get<PlacementNames>(std::move(made)), {}, {}, {}};
}

bool over_rings(const io::PlacementsDocument& document) {
  const std::vector<PlacementEntry>& entries = document.names.operators;
  return std::any_of(entries.begin(), entries.end(),
                     [](const PlacementEntry& entry) { return entry.ring.has_value(); });
}

/// Of the first stage, which all have the tensor degree of.
PlanDegrees first_degrees(const io::StagesDocument& stages, const Problem& problem) {
  PlanDegrees first = with_pinned({}, stages.stages.front().degrees);
  const std::int64_t shares = std::int64_t{1} * stages.micro_batches * first.data;
  first.micro_batch = static_cast<int>(problem.global_batch / shares);
  return first;
}

/// Whether no operator is cut over devices in a way of its own.
bool by_role(const io::PlacementsDocument& document) {
  return document.names.operators.empty() && document.names.edges.empty();
}

/// Of a plan without stages. Where operators are placed one by one, no rule by role speaks of the
/// whole tensor group; rings bring together and take apart what lies over its tokens.
PlanDegrees whole_degrees(const PlanRequest& asked, bool placed, const ResolvedQuestion& question) {
  PinnedDegrees pinned = asked.request.degrees;
  const bool by_rule = !placed || (asked.placements && by_role(*asked.placements));
  if (!by_rule && !pinned.has(Degree::SequenceParallel)) {
    pinned.pin(Degree::SequenceParallel, asked.placements && over_rings(*asked.placements) ? 1 : 0);
  }
  // What a target cannot express is an answer of its own (judge).
  if (!placed && asked.request.target.empty()) check_degrees_fit(pinned, question.problem);
  const PlanDegrees degrees = plan_from_degrees(pinned, question.problem, question.gpus);
  check_devices(question, degrees.devices(), {});
  return degrees;
}

/// The plan of degrees; nothing where the target cannot express it.
bool expand_degrees(const PlanDegrees& degrees, bool placed, const ProblemRequest& request,
                    ResolvedPlan& given) {
  const Problem& problem = given.problem;
  if (!placed) {
    given.degrees = degrees;
    if (degrees.temporal == Temporal::Ring) judge_steps(OperatorSteps::Rings, {}, request, given);
    if (given.inexpressible) return false;
    judge(check_legality(degrees, *problem.network, *problem.framework, problem.gpus,
                         problem.precision),
          {}, request, given);
    if (given.inexpressible) return false;
  }
  auto plan = expand(degrees, *problem.network, *problem.framework);
  if (const auto* bad = std::get_if<Infeasible>(&plan)) {
    judge(*bad, {}, request, given);
    return false;
  }
  given.plan = std::get<ParallelPlan>(std::move(plan));
  return true;
}

/// One plan has one value of everything.
void refuse_several(const ProblemRequest& request) {
  std::string what;
  for (const DegreeRow& row : degree_table()) {
    if (!request.limits.has(row.degree)) continue;
    what = fmt::format("{} {}", flag_of(key_of(row.degree, {})), request.limits.text(row.degree));
  }
  if (!request.gpu_list.empty()) what = "a list of --gpus";
  if (!request.node_list.empty()) what = "a list of --nodes";
  if (!request.batch_list.empty()) what = "a list of --batch";
  if (!request.seq_len_list.empty()) what = "a list of --seq-len";
  if (what.empty()) return;
  throw InputError({}, fmt::format("{}: one plan has one value", what),
                   "give one, or search among them: plansearch search with the same flags");
}

const SourceLocation& place_of_shared(const PlanRequest& asked) {
  return asked.shared ? asked.shared->places.front().where : asked.window->place.where;
}

ResolvedPlan settled_plan(const PlanRequest& asked, const ProblemFiles& files) {
  ResolvedPlan given{resolve_question(asked.request, files), {}, {}, {}, {}, {}, {}};
  const bool squares = !asked.request.square.empty();
  const bool rings =
      asked.request.degrees.get(Degree::Temporal) == static_cast<int>(Temporal::Ring);
  if ((squares && (asked.stages || asked.placements)) || (rings && asked.placements)) {
    throw InputError({}, "--temporal beside a plan that says how its operators are cut",
                     "leave one of them out; placements: takes square: for single operators");
  }
  const bool placed = squares || asked.placements;
  Problem& problem = given.asked.problem;
  const PlanDegrees degrees = asked.stages ? first_degrees(*asked.stages, problem)
                                           : whole_degrees(asked, placed, given.asked);
  std::optional<io::PlacementsDocument> document;
  Placements placements;
  if (placed) {
    document = placements_asked(asked, degrees, problem);
    placements = take_placements(*document, degrees, given);
  }
  if (asked.stages) {
    given.plan = spelled_plan(*asked.stages, problem, placed);
    check_devices(given.asked, given.plan.devices(), asked.stages->place.where);
  }
  given.problem = with_gpus(given.asked, asked.stages ? given.plan.devices() : degrees.devices());
  if (!asked.stages && !expand_degrees(degrees, placed, asked.request, given)) return given;
  if (placed) place_operators(placements, *document, asked.request, given);
  const bool shares = asked.shared || asked.window;
  if (shares && !given.inexpressible) share_devices(asked, given);
  if (!placed && !asked.stages && !shares) return given;  // check_legality has seen all
  const auto bad = check_plan(given.plan, *problem.network, *problem.framework, given.problem.gpus,
                              problem.global_batch, problem.precision);
  const auto where = [&] {
    if (!asked.stages && !document) return place_of_shared(asked);
    if (!asked.stages) return document->place.where;
    return bad ? place_of(*bad, *asked.stages) : asked.stages->place.where;
  };
  judge(bad, where(), asked.request, given);
  return given;
}

}  // namespace

ResolvedPlan resolve_plan(const PlanRequest& asked) {
  if (asked.transform || asked.assign) {
    const ResolvedQuestion question = load_problem(asked.request);
    return resolve_plan(without_primitives(asked, *question.problem.network));
  }
  refuse_several(asked.request);
  check_degrees(asked.request.degrees);
  return resolve_plan(asked, read_problem_files(asked.request));
}

ResolvedPlan resolve_plan(const PlanRequest& asked, const ProblemFiles& files) {
  const std::string other = other_model(asked, files);
  try {
    ResolvedPlan given = settled_plan(asked, files);
    if (!other.empty()) given.asked.notes.push_back("note: " + other);
    note_filled(asked, given);
    return given;
  } catch (const InputError& error) {
    if (other.empty()) throw;
    const std::string own = "leave --model out; plansearch search finds plans of this model";
    throw InputError(error.where(), fmt::format("{}; {}", error.what(), other),
                     error.hint().empty() ? own : error.hint() + "; or " + own);
  }
}

}  // namespace plansearch
