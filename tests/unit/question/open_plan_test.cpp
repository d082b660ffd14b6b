// SPDX-License-Identifier: Apache-2.0
// Searches for what a plan file leaves open: with bounds and without they find the same plans, each
// priced as predict prices it.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <variant>

#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/search.hpp"
#include "question/resolve_plan.hpp"
#include "unit/io/temporary_directory.hpp"
#include "unit/question/open_search.hpp"

namespace plansearch::open_plan_test {
namespace {

const std::string kSwin =
    "schema: plansearch/plan/v1\nhardware: dgx-2-v100\nmodel: swin-1.8b\nframework: nnscaler\n"
    "gpus: 4\nbatch: 32\n";
const std::string kPieces =
    "transform:\n  - {of: \"*\", layers: 0-3, pieces: {\"heads*\": 4}, recompute: true}\n"
    "  - {of: \"*\", layers: 0-3, pieces: {\"ffn*\": 4}, recompute: true}\n";

PlanRequest plan_of(const std::string& text) {
  const test::TemporaryDirectory directory;
  return complete_from_plan({}, directory.write("plan.yaml", text));
}

std::string refusal(const std::string& text, const std::string& constraints = {}) {
  try {
    static_cast<void>(open_questions(with_constraints(plan_of(text), constraints)));
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "accepted";
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("unit") {
  TEST_CASE("a search of what pieces leave open equals pricing every plan") {
    const auto questions = open_questions(plan_of(kSwin + kPieces));
    REQUIRE(questions.size() == 1);
    REQUIRE(questions.front().asked.placements);
    const SearchResult pruned = test::found(questions.front(), Pruning::On, 1);
    const SearchResult all = test::found(questions.front(), Pruning::Off, 2);
    REQUIRE(!pruned.ranked.empty());
    CHECK(pruned.counts.space == all.counts.space);
    CHECK(pruned.counts.evaluated <= all.counts.evaluated);
    REQUIRE(pruned.ranked.size() <= all.ranked.size());
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(pruned.ranked[i].estimate == all.ranked[i].estimate);
      CHECK(*pruned.ranked[i].written == *all.ranked[i].written);
    }
    // Plan 1 by its degrees and the same file.
    const PlanCandidate& first = pruned.ranked.front();
    PlanRequest again = plan_of(kSwin + kPieces);
    again.request.degrees = to_pinned(first.written->transforms.front().degrees);
    const ResolvedPlan given = resolve_plan(again);
    CHECK(given.plan == *first.written);
    CHECK(std::get<Estimate>(PlanEvaluator(given.problem).evaluate(given.plan)) == first.estimate);
    // Without pieces the same degrees keep more.
    PlanRequest whole = plan_of(kSwin);
    whole.request.degrees = again.request.degrees;
    const ResolvedPlan kept = resolve_plan(whole);
    const Evaluation evaluation = PlanEvaluator(kept.problem).evaluate(kept.plan);
    const auto* too_large = std::get_if<InfeasiblePlan>(&evaluation);
    const Bytes peak = too_large != nullptr ? too_large->estimate.value().memory.total()
                                            : std::get<Estimate>(evaluation).memory.total();
    CHECK(peak > first.estimate.memory.total());
  }

  TEST_CASE("a search of blocks on all devices equals pricing every plan") {
    const auto questions = open_questions(with_constraints(
        plan_of("schema: plansearch/plan/v1\nhardware: dgx-2-v100\nmodel: t5-3.9b\n"
                "framework: nnscaler\ngpus: 4\nbatch: 16\n"),
        "interlaced"));
    REQUIRE(questions.size() == 1);
    const SearchResult pruned = test::found(questions.front(), Pruning::On, 1);
    const SearchResult all = test::found(questions.front(), Pruning::Off, 2);
    REQUIRE(!pruned.ranked.empty());
    CHECK(pruned.counts.evaluated < all.counts.evaluated);  // orders that need not be found
    REQUIRE(pruned.ranked.size() <= all.ranked.size());
    CHECK(pruned.ranked.front().estimate == all.ranked.front().estimate);
    CHECK(*pruned.ranked.front().written == *all.ranked.front().written);
  }

  TEST_CASE("degrees that a file decides are pinned, lists of pieces are questions of their own") {
    const auto questions = open_questions(
        plan_of(kSwin + "transform:\n  - {of: \"*\", tp: 2}\n"
                        "  - {of: \"*\", layers: 0-1, pieces: {\"heads*\": [1, 2]}}\n"
                        "  - {of: \"*\", layers: 0-1, pieces: {\"ffn*\": [2, 4]}}\n"));
    REQUIRE(questions.size() == 4);
    CHECK(questions[0].words == "heads* whole, ffn* in 2 pieces");
    CHECK(questions[3].words == "heads* in 2 pieces, ffn* in 4 pieces");
    for (const OpenQuestion& open : questions) {
      CHECK(open.asked.request.degrees.get(Degree::TensorOut) == 2);
    }
    const auto regions = [](const OpenQuestion& open) {
      std::size_t count = 0;
      for (const BlockChoice& block : open.asked.placements->blocks) count += block.regions.size();
      return count;
    };
    CHECK(regions(questions[3]) == 2 * regions(questions[0]));
  }

  TEST_CASE("a constraint is a file; it adds to a plan and to others") {
    const PlanRequest asked = with_constraints(plan_of(kSwin + "degrees: {pp: 2}\n"), "coshard");
    CHECK(asked.request.degrees.get(Degree::Pipeline) == 2);
    CHECK(open_questions(asked).size() == 16);
    const test::TemporaryDirectory directory;
    const std::string mine =
        directory.write("mine.yaml", "schema: plansearch/plan/v1\ndegrees: {zero: 1, pp: 4}\n");
    const PlanRequest both =
        with_constraints(plan_of(kSwin + "degrees: {pp: 2}\n"), "coshard," + mine);
    CHECK(both.request.degrees.get(Degree::Zero) == 1);
    CHECK(both.request.degrees.get(Degree::Pipeline) == 2);  // the plan's own
  }

  TEST_CASE("a number behind a constraint is one of its variants") {
    const auto all = open_questions(with_constraints(plan_of(kSwin), "coshard"));
    const auto fifth = open_questions(with_constraints(plan_of(kSwin), "coshard#5"));
    REQUIRE(fifth.size() == 1);
    CHECK(all.at(4).words == "*heads* in 2 pieces, *ffn* whole");
    CHECK(*fifth.front().asked.placements == *all.at(4).asked.placements);
    const auto whole = open_questions(with_constraints(plan_of(kSwin), "coshard#1"));
    CHECK_FALSE(whole.front().asked.decides_plans());
    CHECK(says(refusal(kSwin, "coshard#17"), "coshard.yaml:"));
    CHECK(says(refusal(kSwin, "coshard#17"), "variant 17 of 16"));
    CHECK(says(refusal(kSwin, "interlaced#2"), "variant 2 of 1"));
    CHECK(says(refusal(kSwin, "coshard#x"), "not a rank"));
  }

  TEST_CASE("paths are relative to the plan that names them") {
    const test::TemporaryDirectory directory;
    const std::string net = directory.write("net.yaml", "schema: plansearch/graph/v1\n");
    const auto model_of = [&](const std::string& model) {
      return complete_from_plan(
                 {},
                 directory.write("plan.yaml", "schema: plansearch/plan/v1\nmodel: " + model + "\n"))
          .request.model;
    };
    CHECK(model_of("net.yaml") == net);
    CHECK(model_of("./net.yaml") ==
          (std::filesystem::path(net).parent_path() / "./net.yaml").string());
    CHECK(model_of("gpt2-xl") == "gpt2-xl");
    CHECK(model_of("openai-community/gpt2") == "openai-community/gpt2");
    try {
      static_cast<void>(model_of("nets/none.yaml"));
      FAIL("accepted");
    } catch (const InputError& error) {
      CHECK(says(error.formatted(), "plan.yaml:2:8: error: model: there is no file '"));
    }
  }

  TEST_CASE("3f1b orders several passes") {
    const PlanRequest asked = with_constraints(
        plan_of("schema: plansearch/plan/v1\nhardware: dgx-2-v100\nmodel: alphafold2-evoformer\n"
                "framework: nnscaler\ngpus: 16\nbatch: 256\ndegrees: {pp: 4, dp: 4, recompute: "
                "full}\n"),
        "3f1b");
    const ResolvedPlan plan = resolve_plan(asked);
    CHECK(to_text(plan.plan.order.schedule) == "3f1b");
    CHECK(std::holds_alternative<Estimate>(PlanEvaluator(plan.problem).evaluate(plan.plan)));
    // Networks that are passed once have other orders.
    CHECK_THROWS_AS(static_cast<void>(resolve_plan(
                        with_constraints(plan_of(kSwin + "degrees: {pp: 4}\n"), "3f1b"))),
                    InputError);
  }

  TEST_CASE("chunked-recompute keeps nothing wide of an MLP") {
    const std::string llama =
        "schema: plansearch/plan/v1\nhardware: dgx-h100\nmodel: llama3-8b\nframework: nnscaler\n"
        "gpus: 8\nbatch: 64\ndegrees: {tp: 8, micro_batch: 1}\n";
    const auto questions = open_questions(with_constraints(plan_of(llama), "chunked-recompute"));
    REQUIRE(questions.size() == 4);
    CHECK(questions[0].words == "sequence* whole");
    CHECK(questions[3].words == "sequence* in 8 pieces");
    const BlockChoice& layer = questions[3].asked.placements->blocks[1];
    REQUIRE(layer.regions.size() == 1);
    CHECK(layer.regions[0].pieces == 8);
    CHECK(layer.regions[0].runs_again());
    const auto kept = [&](const std::string& more) {
      const ResolvedPlan plan = resolve_plan(plan_of(llama + more));
      const Evaluation evaluation = PlanEvaluator(plan.problem).evaluate(plan.plan);
      return std::get<Estimate>(evaluation).memory;
    };
    const std::string chunks =
        "transform:\n  - {of: [\"*/mlp_*\", \"*/activation\"], pieces: {\"sequence*\": 4}, "
        "recompute: true}\n";
    // Of 8192 tokens on 8 devices: gate, up, SiLU of the gate and their product, as kernels one by
    // one keep them: 4 x 14336 / 8 features of bf16 in 32 layers.
    const double wide = 2.0 * 8192 * 4 * 14336 / 8;
    CHECK((kept("").activations - kept(chunks).activations).value() == doctest::Approx(32 * wide));
  }

  TEST_CASE("what no search can take is refused at its place") {
    CHECK(says(refusal(kSwin, "coshrd"), "did you mean coshard?"));
    CHECK(says(refusal(kSwin + "order: {micro_batches: 4}\nassign: [{of: \"*\", devices: 0-3}]\n"),
               "plan.yaml:8:9: error: the stages are listed here"));
    CHECK(says(refusal(kSwin + "transform:\n  - {of: \"*\", pieces: {\"hands*\": 4}}\n"),
               "has no dimension 'hands*'"));
    CHECK(says(refusal(kSwin + "framework2: x\n"), "framework2"));
    CHECK(says(refusal("schema: plansearch/plan/v1\nhardware: dgx-2-v100\nmodel: swin-1.8b\n"
                       "gpus: 4\nframework: megatron\nbatch: 64\n" +
                       kPieces),
               "legal: --framework"));
    CHECK(says(refusal(kSwin + "transform:\n  - {of: \"*\", pieces: {\"heads*\": []}}\n"),
               "no number of pieces"));
    PlanRequest one =
        plan_of(kSwin + "transform:\n  - {of: \"*\", pieces: {\"heads*\": [1, 2]}}\n");
    CHECK_THROWS_AS(static_cast<void>(resolve_plan(one)), InputError);
  }
}

}  // namespace
}  // namespace plansearch::open_plan_test
