// SPDX-License-Identifier: Apache-2.0
// Memory of every stage against sums made by hand; the toy network is that of step_model_test.cpp.
// What a layer keeps of one sequence (s = 512, b = 1, fused attention, no dropout), in bf16: the
// inputs of both norms (2 sbh each), of query-key-value and of the MLP (2 each), query, key and
// value (6), the attention's output (2), the MLP before and after its activation (8 each):
// 32 sbh; in fp32 mean and deviation of two norms (16 sb) and one log-sum-exp per head (4 sa).
#include <doctest/doctest.h>

#include "plansearch/evaluator.hpp"
#include "support/schedules.hpp"
#include "support/toy_class.hpp"

namespace plansearch::memory_model_test {
namespace {

constexpr double kHidden = 1024;
constexpr double kTokens = 512;
constexpr double kHeads = 16;
constexpr double kLayer = 12 * kHidden * kHidden + 4 * kHidden;
constexpr double kTable = 51200 * kHidden;
constexpr double kParameters = 8 * kLayer + kTable + 2 * kHidden;
constexpr double kKept = 32 * kTokens * kHidden + 16 * kTokens + 4 * kTokens * kHeads;
constexpr double kStream = 2 * kTokens * kHidden;  ///< the residual stream of one sequence

std::vector<DeviceMemory> devices_of(const Problem& problem, const PlanDegrees& plan) {
  const PlanEvaluator evaluator(problem);
  REQUIRE_FALSE(evaluator.obstacle(plan));
  const auto workspace = PlanEvaluator::make_workspace();
  const auto profile = evaluator.profile(plan);
  std::vector<DeviceMemory> devices;
  for (int stage = 0; stage < plan.pipeline; ++stage) {
    devices.push_back(evaluator.stage_memory(*profile, plan, stage, *workspace));
  }
  return devices;
}

std::vector<MemoryBreakdown> stages_of(const Problem& problem, const PlanDegrees& plan) {
  std::vector<MemoryBreakdown> stages;
  for (const DeviceMemory& device : devices_of(problem, plan)) stages.push_back(device.memory);
  return stages;
}

PlanDegrees pipeline_plan(int pipeline, int chunks, int micro_batches, ScheduleId schedule) {
  PlanDegrees plan;
  plan.pipeline = pipeline;
  plan.chunks = chunks;
  plan.schedule = schedule;
  plan.data = 16 / pipeline;
  plan.micro_batches = micro_batches;
  return plan;
}

Problem problem_for(const PlanDegrees& plan) {
  test::ToyOptions options;
  options.global_batch = plan.global_batch();
  return test::toy_problem(options);
}

TEST_SUITE("unit") {
  TEST_CASE("states by ZeRO stage: 2 parameters, 4 gradients, 12 optimizer, divided as they are") {
    struct Row {
      ZeroStage zero;
      double parameters, gradients, optimizer;
    };
    for (const Row& row :
         {Row{ZeroStage::None, 2, 4, 12}, Row{ZeroStage::Optimizer, 2, 4, 12.0 / 16},
          Row{ZeroStage::Gradients, 2, 4.0 / 16, 12.0 / 16},
          Row{ZeroStage::Parameters, 2.0 / 16, 4.0 / 16, 12.0 / 16}}) {
      PlanDegrees plan = pipeline_plan(1, 1, 2, kDefaultSchedule);
      plan.zero = row.zero;
      const MemoryBreakdown memory = stages_of(problem_for(plan), plan)[0];
      CHECK(memory.parameters.value() == doctest::Approx(row.parameters * kParameters));
      CHECK(memory.gradients.value() == doctest::Approx(row.gradients * kParameters));
      CHECK(memory.optimizer.value() == doctest::Approx(row.optimizer * kParameters));
    }
  }

  TEST_CASE("shards in fp32: weights as well, whatever they are elsewhere") {
    for (const ZeroStage zero : {ZeroStage::Optimizer, ZeroStage::Parameters}) {
      PlanDegrees plan = pipeline_plan(1, 1, 2, kDefaultSchedule);
      plan.zero = zero;
      const Problem problem = test::with_framework(problem_for(plan), [](Framework& framework) {
        framework.sharding.shards_in_fp32 = true;
      });
      const MemoryBreakdown memory = stages_of(problem, plan)[0];
      const double bytes = zero == ZeroStage::Parameters ? 4.0 / 16 : 2;
      CHECK(memory.parameters.value() == doctest::Approx(bytes * kParameters));
      CHECK(memory.optimizer.value() == doctest::Approx(12.0 / 16 * kParameters));
    }
  }

  TEST_CASE("an update of all tensors at once is the peak where it holds more than backward") {
    // The root of a second moment is 4 bytes a parameter, in place of activations and the loss;
    // a sixteenth of it is less than these.
    const auto memory = [&](ZeroStage zero, bool lists) {
      PlanDegrees plan = pipeline_plan(1, 1, 1, kDefaultSchedule);
      plan.zero = zero;
      const Problem problem = test::with_framework(problem_for(plan), [&](Framework& framework) {
        framework.precision[DataType::Bf16].master.reset();
        framework.constants.memory_update_of_lists = lists;
      });
      return stages_of(problem, plan)[0];
    };
    const MemoryBreakdown update = memory(ZeroStage::None, true);
    CHECK((update.activations + update.transient).value() == doctest::Approx(4 * kParameters));
    CHECK(memory(ZeroStage::None, false).total() < update.total());
    CHECK(memory(ZeroStage::Optimizer, false).total() ==
          memory(ZeroStage::Optimizer, true).total());
  }

  TEST_CASE("weights that are not trained: products of layers as quantised, the rest as frozen") {
    // Trained: the final norm alone. Per element nf4 takes 4 bits, a byte per 64 and 4 bytes per 64
    // of those blocks of 64 x 256; the products of a layer have 12 h^2 elements, its norms 4 h.
    constexpr double kNf4 = 4.0 / 8 + 1.0 / 64 + 4.0 / (64 * 256);
    constexpr double kProducts = 8 * 12 * kHidden * kHidden;
    const PlanDegrees plan = pipeline_plan(1, 1, 2, kDefaultSchedule);
    const auto frozen = test::with_network(problem_for(plan), [](Network& network) {
      for (Block& block : network.blocks) {
        for (Parameter& parameter : block.parameters) {
          const bool kept = parameter.name.find("final_norm") == std::string::npos;
          parameter.trainable = kept ? Trainable::No : Trainable::Yes;
        }
      }
    });
    const auto parameters = [&](std::optional<DataType> plain, std::optional<DataType> products) {
      const Problem problem = test::with_framework(frozen, [&](Framework& framework) {
        framework.precision.at(DataType::Bf16).frozen = plain;
        framework.precision.at(DataType::Bf16).quantised = products;
      });
      return stages_of(problem, plan)[0].parameters.value();
    };
    CHECK(parameters({}, {}) == doctest::Approx(2 * kParameters));
    CHECK(parameters(DataType::Fp32, {}) ==
          doctest::Approx(4 * (kParameters - 2 * kHidden) + 2 * 2 * kHidden));
    CHECK(parameters({}, DataType::Nf4) ==
          doctest::Approx(kNf4 * kProducts + 2 * (kParameters - kProducts)).epsilon(1e-12));
    PlanDegrees sharded = plan;
    sharded.zero = ZeroStage::Parameters;
    const Problem problem = test::with_framework(frozen, [](Framework& framework) {
      framework.precision.at(DataType::Bf16).quantised = DataType::Nf4;
    });
    CHECK(stages_of(problem, sharded)[0].parameters.value() ==
          doctest::Approx((kNf4 * kProducts + 2 * (kParameters - kProducts)) / 16).epsilon(1e-12));
  }

  TEST_CASE("stages hold the network once, and both ends the tied table") {
    const PlanDegrees plan = pipeline_plan(4, 1, 8, kDefaultSchedule);
    const auto stages = stages_of(problem_for(plan), plan);
    CHECK(stages[0].parameters.value() == doctest::Approx(2 * (2 * kLayer + kTable)));
    CHECK(stages[1].parameters.value() == doctest::Approx(2 * 2 * kLayer));
    CHECK(stages[2].parameters.value() == doctest::Approx(2 * 2 * kLayer));
    CHECK(stages[3].parameters.value() == doctest::Approx(2 * (2 * kLayer + kTable + 2 * kHidden)));
  }

  TEST_CASE("tensor parallelism divides matrices and the table, not the norms") {
    PlanDegrees plan;
    plan.tensor_out = 4;
    plan.data = 4;
    plan.micro_batches = 8;
    const double norms = 8 * 4 * kHidden + 2 * kHidden;
    CHECK(stages_of(problem_for(plan), plan)[0].parameters.value() ==
          doctest::Approx(2 * ((kParameters - norms) / 4 + norms)));
  }

  TEST_CASE("1F1B: stage r of 4 keeps 4 - r micro-batches, GPipe all of them") {
    for (const ScheduleId schedule : {kDefaultSchedule, test::kGPipe}) {
      const PlanDegrees plan = pipeline_plan(4, 1, 8, schedule);
      const auto stages = stages_of(problem_for(plan), plan);
      for (const std::size_t r : {1U, 2U}) {  // without embedding and head
        const double in_flight = schedule == test::kGPipe ? 8 : 4 - static_cast<double>(r);
        CHECK(stages[r].activations.value() == doctest::Approx(in_flight * 2 * kKept));
      }
    }
  }

  TEST_CASE("interleaved: device r of 4 with 2 chunks keeps 2 (3 - r) + 4 + 1 of them") {
    // One layer a chunk; device 1 has no embedding and no head: 9 chunks.
    const PlanDegrees plan = pipeline_plan(4, 2, 8, test::kInterleaved);
    const auto stages = stages_of(problem_for(plan), plan);
    CHECK(stages[1].activations.value() == doctest::Approx(9 * kKept));
    CHECK(stages[2].activations.value() == doctest::Approx(7 * kKept));
  }

  TEST_CASE("full recompute keeps the input of every layer and works on one layer") {
    PlanDegrees plan = pipeline_plan(4, 1, 8, kDefaultSchedule);
    plan.recompute = Recompute::Full;
    const auto stages = stages_of(problem_for(plan), plan);
    CHECK(stages[1].activations.value() == doctest::Approx(3 * 2 * kStream));
    // Beside its tensors the gradients around the activation of its MLP: 4 + 4 + 1 of a token and
    // feature, when 4 of what was kept are free.
    CHECK(stages[1].transient.value() == doctest::Approx(kKept - kStream + 5 * kStream));
  }

  TEST_CASE("sequence parallelism divides all that a layer keeps") {
    PlanDegrees plan = pipeline_plan(4, 1, 8, kDefaultSchedule);
    plan.data = 2;
    plan.tensor_out = 2;
    plan.sequence_parallel = SequenceParallel::On;
    CHECK(stages_of(problem_for(plan), plan)[1].activations.value() ==
          doctest::Approx(3 * 2 * kKept / 2));
    // Without it the norms' inputs, their statistics and the inputs of both products stay whole:
    // 8 sbh + 16 sb of a layer.
    plan.sequence_parallel = SequenceParallel::Off;
    const double whole = 8 * kTokens * kHidden + 16 * kTokens;
    CHECK(stages_of(problem_for(plan), plan)[1].activations.value() ==
          doctest::Approx(3 * 2 * ((kKept - whole) / 2 + whole)));
  }

  TEST_CASE("the last stage peaks on its logits; the allocator keeps a share of what was needed") {
    // 512 x 51200 logits, 6 bytes each beyond what the loss saves (logits and probabilities);
    // 600 MB of context outside the allocator, a twentieth of what is needed inside.
    const PlanDegrees plan = pipeline_plan(4, 1, 8, kDefaultSchedule);
    const auto devices = devices_of(problem_for(plan), plan);
    CHECK(devices[3].memory.transient.value() == doctest::Approx(6.0 * 512 * 51200));
    for (const DeviceMemory& device : devices) {
      const MemoryBreakdown& m = device.memory;
      const Bytes allocated =
          m.parameters + m.gradients + m.optimizer + m.activations + m.transient + m.buffers;
      CHECK(m.buffers.value() == doctest::Approx(1e8));
      CHECK(m.reserve.value() == doctest::Approx(6e8));
      CHECK(device.cached.value() == doctest::Approx(0.05 * allocated.value()));
      CHECK(m.total().value() == doctest::Approx((allocated + m.reserve).value()));
    }
  }

  TEST_CASE("tensors around a block come beside those of the loss only where these live on") {
    // 10 bytes live per token and hidden feature in the backward of a block, far less than the 6
    // bytes a logit of the loss that was freed before.
    const PlanDegrees plan = pipeline_plan(1, 1, 8, kDefaultSchedule);
    const auto transient = [&](bool lives_on) {
      const Problem problem = test::with_framework(problem_for(plan), [&](Framework& framework) {
        framework.constants.memory_live_bytes = 10;
        framework.constants.memory_loss_through_backward = lives_on;
      });
      return stages_of(problem, plan)[0].transient.value();
    };
    const double loss = 6.0 * 512 * 51200;
    CHECK(transient(false) == doctest::Approx(loss));
    CHECK(transient(true) == doctest::Approx(loss + (10 + 2 * 5) * kTokens * kHidden));
  }

  TEST_CASE("gathered inputs stay in the allocator only where no stage boundary waits for it") {
    // Sequence parallelism gathers the inputs of query-key-value and of the MLP of 8 layers and
    // that of the head; half of them stays cached. Over two stages nothing does.
    const auto cached = [](int pipeline, double share) {
      PlanDegrees plan = pipeline_plan(pipeline, 1, 8, kDefaultSchedule);
      plan.tensor_out = 2;
      plan.data = 8 / pipeline;
      plan.sequence_parallel = SequenceParallel::On;
      const Problem problem = test::with_framework(problem_for(plan), [&](Framework& framework) {
        framework.constants.memory_gathered_cached = share;
      });
      return devices_of(problem, plan)[0].cached.value();
    };
    CHECK(cached(1, 0.5) - cached(1, 0.0) == doctest::Approx(0.5 * (8 * 2 + 1) * kStream));
    CHECK(cached(2, 0.5) == cached(2, 0.0));
  }

  TEST_CASE("logits of the micro-batch before stay only where there was one") {
    // 6 bytes a logit of this micro-batch, 4 more of the one before.
    for (const int micro_batches : {1, 2}) {
      const PlanDegrees plan = pipeline_plan(1, 1, micro_batches, kDefaultSchedule);
      const Problem problem = test::with_framework(problem_for(plan), [](Framework& framework) {
        framework.constants.memory_previous_logit_bytes = 4;
      });
      CHECK(stages_of(problem, plan)[0].transient.value() ==
            doctest::Approx((micro_batches == 1 ? 6.0 : 10.0) * 512 * 51200));
    }
  }

  TEST_CASE("the head keeps logits in bf16 and probabilities in fp32") {
    // Its norm keeps its input and statistics, its product the norm's output: 4 sbh + 8 sb.
    const PlanDegrees plan = pipeline_plan(4, 1, 8, kDefaultSchedule);
    CHECK(stages_of(problem_for(plan), plan)[3].activations.value() ==
          doctest::Approx(2 * kKept + 4 * kTokens * kHidden + 8 * kTokens + 6 * kTokens * 51200));
  }

  TEST_CASE("full sharding holds two gathered units and a gradient of the largest") {
    // The table with the final norm: bf16 twice, fp32 once.
    PlanDegrees plan = pipeline_plan(1, 1, 2, kDefaultSchedule);
    plan.zero = ZeroStage::Parameters;
    CHECK(stages_of(problem_for(plan), plan)[0].buffers.value() ==
          doctest::Approx(1e8 + (2 * 2 + 4) * (kTable + 2 * kHidden)));
  }

  TEST_CASE("weights that stay gathered over a step are held once, whatever is in flight") {
    // Four depth ranks; 12 h^2 weights of each of 8 layers in bf16, and a gradient of the largest
    // launch (4 h^2, fp32). Gathered for every use, two launches are there instead.
    PlanDegrees plan;
    plan.tensor_depth = 4;
    plan.data = 4;
    plan.micro_batches = 2;
    const auto buffers = [&](Scope scope) {
      return devices_of(test::with_framework(problem_for(plan),
                                             [&](Framework& f) {
                                               f.sharding.depth_gather = scope;
                                               f.sharding.depth_parameters =
                                                   DepthParameters::Products;
                                             }),
                        plan)[0]
          .memory.buffers.value();
    };
    const double h2 = static_cast<double>(kHidden) * kHidden;
    CHECK(buffers(Scope::Step) == doctest::Approx(1e8 + 2 * 8 * 12 * h2 + 4 * 4 * h2));
    CHECK(buffers(Scope::Use) == doctest::Approx(1e8 + (2 * 2 + 4) * 4 * h2));
  }
  TEST_CASE("copies of eager kernels, buffers and cached gathers are constants of the framework") {
    PlanDegrees plan;
    plan.tensor_out = 2;
    plan.data = 8;
    plan.micro_batches = 4;
    plan.sequence_parallel = SequenceParallel::On;
    const Problem plain = problem_for(plan);
    const DeviceMemory before = devices_of(plain, plan)[0];
    const auto with = [&](double FrameworkConstants::*constant, double value) {
      return devices_of(
          test::with_framework(plain, [&](Framework& f) { f.constants.*constant = value; }),
          plan)[0];
    };
    // 3 bytes for each of 512 x 1024 / 2 query elements of 8 layers.
    CHECK((with(&FrameworkConstants::memory_attention_copies, 3).memory.activations -
           before.memory.activations)
              .value() == doctest::Approx(8 * 3 * kTokens * kHidden / 2));
    // 5 bytes for each local parameter.
    const double norms = 8 * 4 * kHidden + 2 * kHidden;
    CHECK((with(&FrameworkConstants::memory_reduction_bytes, 5).memory.buffers -
           before.memory.buffers)
              .value() == doctest::Approx(5 * ((kParameters - norms) / 2 + norms)));
    // No more than the buckets hold.
    const auto bucketed = [](Framework& f) {
      f.constants.memory_reduction_bytes = 5;
      f.constants.memory_reduction_most = Bytes(5000);
    };
    const DeviceMemory in_buckets = devices_of(test::with_framework(plain, bucketed), plan)[0];
    CHECK((in_buckets.memory.buffers - before.memory.buffers).value() == doctest::Approx(5000));
  }

  TEST_CASE("the worst device is the one reported") {
    const PlanDegrees plan = pipeline_plan(4, 1, 8, kDefaultSchedule);
    const PlanEvaluator evaluator(problem_for(plan));
    const auto workspace = PlanEvaluator::make_workspace();
    const Estimate e = evaluator.estimate(*evaluator.profile(plan), plan, *workspace);
    const auto stages = stages_of(problem_for(plan), plan);
    for (const MemoryBreakdown& m : stages) CHECK(m.total() <= e.memory.total());
    CHECK(stages[static_cast<std::size_t>(e.worst_memory_stage)] == e.memory);
  }
}

}  // namespace
}  // namespace plansearch::memory_model_test
