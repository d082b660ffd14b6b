// SPDX-License-Identifier: Apache-2.0
// Plan files with blocks on the devices of all stages and rules of the order: read, refused at
// their place, written and read back, and searched with bounds and without.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>

#include "io/document/file.hpp"
#include "plan/stages/gangs.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/search.hpp"
#include "question/resolve_plan.hpp"
#include "unit/io/temporary_directory.hpp"
#include "unit/question/open_search.hpp"

namespace plansearch::shared_plan_test {
namespace {

// Line 7 is what a test adds.
const std::string kHead =
    "schema: plansearch/plan/v1\nhardware: dgx-2-v100\nmodel: t5-3.9b\nframework: nnscaler\n"
    "gpus: 8\nbatch: 16\n";
const std::string kEnds = "assign: [{of: [\"*embedding*\", \"*head*\"], devices: all}]\n";
const std::string kFour = "degrees: {pp: 4, tp: 2, micro_batch: 1, recompute: full}\n";

PlanRequest request_of(const std::string& text) {
  const test::TemporaryDirectory directory;
  return complete_from_plan({}, directory.write("plan.yaml", text));
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(resolve_plan(request_of(text)));
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "accepted";
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Estimate price(const ResolvedPlan& given) {
  const Evaluation evaluation = PlanEvaluator(given.problem).evaluate(given.plan);
  if (const auto* estimate = std::get_if<Estimate>(&evaluation)) return *estimate;
  REQUIRE(std::get<InfeasiblePlan>(evaluation).estimate.has_value());
  return *std::get<InfeasiblePlan>(evaluation).estimate;
}

std::vector<std::string> rules_of(const ResolvedPlan& given) {
  return rule_texts(given.plan, *given.problem.network);
}

TEST_SUITE("unit") {
  TEST_CASE("blocks by selector on the devices of all stages, and rules by the names of passes") {
    const ResolvedPlan given = resolve_plan(
        request_of(kHead + kFour + kEnds +
                   "order:\n  before:\n    - b0 before f0(m+4)\n    - b1 before f1(m + 3)\n"));
    const Assignment& held = *given.plan.assignment;
    REQUIRE(held.gangs.size() == 3);  // of the encoder, of the decoder, the head
    CHECK(held.gangs[0].before == 0);
    CHECK(held.gangs[1].before == 2);
    CHECK(held.gangs[2].before == 4);
    CHECK(given.plan.order.window);
    CHECK(rules_of(given) == std::vector<std::string>{"b0 before f0(m+4)", "b1 before f1(m+3)"});
    CHECK(given.shared == std::vector<std::string>{"*embedding*", "*head*"});
  }

  TEST_CASE("plans with blocks on all devices and rules are the same when written and read back") {
    const test::TemporaryDirectory directory;
    for (const std::string& tail :
         {kFour + kEnds, kFour + "order: {window: true}\n",
          kFour + kEnds + "order: {before: [b0 before f0(m+3)]}\n",
          std::string(
              "order: {micro_batches: 16, before: [b0 before f1(m+9)]}\nstages:\n"
              "  - {layers: 24, tp: 2}\n  - {layers: 10, tp: 2}\n  - {layers: 14, tp: 4}\n") +
              kEnds}) {
      CAPTURE(tail);
      const ResolvedPlan given = resolve_plan(request_of(kHead + tail));
      const std::string by_degrees = directory.path() / "degrees.yaml";
      const std::string by_stages = directory.path() / "stages.yaml";
      const std::string by_primitives = directory.path() / "primitives.yaml";
      write_plan_files(given,
                       {.plan = by_degrees, .stages = by_stages, .primitives = by_primitives});
      for (const std::string& file : {by_degrees, by_stages, by_primitives}) {
        CAPTURE(io::read_file(file));
        const ResolvedPlan again = resolve_plan(complete_from_plan({}, file));
        CHECK(again.plan == given.plan);
        CHECK(price(again) == price(given));
      }
    }
  }

  TEST_CASE("what contradicts itself is refused at its place") {
    CHECK(refusal(kHead + kFour + kEnds) == "accepted");
    CHECK(says(refusal(kHead + kFour + "assign: [{of: haed, devices: all}]\n"),
               "plan.yaml:8:15: error: t5-3.9b has no block 'haed'"));
    CHECK(
        says(refusal(kHead + kFour + "assign: [{of: haed, devices: all}]\n"), "did you mean head"));
    CHECK(says(refusal(kHead + kFour + "assign: [{of: head/logits, devices: all}]\n"),
               "'head/logits' names operators"));
    CHECK(says(refusal(kHead + kFour + "assign: [{of: [], devices: all}]\n"),
               "the entry means no block"));
    CHECK(says(refusal(kHead + kFour + "assign: [{of: head, layers: 0-3, devices: all}]\n"),
               "layers beside devices: all"));
    CHECK(says(refusal(kHead + kFour + kEnds + "order: {schedule: 1f1b, before: [b0 before f1]}\n"),
               "a schedule beside an order that is found"));
    CHECK(says(refusal(kHead + kFour + kEnds + "order: {before: [b0 behind f1]}\n"),
               "plan.yaml:9:18: error: order.before[0]: 'b0 behind f1' is not a rule"));
    CHECK(says(refusal(kHead + kFour + kEnds + "order: {before: [b0 before f7]}\n"),
               "there is no pass 'f7'"));
    const std::string circle = refusal(
        kHead + kFour + kEnds + "order:\n  before:\n    - b1 before f0\n    - f0 before f1(m+1)\n");
    CHECK(says(circle, "plan.yaml:11:7: error: rules lead in a circle"));
    CHECK(says(circle, "b1 before f0 (line 11)"));
    CHECK_FALSE(says(circle, "line 12"));
    CHECK(says(refusal("schema: plansearch/plan/v1\nhardware: dgx-2-v100\nmodel: t5-3.9b\n"
                       "framework: megatron\ngpus: 8\nbatch: 16\n" +
                       kFour + kEnds),
               "megatron runs no blocks on the devices of several stages"));
    CHECK(says(refusal("schema: plansearch/plan/v1\nhardware: dgx-2-v100\nmodel: t5-3.9b\n"
                       "framework: megatron\ngpus: 8\nbatch: 16\n" +
                       kFour + kEnds),
               "nnscaler"));
  }

  TEST_CASE("a search with blocks on all devices equals pricing every plan") {
    const auto questions = open_questions(request_of(
        "schema: plansearch/plan/v1\nhardware: dgx-2-v100\nmodel: gpt2\nframework: nnscaler\n"
        "gpus: 4\nbatch: 8\ndegrees: {zero: 0}\n" +
        kEnds));
    REQUIRE(questions.size() == 1);
    REQUIRE(questions.front().asked.decides_plans());
    const SearchResult pruned = test::found(questions.front(), Pruning::On, 1);
    const SearchResult all = test::found(questions.front(), Pruning::Off, 2);
    REQUIRE(!pruned.ranked.empty());
    CHECK(pruned.counts.evaluated <= all.counts.evaluated);
    REQUIRE(pruned.ranked.size() <= all.ranked.size());
    for (std::size_t i = 0; i < std::min<std::size_t>(3, pruned.ranked.size()); ++i) {
      CHECK(pruned.ranked[i].estimate == all.ranked[i].estimate);
      CHECK(*pruned.ranked[i].written == *all.ranked[i].written);
    }
    for (const PlanCandidate& plan : all.ranked) {
      const Assignment& held = *plan.written->assignment;
      CHECK(held.gangs.empty() == (held.stages() == 1));
    }
    CHECK_THROWS_AS(static_cast<void>(open_questions(
                        request_of(kHead + kEnds + "order: {before: [b0 before f0(m+4)]}\n"))),
                    InputError);
  }
}

}  // namespace
}  // namespace plansearch::shared_plan_test
