// SPDX-License-Identifier: Apache-2.0
#include "problem/given_plan.hpp"

#include <fmt/format.h>

#include "plan/expand.hpp"
#include "plan/legality.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "problem/degrees.hpp"
#include "problem/gpu_count.hpp"
#include "problem/spelled_plan.hpp"

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

/// The GPUs the plan takes must be a number the machine can give.
void check_devices(const Cluster& cluster, int devices, const SourceLocation& where) {
  if (const auto problem = bad_gpu_count(cluster, devices)) {
    throw InputError(where, fmt::format("the plan takes {} GPUs: {}", devices, *problem),
                     gpu_count_hint(cluster));
  }
}

/// Refuses the plan, or notes that the target cannot express it.
void judge(const std::optional<Infeasible>& infeasible, const SourceLocation& where,
           const ProblemRequest& request, GivenPlan& given) {
  if (!infeasible) return;
  const InputError error(where,
                         fmt::format("{}: {}", to_text(infeasible->obstacle), infeasible->detail),
                         remedy_for(*infeasible));
  if (request.target.empty() || !is_about_framework(infeasible->obstacle)) throw InputError(error);
  given.inexpressible = error.formatted();
}

void take_stages(const io::StagesDocument& stages, const ProblemRequest& request,
                 GivenPlan& given) {
  const SourceLocation& where = stages.place.where;
  given.plan = spelled_plan(stages, given.asked.problem);
  const int devices = given.plan.devices();
  check_devices(*given.asked.problem.cluster, devices, where);
  if (given.asked.gpus && *given.asked.gpus != devices) {
    throw InputError(where,
                     fmt::format("the stages take {} GPUs, not {}", devices, *given.asked.gpus),
                     "leave gpus out, or change the stages");
  }
  given.problem = with_gpus(given.asked, devices);
  const Problem& problem = given.problem;
  const auto bad = check_plan(given.plan, *problem.network, *problem.framework, problem.gpus,
                              problem.global_batch, problem.precision);
  judge(bad, bad ? place_of(*bad, stages) : where, request, given);
}

void take_degrees(const ProblemRequest& request, GivenPlan& given) {
  // What a target cannot express is an answer of its own (judge).
  if (request.target.empty()) check_degrees_fit(request.degrees, given.asked.problem);
  const PlanDegrees degrees =
      plan_from_degrees(request.degrees, given.asked.problem, given.asked.gpus);
  check_devices(*given.asked.problem.cluster, degrees.devices(), {});
  given.degrees = degrees;
  given.problem = with_gpus(given.asked, degrees.devices());
  const Problem& problem = given.problem;
  judge(check_legality(degrees, *problem.network, *problem.framework, problem.gpus,
                       problem.precision),
        {}, request, given);
  if (given.inexpressible) return;
  auto plan = expand(degrees, *problem.network, *problem.framework);
  if (auto* made = std::get_if<ParallelPlan>(&plan))
    given.plan = std::move(*made);
  else
    judge(std::get<Infeasible>(plan), {}, request, given);
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

}  // namespace

GivenPlan load_given_plan(const AskedPlan& asked) {
  refuse_several(asked.request);
  check_degrees(asked.request.degrees);
  GivenPlan given{load_problem(asked.request), {}, {}, {}, {}};
  asked.stages ? take_stages(*asked.stages, asked.request, given)
               : take_degrees(asked.request, given);
  return given;
}

}  // namespace plansearch
