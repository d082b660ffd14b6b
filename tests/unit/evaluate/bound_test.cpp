// SPDX-License-Identifier: Apache-2.0
// The bound prunes, so it may never be above what it stands for, whatever the plan.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "evaluate/step/bound_ladder.hpp"
#include "random_plans.hpp"
#include "schedule/passes/pass.hpp"
#include "schedule/table.hpp"
#include "support/rounds.hpp"
#include "support/toy_class.hpp"

namespace plansearch::bound_test {
namespace {

struct Count {
  int plans = 0;
  int pipelines = 0;
  int tight = 0;  ///< known exactly before a profile is
};

/// Knowledge of other plans changes nothing.
void check_alone(const Problem& problem, const PlanDegrees& plan, const Estimate& among) {
  const PlanEvaluator fresh(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  const Estimate alone = fresh.estimate(*fresh.profile(plan), plan, *workspace);
  CHECK(alone.step.total() == among.step.total());
  CHECK(alone.memory == among.memory);
}

/// A plan by its bound, by the closed form and piece by piece.
struct Priced {
  PlanBound bound;
  Estimate estimate;
  Estimate simulated;
};
Priced priced(const PlanEvaluator& evaluator, const PlanDegrees& plan,
              EvaluationWorkspace& workspace) {
  const auto profile = evaluator.profile(plan);
  return {BoundLadder(evaluator, workspace).bound(*profile, plan),
          evaluator.estimate(*profile, plan, workspace),
          evaluator.simulate(*profile, plan, workspace)};
}

/// `change` makes another plan of a drawn one, or none.
template <typename Change>
Count check_bounds(const Problem& problem, unsigned seed, Change change) {
  const PlanEvaluator evaluator(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  BoundLadder ladder(evaluator, *workspace);
  std::mt19937 engine(seed);
  Count count;
  for (int i = 0; i < test::rounds(1500); ++i) {
    auto plan = test::random_plan(engine, evaluator);
    if (plan) plan = change(*plan, engine);
    if (!plan || evaluator.legality(*plan)) continue;
    const auto [bound, estimate, simulated] = priced(evaluator, *plan, *workspace);
    INFO(test::describe(*plan));
    CHECK(bound.step_time <= estimate.step.total() * (1.0 + 1e-9));
    CHECK(bound.step_time <= simulated.step.total() * (1.0 + 1e-9));
    CHECK(bound.memory <= simulated.memory.total() * (1.0 + 1e-12));
    CHECK(bound.step_time > Seconds(0));
    const Seconds early = ladder.bound(Rung::Passes, *plan).step_time;
    CHECK(early <= bound.step_time * (1.0 + 1e-9));
    count.tight += early >= bound.step_time * (1.0 - 1e-9);
    PlanDegrees open = *plan;  // what is still to be chosen below a micro-batch
    open.chunks = 1;
    if (!schedule_row(plan->schedule).joins) open.schedule = kDefaultSchedule;
    const PlanBound placed = ladder.bound(Rung::Placement, open);
    CHECK(placed.step_time <= bound.step_time * (1.0 + 1e-9));
    CHECK(placed.step_time >= degree_bound(evaluator, open).step_time);
    const Seconds worked = ladder.bound(Rung::Kernels, open).step_time;
    CHECK(worked <= bound.step_time * (1.0 + 1e-9));
    CHECK(worked >= placed.step_time);
    open.dispatcher = kAnyDispatcher;
    CHECK(ladder.bound(Rung::Placement, open).step_time <= placed.step_time);
    CHECK(placed.memory == degree_bound(evaluator, open).memory);
    CHECK(simulated.step.bubble >= Seconds(0));
    CHECK(simulated.memory == estimate.memory);
    if (i % 32 == 0) check_alone(problem, *plan, estimate);
    ++count.plans;
    count.pipelines += plan->pipeline > 1;
  }
  return count;
}

/// Alpa's lists and all passes over them: slower and faster than the estimate.
Problem with_passes(PassSet passes) {
  Problem problem = test::with_framework(test::toy_problem(), [&](Framework& framework) {
    framework.overlap.fill({0.0, MessageWait::AtOnce, {}, 1});
    framework.pipeline_lists = PipelineLists::JustInTime;
  });
  problem.passes = passes;
  return problem;
}

Count check_bounds(const Problem& problem, unsigned seed) {
  return check_bounds(problem, seed,
                      [](const PlanDegrees& plan, std::mt19937&) { return std::optional(plan); });
}

/// Exchanges of tokens that orders in pairs hide, over links of two kinds.
Problem with_pairs(double share, MessageWait others) {
  test::ToyOptions options;
  options.experts = 8;
  options.layers = 8;
  options.tied = false;
  Problem problem = test::with_framework(test::toy_problem(options), [&](Framework& framework) {
    framework.schedules = {"1f1b", "interleaved-pairs", "dualpipe"};
    framework.dispatchers.push_back(
        {"deepep", find_dispatcher("deepep").value(), TokenPath::Nodes, 0.8, 0.6, "a table"});
    OverlapRule& exchange = framework.overlap[static_cast<std::size_t>(Overlap::ExpertAllToAll)];
    exchange.share = share;
    exchange.joined = true;
    exchange.any_dispatcher = others == MessageWait::Use;
    for (const Overlap kind : {Overlap::TensorParallel, Overlap::ContextRing}) {
      framework.overlap[static_cast<std::size_t>(kind)].wait = others;
    }
  });
  Cluster cluster = *problem.cluster;
  cluster.accelerators_per_node = 2;
  problem.cluster = std::make_shared<const Cluster>(std::move(cluster));
  return problem;
}

/// The same plan under an order in pairs, tokens on either path.
std::optional<PlanDegrees> in_pairs(PlanDegrees plan, std::mt19937& engine) {
  if (plan.pipeline == 1 || plan.expert == 1) return std::nullopt;
  const bool chunks = engine() % 2 == 0;
  plan.chunks = chunks ? 2 : 1;
  plan.schedule = *find_schedule(chunks ? "interleaved-pairs" : "dualpipe");
  if (engine() % 2 == 0) plan.dispatcher = *find_dispatcher("deepep");
  return plan;
}

Problem with_rule(const test::ToyOptions& options, OverlapRule rule) {
  return test::with_framework(test::toy_problem(options),
                              [&](Framework& framework) { framework.overlap.fill(rule); });
}

TEST_SUITE("property") {
  TEST_CASE("bound <= estimate and bound <= simulation for every kind of plan") {
    test::ToyOptions experts;
    experts.experts = 8;
    experts.imbalance = 1.3;
    experts.tied = false;
    unsigned seed = 1;
    for (const test::ToyOptions& options : {test::ToyOptions{}, experts}) {
      for (const Problem& problem :
           {test::toy_problem(options), with_rule(options, {0.9, MessageWait::AtOnce, {}, 1}),
            with_rule(options, {0.0, MessageWait::AtOnce, {}, 1}),
            with_rule(options, {0.3, MessageWait::Use, {}, 1}),
            with_rule(options, {0.0, MessageWait::Use, {}, 1})}) {
        const Count count = check_bounds(problem, seed++);
        CHECK(count.tight > test::rounds(50));
        CHECK(count.plans > test::rounds(200));
        CHECK(count.pipelines > test::rounds(50));
      }
    }
  }

  TEST_CASE("bound <= estimate and bound <= simulation for orders in pairs") {
    unsigned seed = 41;
    for (const double share : {0.0, 0.4}) {
      for (const MessageWait others : {MessageWait::AtOnce, MessageWait::Use}) {
        CHECK(check_bounds(with_pairs(share, others), seed++, in_pairs).plans > test::rounds(30));
      }
    }
  }

  TEST_CASE("bound <= simulation under passes over the lists of a step") {
    for (const PassSet passes : {PassSet{0}, all_passes()}) {
      const PlanEvaluator evaluator(with_passes(passes));
      const auto workspace = PlanEvaluator::make_workspace();
      std::mt19937 engine(61);
      int faster = 0;
      int slower = 0;
      for (int i = 0; i < test::rounds(1500); ++i) {
        const auto plan = test::random_plan(engine, evaluator);
        if (!plan || evaluator.legality(*plan)) continue;
        const auto [bound, estimate, simulated] = priced(evaluator, *plan, *workspace);
        INFO(test::describe(*plan));
        CHECK(bound.step_time <= simulated.step.total() * (1.0 + 1e-9));
        CHECK(bound.memory <= simulated.memory.total() * (1.0 + 1e-12));
        faster += simulated.step.total() < estimate.step.total() * (1.0 - 1e-6);
        slower += simulated.step.total() > estimate.step.total() * (1.0 + 1e-6);
      }
      CHECK(slower > test::rounds(10));
      CHECK((faster > test::rounds(10)) == (passes != 0));
    }
  }

  TEST_CASE("one slow link, launch or byte of traffic more never makes a step faster") {
    using C = FrameworkConstants;
    const std::initializer_list<std::variant<double C::*, Seconds C::*>> dearer{
        &C::host_launch,      &C::host_step,          &C::collective_call,
        &C::attention_factor, &C::accumulation_bytes, &C::optimizer_factor};
    for (const auto& constant : dearer) {
      const PlanEvaluator before(test::toy_problem());
      const PlanEvaluator after(test::with_framework(test::toy_problem(), [&](Framework& f) {
        std::visit([&](auto field) { f.constants.*field = f.constants.*field * 1.5; }, constant);
      }));
      const auto workspace = PlanEvaluator::make_workspace();
      std::mt19937 engine(5);
      bool slower = false;
      for (int i = 0; i < 60; ++i) {
        const auto plan = test::random_plan(engine, before);
        if (!plan) continue;
        const auto total = [&](const PlanEvaluator& e) {
          return e.simulate(*e.profile(*plan), *plan, *workspace).step.total();
        };
        INFO(constant.index() << ": " << test::describe(*plan));
        CHECK(total(after) >= total(before) * (1.0 - 1e-9));
        slower = slower || total(after) > total(before);
      }
      CHECK(slower);
    }
  }
}

}  // namespace
}  // namespace plansearch::bound_test
