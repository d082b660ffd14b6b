// SPDX-License-Identifier: Apache-2.0
// The parts of a step against sums made by hand. The toy network: 8 layers of 12 h^2 + 4 h
// parameters (two norms with bias), a table of 51200 h that the head shares or has a second time,
// a final norm of 2 h; h = 1024.
#include <doctest/doctest.h>

#include "cost/kernels/compute_cost.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "schedule/table.hpp"
#include "support/toy_class.hpp"
#include "unit/schedule/pipeline_support.hpp"

namespace plansearch::step_model_test {
namespace {

constexpr double kHidden = 1024;
constexpr double kLayer = 12 * kHidden * kHidden + 4 * kHidden;
constexpr double kTable = 51200 * kHidden;
constexpr double kTied = 8 * kLayer + kTable + 2 * kHidden;
constexpr double kUntied = kTied + kTable;

Problem untied(std::int64_t global_batch = 32) {
  test::ToyOptions options;
  options.tied = false;
  options.global_batch = global_batch;
  return test::toy_problem(options);
}

PlanDegrees plan_of(int data, int tensor, int pipeline, int micro_batches) {
  PlanDegrees plan;
  plan.data = data;
  plan.tensor_out = tensor;
  plan.pipeline = pipeline;
  plan.micro_batches = micro_batches;
  return plan;
}

/// One evaluator and everything it says about one plan.
struct Priced {
  Priced(const PlanEvaluator& evaluator, const PlanDegrees& plan) {
    const auto workspace = PlanEvaluator::make_workspace();
    const auto profile = evaluator.profile(plan);
    simulated = evaluator.simulate(*profile, plan, *workspace);
    estimate = evaluator.estimate(*profile, plan, *workspace);
    PlanDetails details = plan_details(evaluator, plan, *workspace);
    lines = std::move(details.communication);
    stages = std::move(details.stages);
  }
  [[nodiscard]] std::vector<PricedCommunication> on(Purpose purpose) const {
    std::vector<PricedCommunication> found;
    for (const PricedCommunication& line : lines) {
      if (purpose_of(line.communication) == purpose) found.push_back(line);
    }
    return found;
  }
  [[nodiscard]] Seconds exposed(Purpose purpose) const {
    return simulated.step.exposed[static_cast<std::size_t>(purpose)];
  }
  Estimate simulated;
  Estimate estimate;
  std::vector<PricedCommunication> lines;
  std::vector<StageReport> stages;
};

/// 1F1B over the stages of a plan, played step by step.
PipelineResult played(const std::vector<StageReport>& stages, int micro_batches,
                      double message_share) {
  PipelineShape shape;
  shape.stages = static_cast<int>(stages.size());
  shape.micro_batches = micro_batches;
  shape.transfers = TransferMode::Blocking;  // what the toy's framework does under 1F1B
  PipelineDurations times;
  for (const StageReport& stage : stages) {
    times.forward.push_back(to_ticks(stage.forward));
    times.backward.push_back(to_ticks(stage.backward));
    times.activation_transfer.push_back(to_ticks(message_share * stage.edge_time));
  }
  times.activation_transfer.pop_back();
  times.gradient_transfer = times.activation_transfer;
  const ComputeOrder order = order_of(shape);
  return testing::PlainSimulator(order, times.view(), shape.transfers).run().value();
}

TEST_SUITE("unit") {
  TEST_CASE("one device: every kernel of every micro-batch, then the optimizer") {
    test::ToyOptions options;
    options.gpus = 1;
    options.global_batch = 4;
    const PlanEvaluator evaluator(test::toy_problem(options));
    const PlanDegrees plan = plan_of(1, 1, 1, 4);
    const Priced priced(evaluator, plan);
    const test::ToyClass toy(test::toy_problem(options), plan);
    Seconds kernels;
    for (const BlockRun& run : toy.network().order) {
      for (const OperatorTime& time : toy.times(toy.network().blocks[run.block])) {
        kernels += (time.forward + time.backward) * static_cast<double>(run.count);
      }
    }
    const StepTimeBreakdown& step = priced.simulated.step;
    CHECK(step.compute.value() == doctest::Approx(4 * kernels.value()).epsilon(1e-9));
    CHECK(step.recompute == Seconds(0));
    CHECK(step.bubble == Seconds(0));
    // fp32 gradient read (4), master and two moments read and written (24), bf16 parameter written
    // (2): 30 bytes per parameter, times 1.1.
    CHECK(step.optimizer.value() ==
          doctest::Approx(stream_time(toy.chip(), Bytes(30 * 1.1 * kTied), 1).value()));
  }

  TEST_CASE("full recompute runs the layers forward once more, neither embedding nor head") {
    test::ToyOptions options;
    options.gpus = 1;
    options.global_batch = 4;
    const PlanEvaluator evaluator(test::toy_problem(options));
    PlanDegrees plan = plan_of(1, 1, 1, 4);
    const Seconds compute = Priced(evaluator, plan).simulated.step.compute;
    plan.recompute = Recompute::Full;
    const StepTimeBreakdown step = Priced(evaluator, plan).simulated.step;
    const test::ToyClass toy(test::toy_problem(options), plan);
    Seconds layer;
    for (const OperatorTime& time : toy.times(toy.block("decoder"))) layer += time.forward;
    CHECK(step.recompute.value() == doctest::Approx(4 * 8 * layer.value()).epsilon(1e-9));
    CHECK(step.compute.value() == doctest::Approx(compute.value()).epsilon(1e-12));
  }

  TEST_CASE("under ZeRO-1 each rank updates its own piece") {
    const PlanEvaluator evaluator(test::toy_problem());
    PlanDegrees plan = plan_of(16, 1, 1, 2);
    plan.zero = ZeroStage::Optimizer;
    const Accelerator& chip = evaluator.problem().cluster->accelerator;
    CHECK(Priced(evaluator, plan).simulated.step.optimizer.value() ==
          doctest::Approx(stream_time(chip, Bytes(30 * 1.1 * kTied / 16), 1).value()));
  }

  TEST_CASE("under ZeRO-1 the ranks of an expert share its update, all ranks that of the rest") {
    // 8 experts on 2 ranks, 8 replicas of each half: a rank holds half of the experts and updates
    // an eighth of them, and a sixteenth of all else. Per layer: 4 h^2 of attention, 4 h of norms,
    // 8 h of router, 8 experts of 8 h^2.
    test::ToyOptions options;
    options.experts = 8;
    const PlanEvaluator evaluator(test::toy_problem(options));
    PlanDegrees plan = plan_of(16, 1, 1, 2);
    plan.expert = 2;
    plan.zero = ZeroStage::Optimizer;
    const double experts = 8.0 * 8 * 8 * kHidden * kHidden;
    const double dense = 8 * (4 * kHidden * kHidden + 12 * kHidden) + kTable + 2 * kHidden;
    const Accelerator& chip = evaluator.problem().cluster->accelerator;
    CHECK(Priced(evaluator, plan).simulated.step.optimizer.value() ==
          doctest::Approx(
              stream_time(chip, Bytes(30 * 1.1 * (experts / 2 / 8 + dense / 16)), 1).value()));
  }

  TEST_CASE("a global gradient norm makes all optimizers wait, and the slowest ends the step") {
    // Two stages; the first ends last and, its table frozen, updates 4 layers, the last the head as
    // well: 51200 h + 2 h parameters more, 30 bytes each, times 1.1.
    const auto total = [](OptimizerStart start) {
      test::ToyOptions options;
      options.tied = false;
      options.gpus = 2;
      const Problem frozen = test::with_network(test::toy_problem(options), [](Network& network) {
        for (Parameter& parameter : network.blocks.front().parameters) {
          parameter.trainable = Trainable::No;
        }
      });
      const PlanEvaluator evaluator(test::with_framework(
          frozen, [&](Framework& framework) { framework.optimizer_start = start; }));
      return Priced(evaluator, plan_of(1, 1, 2, 32)).simulated.step.total();
    };
    const Problem problem = test::toy_problem();
    const Accelerator& chip = problem.cluster->accelerator;
    const Bytes more(30 * 1.1 * (kTable + 2 * kHidden));
    CHECK((total(OptimizerStart::Together) - total(OptimizerStart::PerDevice)).value() ==
          doctest::Approx((stream_time(chip, more, 1) - stream_time(chip, Bytes(0), 1)).value()));
  }

  TEST_CASE("the host of a stage handles the tensors of that stage") {
    // Two stages of 4 layers with 10 tensors each (two norms with bias, query, key, value, output,
    // two of the MLP). The last, which is the busiest, has the table and the final norm as
    // well: 43. Tensors that nothing shards are no DTensors.
    const auto host = [](double per_tensor, ZeroStage zero) {
      const PlanEvaluator evaluator(test::with_framework(
          test::toy_problem(),
          [&](Framework& framework) { framework.constants.host_parameter = Seconds(per_tensor); }));
      PlanDegrees plan = plan_of(8, 1, 2, 4);
      plan.zero = zero;
      return Priced(evaluator, plan).simulated.step.host;
    };
    const Seconds more = host(1e-3, ZeroStage::Optimizer) - host(0.0, ZeroStage::Optimizer);
    CHECK(more.value() == doctest::Approx(43e-3).epsilon(1e-9));
    CHECK(host(1e-3, ZeroStage::None) == host(0.0, ZeroStage::None));
  }

  TEST_CASE("every tensor is cut into slices by the ranks that share its states") {
    // The same 43 tensors, cut over 8 data ranks, or 4 with a shard group; whole without ZeRO.
    const auto host = [](double per_slice, ZeroStage zero, int shard_group) {
      const PlanEvaluator evaluator(test::with_framework(
          test::toy_problem(),
          [&](Framework& framework) { framework.constants.host_slice = Seconds(per_slice); }));
      PlanDegrees plan = plan_of(8, 1, 2, 4);
      plan.zero = zero;
      plan.shard_group = shard_group;
      return Priced(evaluator, plan).simulated.step.host.value();
    };
    const auto slices = [&](ZeroStage zero, int group) {
      return host(1e-4, zero, group) - host(0.0, zero, group);
    };
    CHECK(slices(ZeroStage::Optimizer, 0) == doctest::Approx(43 * 8 * 1e-4).epsilon(1e-9));
    CHECK(slices(ZeroStage::Optimizer, 4) == doctest::Approx(43 * 4 * 1e-4).epsilon(1e-9));
    CHECK(slices(ZeroStage::None, 0) == 0.0);
  }

  TEST_CASE("gradients are summed once per step, in fp32, however many micro-batches there are") {
    for (const int micro_batches : {1, 2, 8}) {
      const PlanEvaluator evaluator(untied(16 * micro_batches));
      const Priced priced(evaluator, plan_of(16, 1, 1, micro_batches));
      double calls = 0.0;
      double sent = 0.0;
      for (const PricedCommunication& line : priced.on(Purpose::Data)) {
        CHECK(line.communication.kind == CommunicationKind::AllReduce);
        CHECK(line.communication.group_size == 16);
        calls += line.count;
        sent += line.wire_bytes.value();
      }
      CHECK(calls == 1);
      CHECK(sent == doctest::Approx(2.0 * 15 / 16 * 4 * kUntied));
    }
  }

  // Both uses of a tied table on one stage add into one gradient.
  TEST_CASE("a tied table on one stage is summed once") {
    const PlanEvaluator evaluator(test::toy_problem());
    double bytes = 0.0;
    for (const PricedCommunication& line :
         Priced(evaluator, plan_of(16, 1, 1, 2)).on(Purpose::Data)) {
      bytes += line.bytes.value();
    }
    CHECK(bytes == doctest::Approx(4 * kTied));
  }

  TEST_CASE("ZeRO-1 scatters fp32 gradients and gathers bf16 parameters") {
    const PlanEvaluator evaluator(untied());
    PlanDegrees plan = plan_of(16, 1, 1, 2);
    plan.zero = ZeroStage::Optimizer;
    const auto lines = Priced(evaluator, plan).on(Purpose::Data);
    REQUIRE(lines.size() == 2);
    for (const PricedCommunication& line : lines) {
      const bool gather = line.communication.kind == CommunicationKind::AllGather;
      CHECK((gather || line.communication.kind == CommunicationKind::ReduceScatter));
      CHECK(line.bytes.value() == doctest::Approx((gather ? 2 : 4) * kUntied));
      CHECK(line.count == 1);
    }
  }

  // 16 broadcasts of a sixteenth each: the same bytes, the latency of the ring 16 times.
  TEST_CASE("parameters that every owner broadcasts move the same bytes and wait for each owner") {
    PlanDegrees plan = plan_of(16, 1, 1, 2);
    plan.zero = ZeroStage::Optimizer;
    const auto gather = [&](StepGather how) {
      const PlanEvaluator evaluator(test::with_framework(
          untied(), [&](Framework& framework) { framework.sharding.step_gather = how; }));
      for (const PricedCommunication& line : Priced(evaluator, plan).on(Purpose::Data)) {
        if (line.communication.kind == CommunicationKind::AllGather) return line;
      }
      return PricedCommunication{};
    };
    const PricedCommunication together = gather(StepGather::Together);
    const PricedCommunication by_owner = gather(StepGather::ByOwner);
    CHECK(by_owner.bytes == together.bytes);
    CHECK(by_owner.wire_bytes.value() == doctest::Approx(together.wire_bytes.value()));
    CHECK(by_owner.time > together.time * 1.01);
    CHECK(by_owner.time < together.time * 16.0);
  }

  TEST_CASE("Megatron: two all-reduces forward and two backward for every layer") {
    // Messages of one sequence: 512 x 1024 in bf16. 8 layers, 4 micro-batches; the embedding sums
    // its rows forward, the head the gradient of its input backward.
    const PlanEvaluator evaluator(test::toy_problem());
    const Priced priced(evaluator, plan_of(8, 2, 1, 4));
    double calls = 0.0;
    for (const PricedCommunication& line : priced.on(Purpose::Tensor)) {
      if (line.bytes.value() != 2.0 * 512 * 1024) continue;
      CHECK(line.communication.kind == CommunicationKind::AllReduce);
      CHECK(line.communication.group_size == 2);
      calls += line.count;
    }
    CHECK(calls == 4 * (8 * 4 + 2));
  }

  TEST_CASE("messages of a recomputed forward are counted again") {
    // Of every layer the two all-reduces forward; neither that of the embedding nor the head's.
    const PlanEvaluator evaluator(test::toy_problem());
    PlanDegrees plan = plan_of(8, 2, 1, 4);
    plan.recompute = Recompute::Full;
    double calls = 0.0;
    const Priced priced(evaluator, plan);
    for (const PricedCommunication& line : priced.on(Purpose::Tensor)) {
      if (line.bytes.value() == 2.0 * 512 * 1024) calls += line.count;
    }
    CHECK(calls == 4 * (8 * (4 + 2) + 2));
  }

  TEST_CASE("one micro-batch through two stages: one message forth and one back") {
    // Nothing hides them: F0, c, F1, B1, c, B0. The tied table is summed after it.
    test::ToyOptions options;
    options.global_batch = 8;
    const PlanEvaluator evaluator(test::toy_problem(options));
    const Priced priced(evaluator, plan_of(8, 1, 2, 1));
    Seconds expected;
    double messages = 0.0;
    for (const PricedCommunication& line : priced.on(Purpose::Pipeline)) {
      if (line.communication.kind == CommunicationKind::SendReceive) {
        CHECK(line.bytes.value() == 2.0 * 512 * 1024);
        messages += line.count;
        expected += 2.0 * line.time;
      } else {
        CHECK(line.communication.kind == CommunicationKind::AllReduce);
        CHECK(line.bytes.value() == 4.0 * kTable);
        expected += line.exposed;
      }
    }
    CHECK(messages == 1);  // what the busiest device sends; its way back is the other one's
    CHECK(priced.exposed(Purpose::Pipeline).value() ==
          doctest::Approx(expected.value()).epsilon(1e-6));
    CHECK(expected > Seconds(0));
  }

  TEST_CASE("messages between stages that fill a node each leave the node") {
    // Nodes of 8: stages of 8 ranks stand on a node each, two stages of 4 share one.
    const auto priced = [](int data) {
      return Priced(PlanEvaluator(untied(data)), plan_of(data, 1, 2, 1));
    };
    const Priced apart = priced(8);
    CHECK(apart.exposed(Purpose::Pipeline) > Seconds(0));
    CHECK(apart.simulated.step.between_nodes.value() ==
          doctest::Approx(apart.exposed(Purpose::Pipeline).value()));
    const Priced together = priced(4);
    CHECK(together.exposed(Purpose::Pipeline) > Seconds(0));
    CHECK(together.simulated.step.between_nodes == Seconds(0));
  }

  TEST_CASE("what messages cost is what the step would save without them; the rest is bubble") {
    // Devices also wait for the waits of their neighbours, so no device's own waits tell it.
    const PlanEvaluator evaluator(untied(128));
    const Priced priced(evaluator, plan_of(2, 1, 8, 64));
    const Seconds with = to_seconds(played(priced.stages, 64, 1.0).makespan);
    const Seconds without = to_seconds(played(priced.stages, 64, 0.0).makespan);
    const StageReport& busiest =
        priced.stages[static_cast<std::size_t>(priced.simulated.busiest_stage)];
    CHECK(with > without);
    CHECK(priced.exposed(Purpose::Pipeline).value() ==
          doctest::Approx((with - without).value()).epsilon(1e-6));
    CHECK(priced.simulated.step.bubble.value() ==
          doctest::Approx((without - busiest.busy).value()).epsilon(1e-6));
  }

  TEST_CASE("optimizers start together after the last reduction, or each after its own") {
    // The last stage has the longest update (a table of its own) and the earliest end.
    const auto stepped = [](OptimizerStart start) {
      const PlanEvaluator evaluator(
          test::with_framework(untied(), [&](Framework& f) { f.optimizer_start = start; }));
      return Priced(evaluator, plan_of(2, 1, 8, 16));
    };
    const Priced together = stepped(OptimizerStart::Together);
    const PipelineResult pipeline = played(together.stages, 16, 1.0);
    Seconds reduced;
    Seconds slowest;
    Seconds last;
    for (std::size_t p = 0; p < together.stages.size(); ++p) {
      const StageReport& stage = together.stages[p];
      const Seconds own = to_seconds(pipeline.devices[p].last_end) + stage.reduction;
      reduced = std::max(reduced, own);
      slowest = std::max(slowest, stage.optimizer);
      last = std::max(last, own + stage.optimizer);
    }
    const Seconds saved = reduced + slowest - last;
    CHECK(saved > Seconds(0));
    const Seconds apart = stepped(OptimizerStart::PerDevice).simulated.step.total();
    CHECK((together.simulated.step.total() - apart).value() ==
          doctest::Approx(saved.value()).epsilon(1e-6));
  }

  TEST_CASE("hidden gradient reduction costs its contention") {
    // A tenth hides under the last backward, 0.2 s are lost per hidden second: 0.9 + 0.02.
    const auto evaluate = [](double share) {
      const Problem problem = test::with_framework(untied(), [&](Framework& f) {
        f.overlap[static_cast<std::size_t>(Overlap::GradientReduction)].share = share;
      });
      const PlanEvaluator evaluator(problem);
      const auto lines = Priced(evaluator, plan_of(16, 1, 1, 2)).on(Purpose::Data);
      REQUIRE(lines.size() == 1);
      return lines[0];
    };
    const PricedCommunication bare = evaluate(0.0);
    const PricedCommunication hidden = evaluate(0.1);
    CHECK(bare.exposed == bare.time);
    CHECK(hidden.time == bare.time);
    CHECK(hidden.exposed / bare.time == doctest::Approx(0.92));
  }

  TEST_CASE("reductions hide behind one backward, gathers behind one forward") {
    // Both take longer than that; every hidden second costs 0.2 s of contention.
    const Problem problem = test::with_framework(untied(), [](Framework& framework) {
      framework.overlap[static_cast<std::size_t>(Overlap::GradientReduction)].share = 1.0;
      framework.overlap[static_cast<std::size_t>(Overlap::ParameterGather)].share = 1.0;
    });
    PlanDegrees plan = plan_of(16, 1, 1, 2);
    plan.zero = ZeroStage::Optimizer;
    const test::ToyClass toy(problem, plan);
    Seconds forward;
    Seconds backward;
    for (const BlockRun& run : toy.network().order) {
      const BlockProfile block = toy.profile(toy.network().blocks[run.block].name);
      forward += block.forward_length * static_cast<double>(run.count);
      backward += block.backward_length * static_cast<double>(run.count);
    }
    CHECK(backward > 1.5 * forward);
    const auto lines = Priced(PlanEvaluator(problem), plan).on(Purpose::Data);
    REQUIRE(lines.size() == 2);
    for (const PricedCommunication& line : lines) {
      const bool gather = line.communication.kind == CommunicationKind::AllGather;
      const Seconds window = gather ? forward : backward;
      REQUIRE(line.time > 1.2 * window);
      CHECK((line.time - line.exposed).value() == doctest::Approx((1.0 - 0.2) * window.value()));
    }
  }
}

TEST_SUITE("property") {
  TEST_CASE("lines of communication sum to the exposed parts of the step") {
    for (const std::int64_t experts : {0, 8}) {
      test::ToyOptions options;
      options.experts = experts;
      const PlanEvaluator evaluator(test::toy_problem(options));
      int plans = 0;
      for (const int tensor : {1, 2, 4}) {
        for (const int pipeline : {1, 2}) {
          for (const int context : {1, 2}) {
            for (const ZeroStage zero : {ZeroStage::None, ZeroStage::Optimizer,
                                         ZeroStage::Gradients, ZeroStage::Parameters}) {
              for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
                PlanDegrees plan = plan_of(16 / tensor / pipeline / context, tensor, pipeline, 1);
                plan.micro_batches = 32 / plan.data;
                plan.context = context;
                plan.zero = zero;
                plan.recompute = recompute;
                if (experts > 0 && tensor == 1 && plan.data > 1) plan.expert = 2;
                if (evaluator.obstacle(plan)) continue;
                const Priced priced(evaluator, plan);
                TimeByPurpose sums{};
                for (const PricedCommunication& line : priced.lines) {
                  sums[static_cast<std::size_t>(purpose_of(line.communication))] += line.exposed;
                  CHECK(line.wire_bytes <= 2.0 * line.bytes);
                }
                INFO("tp " << tensor << ", pp " << pipeline << ", cp " << context << ", zero "
                           << static_cast<int>(zero));
                for (std::size_t i = 0; i < kPurposeCount; ++i) {
                  if (static_cast<Purpose>(i) == Purpose::Pipeline)
                    continue;  // from the simulation
                  CHECK(priced.simulated.step.exposed[i].value() ==
                        doctest::Approx(sums[i].value()).epsilon(1e-9));
                }
                ++plans;
              }
            }
          }
        }
      }
      CHECK(plans > 20);
    }
  }
}

}  // namespace
}  // namespace plansearch::step_model_test
