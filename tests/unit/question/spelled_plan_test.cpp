// SPDX-License-Identifier: Apache-2.0
// Plan files that spell out stages: what they are priced at, and what is refused where.
#include "plansearch/plan_report.hpp"
#include "question/resolve_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "cost/collective/collective_cost.hpp"
#include "io/plan/plan_document.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"
#include "schedule/order/compute_order.hpp"
#include "schedule/program/timeline.hpp"
#include "schedule/table.hpp"
#include "support/toy_class.hpp"
#include "unit/evaluate/random_plans.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::spelled_plan_test {
namespace {

io::PlanDocument read(const std::string& text) {
  const test::TemporaryDirectory directory;
  return io::read_plan_document(
      directory.write("plan.yaml", "schema: plansearch/plan/v1\n" + text));
}

/// 12 layers and a batch of 32, nothing tied; nodes of eight devices.
Problem twelve_layers(int gpus) {
  test::ToyOptions options;
  options.gpus = gpus;
  options.layers = 12;
  options.tied = false;
  return test::toy_problem(options);
}

ParallelPlan plan_of(const Problem& problem, const std::string& text) {
  return spelled_plan(read(text).stages.value(), problem);
}

Estimate price(const Problem& problem, const ParallelPlan& plan) {
  const Evaluation evaluation = PlanEvaluator(problem).evaluate(plan);
  REQUIRE(std::holds_alternative<Estimate>(evaluation));
  return std::get<Estimate>(evaluation);
}

std::string stages_of_three(int replicas, const std::vector<int>& turns = {0, 1, 2}) {
  const std::string dp = "dp: " + std::to_string(replicas);
  const std::vector<std::string> stages{
      "  - {layers: 3, tp: 4}\n", "  - {layers: 5, tp: 2, " + dp + ", recompute: full}\n",
      "  - {layers: 4, tp: 2, " + dp + ", recompute: selective}\n"};
  std::string text = "order: {schedule: 1f1b, micro_batches: 8}\nstages:\n";
  for (const int turn : turns) text += stages[static_cast<std::size_t>(turn)];
  return text;
}

/// What one boundary moves: shares of the tile of a rank in front, and the link domain left.
struct Edge {
  double forward;
  double backward;
  int left_domain;
};

/// The pipeline of three stages put together by hand: blocks one after the other, every message
/// alone on its link, 1F1B as a task graph.
Seconds makespan_by_hand(const Problem& problem, const std::vector<PlanDegrees>& degrees,
                         const std::vector<int>& layers, const std::vector<Edge>& edges) {
  PipelineDurations durations;
  for (std::size_t s = 0; s < degrees.size(); ++s) {
    const test::ToyClass stage(problem, degrees[s]);
    Seconds forward;
    Seconds backward;
    for (const Block& block : problem.network->blocks) {
      int copies = layers[s];
      if (block.kind == BlockKind::Embedding) copies = s == 0 ? 1 : 0;
      if (block.kind == BlockKind::Head) copies = s + 1 == degrees.size() ? 1 : 0;
      const auto profile = stage.profile(block.name);
      forward += copies * profile.forward_length;
      backward += copies * profile.backward_length;
    }
    durations.forward.push_back(to_ticks(forward));
    durations.backward.push_back(to_ticks(backward));
  }
  for (std::size_t k = 0; k < edges.size(); ++k) {
    // bf16 activations of the sequences of one rank: 512 tokens of 1,024 features each.
    const Bytes tile(2.0 * 512 * 1024 * degrees[k].micro_batch);
    const auto send = [&](double share) {
      const ProcessGroup pair(2, std::max(1, edges[k].left_domain));
      const Seconds call(40e-6);  // collective_call of the toy framework
      return to_ticks(collective_cost(*problem.cluster, CommunicationKind::SendReceive,
                                      share * tile, pair, Contention::TrainingStep)
                          .time +
                      call);
    };
    durations.activation_transfer.push_back(send(edges[k].forward));
    durations.gradient_transfer.push_back(send(edges[k].backward));
  }
  const PipelineShape shape{.schedule = kDefaultSchedule, .stages = 3, .micro_batches = 8};
  const auto order = make_order(shape);
  const bool hidden =
      problem.framework->overlap[static_cast<std::size_t>(Overlap::PipelineSend)].hides();
  const auto timeline =
      simulate_order(std::get<ComputeOrder>(order), durations.view(),
                     {hidden ? SendPolicy::Asynchronous : SendPolicy::Blocking, std::nullopt});
  REQUIRE(std::holds_alternative<Timeline>(timeline));
  return to_seconds(std::get<Timeline>(timeline).makespan());
}

PlanDegrees stage_degrees(int data, int tensor, Recompute recompute) {
  PlanDegrees d;
  d.data = data;
  d.tensor_out = tensor;
  d.recompute = recompute;
  d.pipeline = 3;
  d.micro_batches = 8;
  d.micro_batch = 32 / 8 / data;
  return d;
}

void check_against_hand(int replicas, const std::vector<Edge>& edges) {
  const int gpus = 4 + 4 * replicas;
  const Problem problem = twelve_layers(gpus);
  const ParallelPlan plan = plan_of(problem, stages_of_three(replicas));
  CHECK(plan.devices() == gpus);
  CHECK(plan.assignment->positions[1].first == 4);
  CHECK(plan.assignment->positions[2].first == 4 + 2 * replicas);
  const Estimate estimate = price(problem, plan);
  const std::vector<StageReport> stages = plan_details(PlanEvaluator(problem), plan).stages;
  const Seconds by_hand = makespan_by_hand(
      problem,
      {stage_degrees(1, 4, Recompute::None), stage_degrees(replicas, 2, Recompute::Full),
       stage_degrees(replicas, 2, Recompute::Selective)},
      {3, 5, 4}, edges);
  for (const StageReport& stage : stages) {
    CHECK((stage.busy + stage.waiting).value() == doctest::Approx(by_hand.value()).epsilon(1e-12));
  }
  // The step: the pipeline, reductions and optimizers after it, 5 ms of the host.
  const Seconds step = estimate.step.total();
  Seconds after;
  for (const StageReport& stage : stages) {
    after = std::max(after, stage.reduction + stage.optimizer + Seconds(5e-3));
  }
  CHECK(step > by_hand);
  CHECK(step <= by_hand + after + Seconds(1e-9));
  // Parts sum up.
  const StepTimeBreakdown& parts = estimate.step;
  const Seconds sum = parts.compute + parts.recompute + parts.exposed_total() + parts.bubble +
                      parts.optimizer + parts.host;
  CHECK(sum.value() == doctest::Approx(step.value()).epsilon(1e-12));
  CHECK(stages[0].layers == 3);
  CHECK(stages[1].recompute > Seconds(0));
  CHECK(stages[0].recompute == Seconds(0));
}

std::string refusal(const Problem& problem, const std::string& text) {
  try {
    static_cast<void>(plan_of(problem, text));
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "accepted";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// The plan with an order that its framework runs, where there is one for the draw.
PlanDegrees with_any_order(std::mt19937& engine, const Framework& framework, PlanDegrees plan) {
  const std::vector<ScheduleId> orders = schedules_of(framework);
  if (plan.pipeline == 1 || orders.empty()) {
    plan.chunks = 1;
    plan.schedule = kDefaultSchedule;
    return plan;
  }
  plan.schedule = orders[engine() % orders.size()];
  plan.chunks = schedule_row(plan.schedule).chunks.fewest;
  return plan;
}

/// Flat plans of one problem and the files that spell them out; how many were compared.
int compare_flat_and_spelled(const Problem& problem, std::mt19937& engine) {
  const PlanEvaluator evaluator(problem);
  int plans = 0;
  for (int draw = 0; draw < 4000 && plans < 20; ++draw) {
    const PlanDegrees degrees =
        with_any_order(engine, *problem.framework, test::any_plan(engine, problem));
    if (degrees.global_batch() != problem.global_batch) continue;
    const auto flat = evaluator.expand(degrees);
    if (!std::holds_alternative<ParallelPlan>(flat)) continue;
    CAPTURE(test::describe(degrees));
    const ParallelPlan& plan = std::get<ParallelPlan>(flat);
    io::PlanDocument document;
    document.stages = io::to_stages(plan, *problem.framework, *problem.network);
    const test::TemporaryDirectory directory;
    const io::PlanDocument again =
        io::read_plan_document(directory.write("plan.yaml", io::to_yaml(document)));
    CHECK(again == document);
    const ParallelPlan spelled = spelled_plan(*again.stages, problem);
    const auto estimate_of = [&](const ParallelPlan& p) {
      const Evaluation evaluation = evaluator.evaluate(p);
      if (const auto* estimate = std::get_if<Estimate>(&evaluation)) return *estimate;
      REQUIRE(std::get<InfeasiblePlan>(evaluation).estimate.has_value());
      return *std::get<InfeasiblePlan>(evaluation).estimate;
    };
    const auto workspace = PlanEvaluator::make_workspace();
    const auto profile = evaluator.profile(degrees);
    const Estimate uniform = evaluator.simulate(*profile, degrees, *workspace);
    const Estimate stages = estimate_of(spelled);
    CHECK(stages.step == uniform.step);
    CHECK(stages.memory == uniform.memory);
    CHECK(stages == uniform);
    CHECK(plan_details(evaluator, spelled).communication ==
          plan_details(evaluator, degrees, *workspace).communication);
    ++plans;
  }
  return plans;
}

TEST_SUITE("unit") {
  TEST_CASE("three stages of tp 4, 2 and 2 on 4 + 2 + 2 devices equal a task graph made by hand") {
    // Everything in one node. Four ranks hold the stream, two receive a tile each; backward two
    // ranks hold it, four receive: two tiles sent by each. Then two to two, one to one.
    check_against_hand(1, {{1.0, 2.0, 0}, {1.0, 1.0, 0}});
  }

  TEST_CASE("... and on 4 + 4 + 4 with dp 1, 2 and 2") {
    // One replica to two: each receiver takes its half; the four senders send one half each.
    // Backward every one of the four takes both halves, and each of the four holders sends its half
    // twice. Ranks 4-7 to 8-11: another node of eight.
    check_against_hand(2, {{0.5, 1.0, 0}, {1.0, 1.0, 8}});
  }

  TEST_CASE("the order of stages matters") {
    const Problem problem = twelve_layers(8);
    const Seconds straight = price(problem, plan_of(problem, stages_of_three(1))).step.total();
    const Seconds turned =
        price(problem, plan_of(problem, stages_of_three(1, {2, 1, 0}))).step.total();
    CHECK(turned != straight);
  }

  TEST_CASE("chunks, first ranks and blocks by name") {
    const Problem problem = twelve_layers(2);
    const ParallelPlan chunked = plan_of(
        problem,
        "order: {schedule: interleaved, micro_batches: 8}\nstages:\n"
        "  - {chunks: [{layers: 2}, {layers: 4}]}\n  - {chunks: [{layers: 5}, {layers: 1}]}\n");
    REQUIRE(chunked.assignment->groups.size() == 4);
    std::vector<std::int64_t> layers;
    for (const OperatorGroup& group : chunked.assignment->groups) {
      std::int64_t sum = 0;
      for (const BlockRun& run : group.blocks) {
        if (problem.network->blocks[run.block].kind == BlockKind::Decoder) sum += run.count;
      }
      layers.push_back(sum);
    }
    CHECK(layers == std::vector<std::int64_t>{2, 5, 4, 1});
    const ParallelPlan turned = plan_of(problem,
                                        "order: {micro_batches: 8}\nstages:\n"
                                        "  - {layers: 6, first_rank: 1}\n"
                                        "  - {layers: 6, first_rank: 0}\n");
    CHECK(ranks_of(turned, 0) == std::vector<int>{1});
    CHECK(price(problem, turned).step == price(problem, plan_of(problem,
                                                                "order: {micro_batches: 8}\n"
                                                                "stages:\n  - {layers: 6}\n"
                                                                "  - {layers: 6}\n"))
                                             .step);
    std::string named = "order: {micro_batches: 8}\nstages:\n  - blocks: [";
    for (const BlockRun& run : problem.network->order) {
      const Block& block = problem.network->blocks[run.block];
      named += "{block: \"" + block.name + "\", count: " + std::to_string(run.count) + "}, ";
    }
    const ParallelPlan one = plan_of(twelve_layers(1), named + "]\n");
    CHECK(one.assignment->groups.front().blocks == joined(problem.network->order));
  }

  TEST_CASE("what contradicts itself is refused at its place") {
    const Problem problem = twelve_layers(8);
    const std::string order = "order: {micro_batches: 8}\n";
    const auto refused = [&](const std::string& stages) {
      return refusal(problem, order + "stages:\n" + stages);
    };
    // Line 3 is "stages:", its list begins on line 4.
    CHECK(contains(refused("  - {layers: 5}\n  - {layers: 6}\n"),
                   "plan.yaml:4:3: error: layers not divisible: the stages hold 11 layers"));
    CHECK(contains(refused("  - {layers: 6}\n  - {layers: 6, dp: 3}\n"),
                   "plan.yaml:5:5: error: "
                   "batch not divisible"));
    CHECK(contains(refused("  - {layers: 6}\n  - {layers: 0}\n  - {layers: 6}\n"),
                   "stage 1 has nothing to do"));
    CHECK(contains(refused("  - {layers: 6}\n  - {chunks: [{layers: 3}, {layers: 3}]}\n"),
                   "plan.yaml:5:5: error: 2 chunks"));
    CHECK(contains(refused("  - {layers: 6}\n  - {blocks: [head]}\n"),
                   "use either `layers` or `blocks`"));
    CHECK(contains(refused("  - {blocks: [tail]}\n"), "no block 'tail'"));
    CHECK(contains(refusal(problem,
                           "order: {schedule: interleaved, micro_batches: 7}\nstages:\n"
                           "  - {chunks: [{layers: 3}, {layers: 3}]}\n"
                           "  - {chunks: [{layers: 3}, {layers: 3}]}\n"),
                   ":2:8: error: schedule needs other micro-batches"));
  }

  TEST_CASE("ranks that nobody holds, or two stages do") {
    const Problem problem = twelve_layers(4);
    const PlanEvaluator evaluator(problem);
    const auto reason = [&](const std::string& second) {
      const ParallelPlan plan = plan_of(problem,
                                        "order: {micro_batches: 8}\nstages:\n"
                                        "  - {layers: 6, tp: 2}\n  - {layers: 6, tp: 2, " +
                                            second + "}\n");
      const auto bad = evaluator.legality(plan);
      REQUIRE(bad.has_value());
      CHECK(bad->stage == 1);
      return bad->detail;
    };
    CHECK(reason("first_rank: 3") ==
          "stage 1 reaches rank 4 of 4 devices, and rank 2 belongs to no stage");
    CHECK(reason("first_rank: 1") == "rank 1 belongs to stage 0 and to stage 1");
  }
}

TEST_SUITE("differential") {
  TEST_CASE("flat plans and the files that spell them out have equal prices") {
    struct Question {
      const char* hardware;
      const char* model;
      const char* framework;
      int gpus;
      std::int64_t batch;
    };
    const std::vector<Question> questions{
        {"perlmutter", "gpt2-xl", "megatron", 16, 64},
        {"perlmutter", "gpt2-xl", "axonn", 32, 64},
        {"selene", "gpt3-175b", "megatron", 128, 256},
        {"selene", "llama2-13b", "nanotron", 32, 128},
        {"dgx-h100", "llama3-70b", "torchtitan", 64, 128},
        {"dgx-h100", "llama3-8b", "fsdp", 16, 64},
        {"dgx-h100", "llama3-8b", "maxtext", 32, 64},
        {"dgx-h100", "mixtral-8x7b", "megatron", 64, 256},
        {"dgx-h100", "mixtral-8x7b", "megatron-2026", 32, 64},
        {"aws-p4d", "llama2-7b", "internevo", 16, 64},
        {"aws-p5", "llama3-8b", "megatron-deepspeed", 32, 128},
        {"jean-zay-a100", "gpt2-xl", "deepspeed", 16, 64},
        {"dgx-h100", "t5-v1_1-xxl", "megatron", 16, 64},
    };
    std::mt19937 engine(20260);
    int plans = 0;
    for (int round = 0; plans < 500 && round < 4; ++round) {
      for (const Question& q : questions) {
        CAPTURE(q.model);
        CAPTURE(q.framework);
        ProblemRequest request;
        request.hardware = q.hardware;
        request.model = q.model;
        request.framework = q.framework;
        request.batch = q.batch;
        Problem problem = load_problem(request).problem;
        problem.gpus = q.gpus;
        plans += compare_flat_and_spelled(problem, engine);
      }
    }
    CHECK(plans >= 500);
  }
}

}  // namespace
}  // namespace plansearch::spelled_plan_test
