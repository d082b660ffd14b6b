// SPDX-License-Identifier: Apache-2.0
// Plans near the ranked ones that the framework does not run: their price is that of the framework
// as if it did, and they keep what the question decides.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>

#include "answer/make_report.hpp"
#include "answer/search_session.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/load_problem.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch {
namespace {

ProblemRequest request() {
  ProblemRequest request;
  request.hardware = "jean-zay-a100";
  request.model = "llama3-70b";
  request.framework = "nnscaler";
  request.gpus = 128;
  return request;
}

SearchReport report_of(const ProblemRequest& request, Beyond how_far) {
  SearchSession session({.top = 3, .misses = 0}, [](const std::string&) {});
  session.look_beyond(how_far);
  auto found = session.report(load_problem(request), 128, "", SideQuestions::OfPlans);
  REQUIRE(std::holds_alternative<SearchReport>(found));
  return std::get<SearchReport>(std::move(found));
}

}  // namespace

TEST_SUITE("problem") {
  TEST_CASE("a plan beyond the framework is priced as if the framework ran it") {
    const SearchReport report = report_of(request(), Beyond::All);
    REQUIRE(report.beyond.plans.size() > 1);
    ProblemRequest wider = request();
    wider.framework = "nnscaler+";
    const PlanEvaluator as_if(with_gpus(load_problem(wider), 128));
    const PlanEvaluator own(with_gpus(load_problem(request()), 128));
    const Seconds first = report.plans.front().estimate.step.total();
    double before = 1.0;
    for (const BeyondReport& beyond : report.beyond.plans) {
      const PlanDegrees& plan = beyond.plan.plan.degrees;
      CAPTURE(beyond.command);
      CHECK(own.obstacle(plan));
      REQUIRE_FALSE(as_if.obstacle(plan));
      const auto workspace = PlanEvaluator::make_workspace();
      const Estimate priced = at_factor(as_if.simulate(*as_if.profile(plan), plan, *workspace),
                                        as_if.problem().site.factor);
      CHECK(priced.step.total() == beyond.plan.estimate.step.total());
      CHECK(beyond.gain == doctest::Approx(1.0 - priced.step.total() / first));
      CHECK(beyond.gain <= before);  // the fastest first
      before = beyond.gain;
      // 80 % of outcomes, by a symmetrical error of the logarithm.
      CHECK(std::log(1.0 - beyond.least) + std::log(1.0 - beyond.most) ==
            doctest::Approx(2.0 * std::log(1.0 - beyond.gain)));
      CHECK(beyond.least < beyond.gain);
      CHECK(as_if.memory_fit(plan, beyond.plan.estimate.memory.total()) == MemoryFit::Fits);
    }
  }

  TEST_CASE("a plan beyond the framework keeps the degrees that are decided") {
    ProblemRequest decided = request();
    decided.degrees.pin(Degree::TensorDepth, 1);
    decided.degrees.pin(Degree::Schedule, static_cast<int>(kDefaultSchedule));
    for (const BeyondReport& beyond : report_of(decided, Beyond::All).beyond.plans) {
      CHECK(beyond.plan.plan.degrees.tensor_depth == 1);
      CHECK(beyond.plan.plan.degrees.schedule == kDefaultSchedule);
    }
  }

  TEST_CASE("a plan beyond the framework keeps bounds of degrees") {
    for (const Degree degree : {Degree::Pipeline, Degree::TensorDepth}) {
      ProblemRequest bounded = request();
      bounded.limits.at_most(degree, 4);
      const SearchReport report = report_of(bounded, Beyond::All);
      REQUIRE_FALSE(report.beyond.plans.empty());
      for (const BeyondReport& beyond : report.beyond.plans) {
        CHECK(degree_table()[static_cast<std::size_t>(degree)].get(beyond.plan.plan.degrees) <= 4);
      }
    }
  }

  TEST_CASE("plans beyond a framework file of one's own are priced by that file and what is set") {
    const auto file = std::filesystem::temp_directory_path() / "plansearch-beyond-test.yaml";
    std::ofstream(file) << "schema: plansearch/framework/v1\nname: our-trainer\nlike: nnscaler\n";
    ProblemRequest own = request();
    own.framework = file.string();
    const BeyondReport like = report_of(request(), Beyond::Nearest).beyond.plans.at(0);
    const BeyondReport same = report_of(own, Beyond::Nearest).beyond.plans.at(0);
    CHECK(same.plan.plan.degrees == like.plan.plan.degrees);
    CHECK(same.plan.estimate.step.total() == like.plan.estimate.step.total());
    CHECK(same.command.find("--framework " + file.string() + "+ ") != std::string::npos);
    own.set = "framework.constants.host_launch=50ms";
    const BeyondReport slow = report_of(own, Beyond::Nearest).beyond.plans.at(0);
    CHECK(slow.plan.estimate.step.total() > same.plan.estimate.step.total());
    ProblemRequest wider = own;
    wider.framework += "+";
    const PlanEvaluator as_if(with_gpus(load_problem(wider), 128));
    const PlanDegrees& plan = slow.plan.plan.degrees;
    const auto workspace = PlanEvaluator::make_workspace();
    const Estimate priced = at_factor(as_if.simulate(*as_if.profile(plan), plan, *workspace),
                                      as_if.problem().site.factor);
    CHECK(priced.step.total() == slow.plan.estimate.step.total());
    std::filesystem::remove(file);
  }

  TEST_CASE("where messages wait in lists, the best plan under passes is beyond the framework") {
    ProblemRequest lists = request();
    lists.hardware = "p3.16xlarge";
    lists.model = "gpt2-xl";
    lists.framework = "alpa";
    lists.gpus = 64;
    SearchSession session({.top = 3, .misses = 0}, [](const std::string&) {});
    const auto report = [&](const ProblemRequest& asked) {
      auto found = session.report(load_problem(asked), 64, "", SideQuestions::OfPlans);
      REQUIRE(std::holds_alternative<SearchReport>(found));
      return std::get<SearchReport>(std::move(found));
    };
    const SearchReport plain = report(lists);
    REQUIRE(plain.beyond.plans.size() == 1);
    const BeyondReport& beyond = plain.beyond.plans.front();
    CHECK(beyond.what == "message passes");
    // Alpa recomputes where nothing is said.
    CHECK(beyond.command.find("--passes all ") != std::string::npos);
    CHECK(beyond.command.find("--recompute none") != std::string::npos);
    ProblemRequest passed = lists;
    passed.passes = "all";
    const SearchReport under = report(passed);
    CHECK(under.plans.front().estimate.step.total() == beyond.plan.estimate.step.total());
    CHECK(under.beyond.tried.find("passes") == std::string::npos);
  }

  TEST_CASE("constraints win where they should, and predict gives their price") {
    struct Case {
      const char* model;
      int gpus;
      double risk;
      const char* name;
    };
    // A vocabulary that stages wait for; attention whose scores leave no room.
    for (const Case& one :
         {Case{"t5-11b", 8, 0.2, "interlaced"}, Case{"swin-10b", 16, 0.1, "coshard#5"}}) {
      ProblemRequest asked;
      asked.hardware = "dgx-2-v100";
      asked.framework = "nnscaler";
      asked.model = one.model;
      asked.gpus = one.gpus;
      asked.batch = 256;
      asked.mem_risk = one.risk;
      SearchSession session({.top = 3, .misses = 0}, [](const std::string&) {});
      auto made = session.report(load_problem(asked), one.gpus, "", SideQuestions::OfPlans);
      REQUIRE(std::holds_alternative<SearchReport>(made));
      const SearchReport& report = std::get<SearchReport>(made);
      REQUIRE(report.beyond.plans.size() == 1);
      const BeyondReport& beyond = report.beyond.plans.front();
      CAPTURE(beyond.command);
      CHECK(beyond.gain > 0.05);
      CHECK(beyond.runs_in == "nnscaler");
      CHECK(beyond.command.ends_with(std::string("--constraints ") + one.name));
      ProblemRequest wider = asked;
      wider.framework = "nnscaler+";
      wider.degrees = to_pinned(beyond.plan.plan.degrees);
      const ResolvedPlan given = resolve_plan(with_constraints({wider, {}}, one.name));
      const SearchReport priced = make_prediction(given);
      CHECK(priced.plans.front().estimate == beyond.plan.estimate);
    }
  }

  TEST_CASE("nothing is looked for where that is asked, and the nearest plan shows alone") {
    CHECK(report_of(request(), Beyond::None).beyond.tried.empty());
    const SearchReport nearest = report_of(request(), Beyond::Nearest);
    CHECK(nearest.beyond.plans.size() == 1);
    CHECK(nearest.beyond.tried.find("tensor grids") != std::string::npos);
  }
}

}  // namespace plansearch
