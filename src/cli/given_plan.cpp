// SPDX-License-Identifier: Apache-2.0
#include "cli/given_plan.hpp"

#include <fmt/format.h>

#include "cli/degrees.hpp"
#include "plan/legality.hpp"
#include "plansearch/error.hpp"
#include "problem/gpu_count.hpp"

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
void check_devices(const GivenPlan& given) {
  const Cluster& cluster = *given.problem.cluster;
  if (const auto problem = bad_gpu_count(cluster, given.plan.devices())) {
    throw InputError({}, fmt::format("the plan takes {} GPUs: {}", given.plan.devices(), *problem),
                     gpu_count_hint(cluster));
  }
}

}  // namespace

GivenPlan load_given_plan(const AskedOptions& asked) {
  const Options& options = asked.options;
  check_degrees(options.degrees);
  GivenPlan given{load_inputs(asked), {}, {}, {}};
  // What a target cannot express is an answer of its own (below).
  if (options.target.empty()) check_degrees_fit(options.degrees, given.inputs.problem);
  given.plan = plan_from_degrees(options.degrees, given.inputs.problem, given.inputs.gpus);
  given.problem = with_gpus(given.inputs, given.plan.devices());
  check_devices(given);
  const auto infeasible = check_legality(given.plan, *given.problem.network,
                                         *given.problem.framework, given.problem.gpus);
  if (!infeasible) return given;
  const InputError error({},
                         fmt::format("{}: {}", to_text(infeasible->obstacle), infeasible->detail),
                         remedy_for(*infeasible));
  if (options.target.empty() || !is_about_framework(infeasible->obstacle)) throw InputError(error);
  given.inexpressible = error.formatted();
  return given;
}

}  // namespace plansearch::cli
