// SPDX-License-Identifier: Apache-2.0
// Ladders and remedies: what cannot be is a value, and files are read once.
#include <doctest/doctest.h>

#include <algorithm>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "answer/search_answer.hpp"
#include "answer/search_session.hpp"
#include "plansearch/load_problem.hpp"

namespace plansearch::answers_test {
namespace {

ProblemRequest request() {
  ProblemRequest request;
  request.hardware = "perlmutter";
  request.model = "gpt2-xl";
  request.space = "data";
  return request;
}

/// Searches of one thread, and what was announced before each.
struct Heard {
  std::vector<std::string> labels;
  SearchSession session{SearchOptions{.top = 2, .misses = 0}, [this](const std::string& label) {
                          if (!label.empty()) labels.push_back(label);
                        }};
};

}  // namespace

TEST_SUITE("problem") {
  TEST_CASE("a ladder climbs in powers of two of whole nodes, to the whole machine") {
    const ResolvedQuestion asked = load_problem(request());
    // 1,536 nodes of 4
    CHECK(ladder_sizes(*asked.problem.cluster) ==
          std::vector<int>{4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 6144});
    Heard heard;
    const auto ladder = climb_ladder(asked, heard.session);
    REQUIRE(std::holds_alternative<LadderReport>(ladder));
    // Data parallelism alone goes as far as the batch of 512.
    const auto& rungs = std::get<LadderReport>(ladder).rungs;
    REQUIRE(rungs.size() == 8);
    CHECK(rungs.back().report.question.gpus == 512);
    CHECK(heard.labels.front() == "4 GPUs");
    CHECK(rungs.front().speedup == 1.0);
    const auto work = [](const LadderRung& rung) {  // of a GPU, over that at the first size
      return rung.speedup * 4 / rung.report.question.gpus;
    };
    const double most = std::ranges::max(rungs, {}, work).efficiency;
    CHECK(most == 1.0);
    for (const LadderRung& rung : rungs) {
      CHECK(rung.efficiency ==
            doctest::Approx(work(rung) / work(std::ranges::max(rungs, {}, work))));
    }
  }

  TEST_CASE("progress tells steps at the site that the answer is about") {
    const ResolvedQuestion asked = load_problem(request());
    REQUIRE(asked.problem.site.factor != 1.0);
    std::optional<Seconds> told;
    SearchOptions options{.top = 2, .misses = 0};
    options.progress = [&](const SearchProgress& done) { told = done.best; };
    SearchSession session(options, [](const std::string&) {});
    const auto best = session.best(asked, 64, "");
    REQUIRE(best.has_value());
    REQUIRE(told.has_value());
    CHECK(told->value() == doctest::Approx(best->estimate.step.total().value()));
  }

  TEST_CASE("degrees that no size has are a reason, not an error") {
    ProblemRequest odd = request();
    odd.degrees.pin(Degree::Data, 5);  // 512 sequences
    const ResolvedQuestion asked = load_problem(odd);
    SearchSession session({}, [](const std::string&) {});
    const auto ladder = climb_ladder(asked, session);
    REQUIRE(std::holds_alternative<Infeasible>(ladder));
    CHECK(std::get<Infeasible>(ladder).detail == "no plan for 5120 GPUs and batch 512 has dp 5");
    CHECK_FALSE(session.best(asked, 64, "64 GPUs"));
  }

  TEST_CASE("remedies are tried on files read before") {
    ProblemRequest full = request();
    full.mem_reserve = "38 GiB";
    ResolvedQuestion asked = load_problem(full);
    Heard heard;
    CHECK_FALSE(heard.session.best(asked, 4, "4 GPUs"));
    asked.request.hardware = asked.request.model = asked.request.framework = "gone since";
    const std::vector<std::string> remedies =
        find_remedies(asked, 4, OtherSizes::Yes, heard.session);
    REQUIRE_FALSE(remedies.empty());
    CHECK(remedies.front().starts_with("without --mem-reserve it fits: dp 4"));
    // A dense layer has no part under Megatron-LM that costs a pass over memory alone.
    CHECK(heard.labels[1] == "without --mem-reserve");
  }
}

}  // namespace plansearch::answers_test
