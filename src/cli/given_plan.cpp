// SPDX-License-Identifier: Apache-2.0
#include "cli/given_plan.hpp"

#include <fmt/format.h>

#include "cli/degrees.hpp"
#include "plan/expand.hpp"
#include "plan/legality.hpp"
#include "plansearch/error.hpp"
#include "problem/gpu_count.hpp"
#include "problem/spelled_plan.hpp"

namespace plansearch::cli {
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
           const Options& options, GivenPlan& given) {
  if (!infeasible) return;
  const InputError error(where,
                         fmt::format("{}: {}", to_text(infeasible->obstacle), infeasible->detail),
                         remedy_for(*infeasible));
  if (options.target.empty() || !is_about_framework(infeasible->obstacle)) throw InputError(error);
  given.inexpressible = error.formatted();
}

void take_stages(const io::StagesDocument& stages, const Options& options, GivenPlan& given) {
  const SourceLocation& where = stages.place.where;
  given.plan = spelled_plan(stages, given.inputs.problem);
  const int devices = given.plan.devices();
  check_devices(*given.inputs.problem.cluster, devices, where);
  if (given.inputs.gpus && *given.inputs.gpus != devices) {
    throw InputError(where,
                     fmt::format("the stages take {} GPUs, not {}", devices, *given.inputs.gpus),
                     "leave gpus out, or change the stages");
  }
  given.problem = with_gpus(given.inputs, devices);
  const Problem& problem = given.problem;
  const auto bad = check_plan(given.plan, *problem.network, *problem.framework, problem.gpus,
                              problem.global_batch);
  judge(bad, bad ? place_of(*bad, stages) : where, options, given);
}

void take_degrees(const Options& options, GivenPlan& given) {
  // What a target cannot express is an answer of its own (judge).
  if (options.target.empty()) check_degrees_fit(options.degrees, given.inputs.problem);
  const PlanDegrees degrees =
      plan_from_degrees(options.degrees, given.inputs.problem, given.inputs.gpus);
  check_devices(*given.inputs.problem.cluster, degrees.devices(), {});
  given.degrees = degrees;
  given.problem = with_gpus(given.inputs, degrees.devices());
  const Problem& problem = given.problem;
  judge(check_legality(degrees, *problem.network, *problem.framework, problem.gpus), {}, options,
        given);
  if (given.inexpressible) return;
  auto plan = expand(degrees, *problem.network, *problem.framework);
  if (auto* made = std::get_if<ParallelPlan>(&plan))
    given.plan = std::move(*made);
  else
    judge(std::get<Infeasible>(plan), {}, options, given);
}

}  // namespace

GivenPlan load_given_plan(const AskedOptions& asked) {
  check_degrees(asked.options.degrees);
  GivenPlan given{load_inputs(asked), {}, {}, {}, {}};
  asked.stages ? take_stages(*asked.stages, asked.options, given)
               : take_degrees(asked.options, given);
  return given;
}

}  // namespace plansearch::cli
