// SPDX-License-Identifier: Apache-2.0
// Plans as transform, assign and order: written and read back they are the same plans, bit for bit;
// what contradicts itself is refused at its place.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <variant>

#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/plan_report.hpp"
#include "plansearch/plan_stages.hpp"
#include "question/resolve_plan.hpp"
#include "schedule/table.hpp"
#include "unit/io/temporary_directory.hpp"
#include "unit/question/random_questions.hpp"

namespace plansearch::primitives_test {
namespace {

Estimate price(const PlanEvaluator& evaluator, const ParallelPlan& plan) {
  const Evaluation evaluation = evaluator.evaluate(plan);
  if (const auto* estimate = std::get_if<Estimate>(&evaluation)) return *estimate;
  REQUIRE(std::get<InfeasiblePlan>(evaluation).estimate.has_value());
  return *std::get<InfeasiblePlan>(evaluation).estimate;
}

/// The plan by its primitives equals the plan itself, in every number.
void check_written(const ResolvedPlan& given) {
  const test::TemporaryDirectory directory;
  const std::string file = directory.path() / "plan.yaml";
  write_plan_files(given, {.primitives = file});
  const ResolvedPlan again = resolve_plan(complete_from_plan({}, file));
  CHECK(again.plan == given.plan);
  const PlanEvaluator evaluator(given.problem);
  const PlanEvaluator other(again.problem);
  const Estimate own = price(evaluator, given.plan);
  const Estimate read = price(other, again.plan);
  CHECK(read.step == own.step);
  CHECK(read.memory == own.memory);
  CHECK(read == own);
  CHECK(plan_details(other, again.plan).communication ==
        plan_details(evaluator, given.plan).communication);
  const std::string second = directory.path() / "second.yaml";
  write_plan_files(again, {.primitives = second});
  CHECK(io::read_file(second) == io::read_file(file));
}

/// Nothing where the draw is not legal.
std::optional<ResolvedPlan> resolved(const PlanRequest& asked) {
  try {
    return resolve_plan(asked);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// Orders, chunks, hybrid shards, rings and adapters on top of what the draw has.
ProblemRequest with_more(const test::RandomQuestion& question, std::mt19937& engine) {
  ProblemRequest request = question.request;
  request.gpus = question.problem.gpus;
  request.batch = question.problem.global_batch;
  PlanDegrees plan = question.plan;
  const Framework& framework = *question.problem.framework;
  const std::vector<ScheduleId> orders = schedules_of(framework);
  if (plan.pipeline > 1 && !orders.empty()) {
    plan.schedule = orders[engine() % orders.size()];
    plan.chunks = std::max(plan.chunks, schedule_row(plan.schedule).chunks.fewest);
  }
  if (plan.data > 1 && engine() % 3 == 0) plan.shard_group = plan.data / 2;
  if (framework.operator_steps != OperatorSteps::None && engine() % 4 != 0) {
    plan.temporal = Temporal::Ring;
  }
  if (engine() % 4 == 0) request.lora_rank = 8;
  request.degrees = to_pinned(plan);
  return request;
}

std::string stages_text(const test::RandomQuestion& question, std::mt19937& engine) {
  const int stages = static_cast<int>(2 + engine() % 3);
  const std::int64_t layers = layer_count(*question.problem.network);
  std::string text =
      fmt::format("batch: 64\norder: {{micro_batches: {}}}\nstages:\n", 4 << engine() % 3);
  std::int64_t left = layers;
  for (int s = 0; s < stages; ++s) {
    const std::int64_t most = left - (stages - s - 1);
    const std::int64_t held =
        s + 1 == stages
            ? left
            : std::clamp<std::int64_t>(
                  layers / stages + static_cast<std::int64_t>(engine() % 3) - 1, 1, most);
    left -= held;
    text += fmt::format("  - {{layers: {}, tp: {}, dp: {}, recompute: {}}}\n", held,
                        1 << engine() % 3, 1 << engine() % 3, engine() % 2 == 0 ? "full" : "none");
  }
  return text;
}

std::string question_text(const test::RandomQuestion& question) {
  return fmt::format("schema: plansearch/plan/v1\nhardware: {}\nmodel: {}\nframework: {}\n",
                     question.request.hardware, question.request.model, question.request.framework);
}

/// A file that is read with the tail behind the question of eight layers on a small machine.
std::string refusal(const std::string& tail) {
  const test::TemporaryDirectory directory;
  const std::string file = directory.write("plan.yaml",
                                           "schema: plansearch/plan/v1\nhardware: dgx-h100\n"
                                           "model: gpt2\nbatch: 16\n" +
                                               tail);
  try {
    static_cast<void>(resolve_plan(complete_from_plan({}, file)));
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "accepted";
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

const std::string kOrder = "order: {micro_batches: 4}\n";

}  // namespace

TEST_SUITE("property") {
  TEST_CASE("500 plans by their degrees are the same as transform, assign and order") {
    test::RandomQuestions questions(27);
    int rings = 0;
    int adapters = 0;
    int chunked = 0;
    int experts = 0;
    for (int plans = 0; plans < 500 || (rings < 5 && plans < 2000);) {
      const test::RandomQuestion question = questions.next();
      const ProblemRequest request = with_more(question, questions.engine());
      const auto given = resolved({request, {}});
      if (!given) continue;
      INFO(question.text());
      INFO(to_text(request.degrees));
      check_written(*given);
      ++plans;
      const PlanDegrees& degrees = given->plan.transforms.front().degrees;
      rings += degrees.temporal == Temporal::Ring ? 1 : 0;
      adapters += request.lora_rank ? 1 : 0;
      chunked += degrees.chunks > 1 ? 1 : 0;
      experts += degrees.expert > 1 ? 1 : 0;
    }
    CHECK(rings >= 5);
    CHECK(adapters >= 50);
    CHECK(chunked >= 20);
    CHECK(experts >= 5);
  }

  TEST_CASE("stages that differ, written as transform, assign and order") {
    test::RandomQuestions questions(28);
    const test::TemporaryDirectory directory;
    for (int plans = 0; plans < 60;) {
      const test::RandomQuestion question = questions.next();
      const std::string text = question_text(question) + stages_text(question, questions.engine());
      const std::string file = directory.write("stages.yaml", text);
      const auto given = resolved(complete_from_plan({}, file));
      if (!given) continue;
      INFO(text);
      check_written(*given);
      ++plans;
    }
  }
}

TEST_SUITE("unit") {
  TEST_CASE("operators placed one by one stay placements, pieces are transforms") {
    const test::TemporaryDirectory directory;
    const std::string head =
        "schema: plansearch/plan/v1\nhardware: dgx-h100\nmodel: gpt2-xl\nbatch: 64\n";
    const std::string placed =
        "placements:\n  factors: [2, 4]\n  operators:\n"
        "    - {operators: [mlp_in, activation, mlp_out], cut: {ffn: [t1, t0]}}\n"
        "    - {operators: [query, key, value, attention, projection], layers: 0-23, cut: {batch: "
        "all}}\n"
        "    - {operators: [query, key, value, attention, projection], layers: 24-47, cut: {}}\n";
    for (const std::string& tail :
         {"degrees: {tp: 8, micro_batch: 8}\n" + placed,
          "order: {micro_batches: 8}\nstages:\n  - {layers: 20, tp: 8}\n  - {layers: 28, tp: 8}\n" +
              placed,
          std::string("framework: nnscaler\ndegrees: {pp: 2, dp: 2, micro_batch: 1}\nplacements:\n "
                      " regions:\n"
                      "    - {layers: 0-3, dimensions: [ffn], pieces: 4, recompute: true}\n")}) {
      CAPTURE(tail);
      const std::string file = directory.write("placed.yaml", head + tail);
      check_written(resolve_plan(complete_from_plan({}, file)));
    }
  }

  TEST_CASE("selectors, sets of devices and degrees that contradict themselves, at their place") {
    const auto assigned = [](const std::string& entries, const std::string& transform = {}) {
      return refusal(kOrder + "assign:\n" + entries + transform);
    };
    // Line 5 is "order:", line 6 "assign:".
    const std::string ends = "  - {of: [embedding, head], devices: 0}\n";
    const std::string layers = "  - {of: \"*\", layers: 0-11, devices: 0}\n";
    CHECK(assigned(ends + layers) == "accepted");
    CHECK(says(assigned(ends + "  - {of: decodr, devices: 0}\n"),
               "plan.yaml:8:5: error: 'decodr' selects no operator of gpt2"));
    CHECK(says(assigned(ends + "  - {of: decodr, devices: 0}\n"), "did you mean decoder?"));
    CHECK(says(assigned(ends + "  - {of: \"*\", layers: 0-12, devices: 0}\n"),
               "layers 0-12 are not in gpt2"));
    CHECK(says(assigned(ends + layers + "  - {of: decoder, layers: 3, devices: 0}\n"),
               "plan.yaml:9:5: error: layer 3 (decoder) is assigned twice"));
    CHECK(says(assigned(ends + "  - {of: \"*\", layers: [0-4, 6-11], devices: 0}\n"),
               "layer 5 (decoder) is assigned nowhere"));
    CHECK(says(assigned(ends + "  - {of: \"*/mlp_*\", devices: 0}\n"),
               "a block lies whole on one set of devices"));
    CHECK(says(assigned(ends + "  - {of: \"*\", layers: 0-11, devices: 0-1}\n"),
               "device 0 is also in another set of devices"));
    CHECK(says(assigned(ends + layers, "transform:\n  - {of: \"*\", tp: 2}\n"),
               "plan.yaml:7:5: error: 1 devices, and degrees for 2"));
    CHECK(says(assigned(ends + layers, "transform:\n  - {of: decoder, tp: 2}\n"),
               "blocks of one stage are split as"));
    CHECK(says(assigned(ends + layers,
                        "transform:\n  - {of: decoder, dp: 1}\n  - {of: \"dec*\", dp: 2}\n"),
               "plan.yaml:11:5: error: dp of block decoder is 1 and 2"));
    CHECK(says(assigned(ends + layers, "transform:\n  - {of: decoder/mlp_in, dp: 1}\n"),
               "degrees of a part of block decoder"));
    CHECK(says(assigned("  - {of: embedding, devices: 0, chunk: 0}\n"
                        "  - {of: [decoder, head], devices: 1}\n"
                        "  - {of: embedding, layers: 1, devices: 1}\n"),
               "the entry means no operator"));
    CHECK(says(assigned("  - {of: [embedding], devices: 0-1}\n"
                        "  - {of: \"*\", layers: 0-3, devices: 0-1}\n"
                        "  - {of: \"*\", layers: 4-7, devices: 2-3}\n"
                        "  - {of: \"*\", layers: 8-11, devices: 0-1}\n"
                        "  - {of: [head], devices: 0-1}\n",
                        "transform:\n  - {of: \"*\", dp: 2}\n"),
               "hold 1 separate runs of blocks, others 2"));
    CHECK(says(assigned("  - {of: [embedding], devices: 2-3}\n"
                        "  - {of: \"*\", layers: 0-5, devices: 2-3}\n"
                        "  - {of: \"*\", layers: 6-11, devices: \"0-4:4\"}\n"
                        "  - {of: [head], devices: \"0-4:4\"}\n",
                        "transform:\n  - {of: \"*\", dp: 2}\n"),
               "plan.yaml:9:5: error: these devices do not lie as the rank order places"));
    CHECK(says(refusal("transform:\n  - {of: decoder, tp: 2}\n"), "no device is assigned"));
    CHECK(says(refusal("order: {micro_batches: 4}\ntransform:\n  - {of: decoder, tp: 2}\n"),
               "no stages to order"));
  }

  TEST_CASE("degrees by selector without devices are degrees of the plan") {
    const test::TemporaryDirectory directory;
    const std::string head =
        "schema: plansearch/plan/v1\nhardware: dgx-h100\nmodel: gpt2\nbatch: 16\ngpus: 8\n";
    const std::string by_words =
        directory.write("words.yaml", head + "transform: [{of: \"*\", tp: 4, zero: 1}]\n");
    const std::string by_degrees =
        directory.write("degrees.yaml", head + "degrees: {tp: 4, zero: 1}\n");
    CHECK(resolve_plan(complete_from_plan({}, by_words)).plan ==
          resolve_plan(complete_from_plan({}, by_degrees)).plan);
  }
}

}  // namespace plansearch::primitives_test
