// SPDX-License-Identifier: Apache-2.0
// Steps of orders that are found. Expected values: sums of a single micro-batch's passes from block
// profiles of two tensor degrees; 1F1B's closed form; steps of one micro-batch more.
#include "evaluate/step/windowed_step.hpp"
#include "evaluate/step/bound_ladder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cost/collective/collective_cost.hpp"
#include "plan/stages/gangs.hpp"
#include "plansearch/plan_report.hpp"
#include "support/toy_class.hpp"
#include "support/uniform_plan.hpp"

namespace plansearch::windowed_step_test {
namespace {

const std::vector<std::string> kEnds{"embedding", "head"};

Problem problem_of(int gpus, std::int64_t batch) {
  test::ToyOptions options;
  options.gpus = gpus;
  options.global_batch = batch;
  return test::with_framework(test::toy_problem(options), [](Framework& framework) {
    framework.shares_devices = true;
    framework.constants.host_launch = Seconds(0);
  });
}

PlanDegrees stages(int pipeline, int tensor, int micro_batches) {
  PlanDegrees degrees;
  degrees.pipeline = pipeline;
  degrees.tensor_out = tensor;
  degrees.micro_batches = micro_batches;
  return degrees;
}

ParallelPlan shared(const Problem& problem, const PlanDegrees& degrees) {
  auto plan =
      with_gangs(test::uniform_plan(problem, degrees), kEnds, *problem.network, *problem.framework);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  return std::get<ParallelPlan>(std::move(plan));
}

struct Priced {
  Estimate estimate;
  PlanDetails details;
};

Priced price(const Problem& problem, const ParallelPlan& plan) {
  const PlanEvaluator evaluator(problem);
  const Evaluation evaluation = evaluator.evaluate(plan);
  REQUIRE(std::holds_alternative<Estimate>(evaluation));
  return {std::get<Estimate>(evaluation), plan_details(evaluator, plan)};
}

/// What the pipeline takes.
double makespan(const PlanDetails& details) {
  return (details.stages.front().busy + details.stages.front().waiting).value();
}

/// A message of so many tiles (512 tokens of 1,024 features in bf16) inside a node.
double message(const Problem& problem, double tiles) {
  const Bytes bytes(tiles * 2.0 * 512 * 1024);
  return (collective_cost(*problem.cluster, CommunicationKind::SendReceive, bytes,
                          ProcessGroup(2, 1), Contention::TrainingStep)
              .time +
          problem.framework->constants.collective_call)
      .value();
}

TEST_SUITE("unit") {
  TEST_CASE("a bound without the order is below the price, and near it") {
    const Problem problem = problem_of(8, 64);
    const PlanEvaluator evaluator(problem);
    for (const auto& [pipeline, tensor, micro_batches] :
         {std::array{2, 4, 64}, {4, 2, 64}, {8, 1, 64}, {4, 2, 8}, {4, 1, 32}}) {
      CAPTURE(pipeline);
      CAPTURE(micro_batches);
      PlanDegrees degrees = stages(pipeline, tensor, micro_batches);
      degrees.data = 8 / pipeline / tensor;
      degrees.micro_batch = 64 / micro_batches / degrees.data;
      const ParallelPlan plan = shared(problem, degrees);
      const Estimate estimate = price(problem, plan).estimate;
      const PlanBound bound = windowless_bound(evaluator, plan);
      CHECK(bound.step_time <= estimate.step.total());
      CHECK(bound.step_time > 0.7 * estimate.step.total());
      CHECK(bound.memory <= estimate.memory.total());
      CHECK(bound.memory > 0.5 * estimate.memory.total());
    }
  }

  // Embedding and head as a tensor group of 8, layers on stages of 2 devices. The embedding's
  // result is on every device already; each of the three stages sends a tile on; the last stage's
  // two devices hold the result that the other six need: whoever lacks it takes in one tile. The
  // gradient goes the same way: to the last stage it is there already, on to the embedding it is
  // one tile again.
  TEST_CASE("one micro-batch passes embedding, stages and head, and back") {
    const Problem problem = problem_of(8, 1);
    const PlanDegrees degrees = stages(4, 2, 1);
    const Priced priced = price(problem, shared(problem, degrees));
    const test::ToyClass layers(problem, degrees);
    const test::ToyClass ends(problem, stages(1, 8, 1));
    double sum = 0.0;
    for (const auto& [from, block, copies] :
         {std::tuple(&ends, "embedding", 1.0), {&layers, "decoder", 8.0}, {&ends, "head", 1.0}}) {
      const auto profile = from->profile(block);
      sum += copies * (profile.forward_length + profile.backward_length).value();
    }
    sum += 2.0 * 4.0 * message(problem, 1.0);
    CHECK(makespan(priced.details) == doctest::Approx(sum).epsilon(1e-9));
    REQUIRE(priced.details.order);
    CHECK(priced.details.order->kept == std::vector{1, 1, 1, 1});
    CHECK(priced.estimate.step.total().value() >= sum);
  }

  TEST_CASE("a step of one micro-batch more is one window longer") {
    for (const int count : {12, 13}) {
      const Problem problem = problem_of(8, count);
      const Priced priced = price(problem, shared(problem, stages(4, 2, count)));
      const Problem more = problem_of(8, count + 1);
      const Priced longer = price(more, shared(more, stages(4, 2, count + 1)));
      REQUIRE(priced.details.order);
      const double window = priced.details.order->window.value();
      CHECK(makespan(longer.details) - makespan(priced.details) ==
            doctest::Approx(window).epsilon(1e-9));
      const double bound = priced.details.order->bound.value();
      CHECK(window >= bound * (1.0 - 1e-9));
      CHECK(window < bound * 1.2);
    }
  }

  // Four stages of equal layers and nothing else, messages beside kernels: 1F1B takes
  // (M + S - 1)(F + B) and what its messages add, and no order of the same window is earlier than
  // the former.
  TEST_CASE("without blocks on all devices it is as good as 1F1B") {
    Problem problem = problem_of(4, 16);
    Network network = *problem.network;
    network.order = {{1, 8}};
    problem.network = std::make_shared<const Network>(network);
    problem = test::with_framework(problem, [](Framework& framework) {
      framework.overlap[static_cast<std::size_t>(Overlap::PipelineSend)].share = 1.0;
    });
    ParallelPlan plan = test::uniform_plan(problem, stages(4, 1, 16));
    const Priced ordered = price(problem, plan);
    plan.order.window = true;
    const Priced found = price(problem, plan);
    const StageReport& stage = found.details.stages.front();
    CHECK(found.details.order->bound.value() ==
          doctest::Approx((stage.forward + stage.backward).value()).epsilon(1e-9));
    CHECK(makespan(found.details) <= makespan(ordered.details) * 1.0001);
    CHECK(makespan(found.details) >= 19.0 * found.details.order->bound.value());
  }

  // A rule that lets a micro-batch in only when the one before has left: one after the other.
  TEST_CASE("rules of the order hold") {
    const Problem problem = problem_of(8, 6);
    ParallelPlan plan = shared(problem, stages(4, 2, 6));
    const double free = makespan(price(problem, plan).details);
    plan.order.rules = {{{0, true}, {0, false}, 1}};  // b.embedding before f.embedding(m+1)
    const Priced alone = price(problem, plan);
    const Problem one = problem_of(8, 1);
    const double single = makespan(price(one, shared(one, stages(4, 2, 1))).details);
    CHECK(makespan(alone.details) == doctest::Approx(6.0 * single).epsilon(1e-9));
    CHECK(alone.details.order->kept == std::vector{1, 1, 1, 1});
    CHECK(free < 0.7 * makespan(alone.details));
    // One kept in place of several: less memory.
    CHECK(alone.estimate.memory.activations <
          price(problem, shared(problem, stages(4, 2, 6))).estimate.memory.activations);
  }

  TEST_CASE("embedding and head are a share of every device, and of no device more") {
    const Problem problem = problem_of(4, 16);
    const PlanDegrees degrees = stages(4, 1, 16);
    const Priced apart = price(problem, test::uniform_plan(problem, degrees));
    const Priced together = price(problem, shared(problem, degrees));
    // 2 layers of 12 H^2 and a quarter of the vocabulary of 51,200, padded to 128 x 4, by 18 bytes
    // a parameter; biases, norms and positions are small.
    const double layer = 12.0 * 1024 * 1024;
    const double vocabulary = 51200.0 * 1024;
    const auto bytes = [](const Priced& priced) {
      const MemoryBreakdown& memory = priced.estimate.memory;
      return (memory.parameters + memory.gradients + memory.optimizer).value();
    };
    CHECK(bytes(together) ==
          doctest::Approx(18.0 * (2.0 * layer + vocabulary / 4.0)).epsilon(0.05));
    CHECK(bytes(apart) == doctest::Approx(18.0 * (2.0 * layer + vocabulary)).epsilon(0.05));
    double most = 0.0;
    double least = 1.0;
    for (const StageReport& stage : together.details.stages) {
      most = std::max(most, (stage.forward + stage.backward).value());
      least = std::min(least, (stage.forward + stage.backward).value());
    }
    CHECK(least > 0.95 * most);
    CHECK(together.estimate.step.total() < apart.estimate.step.total());
    // The loss is a sum over all devices.
    CHECK(std::any_of(together.details.communication.begin(), together.details.communication.end(),
                      [](const PricedCommunication& line) {
                        return line.communication.kind == CommunicationKind::AllReduce &&
                               line.communication.axes.contains(Axis::Out);
                      }));
  }
}

}  // namespace
}  // namespace plansearch::windowed_step_test
