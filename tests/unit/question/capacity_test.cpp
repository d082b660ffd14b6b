// SPDX-License-Identifier: Apache-2.0
#include "answer/capacity.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "plansearch/error.hpp"

namespace plansearch::capacity_test {
namespace {

CapacityLimits budget(const std::string& text) {
  CapacityQuestion question;
  question.budget = text;
  return read_limits(question);
}

ProblemRequest perlmutter() {
  ProblemRequest request;
  request.hardware = "perlmutter:64,perlmutter:128";
  request.model = "gpt2-xl";
  request.tokens = "300B";
  return request;
}

SearchSession session() {
  SearchOptions options;
  options.top = 1;
  options.threads = 1;
  return SearchSession(options, [](const std::string&) {});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("capacity: budgets in node-hours, GPU-hours, money and energy") {
    CHECK(budget("20000 node-hours").node_hours == 20000.0);
    CHECK(budget("20,000 Node-Hours").node_hours == 20000.0);
    CHECK(budget("2M GPU-hours").gpu_hours == 2e6);
    CHECK(budget("5 M$").price_usd == 5e6);
    CHECK(budget("$5M").price_usd == 5e6);
    CHECK(budget("300k USD").price_usd == 3e5);
    CHECK(budget("3 GWh").energy_joule == doctest::Approx(3e9 * 3600.0));
    CHECK(budget("5 kWh").energy_joule == doctest::Approx(5e3 * 3600.0));
    CHECK(budget("4 MWh").energy_joule == doctest::Approx(4e6 * 3600.0));
    for (const char* wrong : {"5", "5 apples", "$", "-5$", "0 GWh", "five $"}) {
      CHECK_THROWS_AS(static_cast<void>(budget(wrong)), InputError);
    }
    CapacityQuestion late;
    late.deadline = "60d";
    CHECK(read_limits(late).deadline == 60.0 * 86400.0);
    late.deadline = "60";  // a number by itself counts days
    CHECK(read_limits(late).deadline == 60.0 * 86400.0);
    late.deadline = "2 weeks";
    CHECK(read_limits(late).deadline == 14.0 * 86400.0);
    late.deadline = "soon";
    CHECK_THROWS_AS(static_cast<void>(read_limits(late)), InputError);
  }

  TEST_CASE("capacity: a job takes its steps and what failures cost, limits are kept") {
    SearchSession searches = session();
    CapacityQuestion question;
    question.mtbf = "50000h";
    const CapacityReport free = plan_capacity(perlmutter(), question, searches);
    REQUIRE(free.rows.size() == 2);
    const CapacityRow& first = free.rows.front();
    REQUIRE(first.runs());
    CHECK(first.plan.question.gpus == 64);
    const double steps = 300e9 / (512.0 * 1024.0);  // whole ones: 572,205
    const double pure = first.plan.plan->estimate.step.total().value() * std::ceil(steps);
    CHECK(first.wall.value() == doctest::Approx(pure / first.plan.goodput->share));
    CHECK(first.gpu_hours == doctest::Approx(first.wall.value() * 64.0 / 3600.0));
    CHECK(first.p10 < first.wall);
    CHECK(first.wall < first.p90);
    CHECK_FALSE(first.affordable_tokens.has_value());
    CHECK(unmet(free).empty());

    // A deadline between the two sizes: the larger one meets it, the smaller trains less.
    question.deadline = std::to_string(0.75 * first.wall.value()) + "s";
    const CapacityReport late = plan_capacity(perlmutter(), question, searches);
    CHECK(late.rows[0].beyond == "33.3 % over the deadline");
    CHECK(*late.rows[0].affordable_tokens == doctest::Approx(0.75 * 300e9));
    CHECK(late.rows[1].beyond.empty());
    CHECK(late.least([](const CapacityRow& row) { return std::optional(row.gpu_hours); }) ==
          &late.rows[1]);

    question.deadline = "1h";
    const CapacityReport never = plan_capacity(perlmutter(), question, searches);
    CHECK(unmet(never).find("no size is within the limits; nearest: 128 x perlmutter") == 0);
    // A budget of money on a machine without a price decides nothing.
    question.deadline.clear();
    question.budget = "5M$";
    CHECK(plan_capacity(perlmutter(), question, searches).rows[0].beyond ==
          "the profile has no price");
  }

  TEST_CASE("capacity: of several limits the tightest counts, the first one is named") {
    SearchSession searches = session();
    CapacityQuestion question;
    const CapacityReport free = plan_capacity(perlmutter(), question, searches);
    const CapacityRow& row = free.rows.front();
    const auto tokens = [&](double time, double work) {
      question.deadline = std::to_string(time * row.wall.value()) + "s";
      question.budget = std::to_string(work * row.gpu_hours) + " GPU-hours";
      return *plan_capacity(perlmutter(), question, searches).rows.front().affordable_tokens;
    };
    CHECK(tokens(0.75, 0.5) == doctest::Approx(0.5 * 300e9));
    CHECK(tokens(0.5, 0.75) == doctest::Approx(0.5 * 300e9));
    question.step_time = "1ms";
    CHECK(plan_capacity(perlmutter(), question, searches).rows.front().beyond == "2x the deadline");
    // Four accelerators a node.
    question = {};
    question.budget = std::to_string(0.5 * row.gpu_hours / 4.0) + " node-hours";
    CHECK(plan_capacity(perlmutter(), question, searches).rows.front().beyond ==
          "2x the node-hours");
  }

  TEST_CASE("capacity: p10 and p90 of a job add the errors of its step and of its failures") {
    SearchSession searches = session();
    const CapacityReport report = plan_capacity(perlmutter(), {}, searches);
    const CapacityRow& row = report.rows.front();
    const PlanReport& plan = *row.plan.plan;
    const Goodput& goodput = *row.plan.goodput;
    REQUIRE(goodput.p10 < goodput.share);
    const double step = std::log(plan.p90 / plan.estimate.step.total());
    const double lost = std::log(goodput.share / goodput.p10);
    CHECK(row.p90.value() ==
          doctest::Approx(row.wall.value() * std::exp(std::hypot(step, lost))).epsilon(1e-12));
    const double less = std::log(plan.estimate.step.total() / plan.p10);
    const double won = std::log(goodput.p90 / goodput.share);
    CHECK(row.p10.value() ==
          doctest::Approx(row.wall.value() * std::exp(-std::hypot(less, won))).epsilon(1e-12));
  }

  TEST_CASE("capacity: GPU-hours are compared with the best size of the same machine") {
    ProblemRequest request = perlmutter();
    request.hardware = "perlmutter:64,perlmutter:256,dgx-h100:64";
    SearchSession searches = session();
    const CapacityReport report = plan_capacity(request, {}, searches);
    REQUIRE(report.rows[0].gpu_hours > 1.2 * report.rows[2].gpu_hours);
    CHECK(report.rows[2].efficiency == 1.0);
    const double fewest = std::min(report.rows[0].gpu_hours, report.rows[1].gpu_hours);
    CHECK(report.rows[0].efficiency == doctest::Approx(fewest / report.rows[0].gpu_hours));
    CHECK(report.rows[1].efficiency == doctest::Approx(fewest / report.rows[1].gpu_hours));
  }

  TEST_CASE("capacity: energy of accelerators, of what is beside them, and of the site") {
    SearchSession searches = session();
    CapacityQuestion question;
    const CapacityReport bare = plan_capacity(perlmutter(), question, searches);
    question.host_power = 600.0;
    question.pue = 1.2;
    const CapacityReport whole = plan_capacity(perlmutter(), question, searches);
    const CapacityRow& row = bare.rows.front();
    const double own = row.gpu_hours * 3600.0 * *row.plan.question.gpu_power_watt;
    CHECK(*row.energy_joule == doctest::Approx(own));
    // 600 W for every four of them.
    CHECK(*whole.rows.front().energy_joule ==
          doctest::Approx(1.2 * (own + row.gpu_hours * 3600.0 * 150.0)));
  }

  TEST_CASE("capacity: a price that is given is that of every machine") {
    SearchSession searches = session();
    CapacityQuestion question;
    CHECK_FALSE(plan_capacity(perlmutter(), question, searches).rows[0].price_usd.has_value());
    question.prices = {2.5};
    const CapacityReport report = plan_capacity(perlmutter(), question, searches);
    for (const CapacityRow& row : report.rows) {
      CHECK(*row.price_usd == doctest::Approx(2.5 * row.gpu_hours));
    }
  }

  TEST_CASE("capacity: each machine has its own price") {
    SearchSession searches = session();
    ProblemRequest request = perlmutter();
    request.hardware = "perlmutter:64,dgx-h100:32";
    request.gpus.reset();
    request.gpu_list.clear();
    CapacityQuestion question;
    question.prices = {1.5, 4.0};
    const CapacityReport report = plan_capacity(request, question, searches);
    REQUIRE(report.rows.size() == 2);
    CHECK(*report.rows[0].price_usd == doctest::Approx(1.5 * report.rows[0].gpu_hours));
    CHECK(*report.rows[1].price_usd == doctest::Approx(4.0 * report.rows[1].gpu_hours));
    question.prices = {1.5, 4.0, 1.0};
    CHECK_THROWS_AS(static_cast<void>(plan_capacity(request, question, searches)), InputError);
  }

  TEST_CASE("capacity: a budget without tokens is solved for them") {
    SearchSession searches = session();
    ProblemRequest request = perlmutter();
    request.tokens.reset();
    CapacityQuestion question;
    CHECK_THROWS_AS(static_cast<void>(plan_capacity(request, question, searches)), InputError);
    question.budget = "1000 node-hours";
    const CapacityReport report = plan_capacity(request, question, searches);
    for (const CapacityRow& row : report.rows) {
      if (!row.runs()) continue;
      CHECK(row.gpu_hours / row.accelerators_per_node == doctest::Approx(1000.0));
      CHECK(row.beyond.empty());
      CHECK(*row.plan.question.tokens == *row.affordable_tokens);
    }
  }

  TEST_CASE("capacity: dollars of one machine are not less than GPU-hours of another") {
    ProblemRequest request;
    request.hardware = "aws-p5:16,l40s:64";  // the second has no price
    request.model = "llama3-8b";
    request.tokens = "2T";
    SearchSession searches = session();
    const CapacityReport report = plan_capacity(request, {}, searches);
    REQUIRE(report.rows[0].price_usd > report.rows[1].gpu_hours);
    const std::string text = render_capacity(report, Format::Table);
    CHECK(text.find("fewest GPU-hours, least energy: 16 x aws-p5") != std::string::npos);
    CHECK(text.find("cheapest") == std::string::npos);
    CHECK(text.find("aws-p5 700 W, $ ") != std::string::npos);
  }

  TEST_CASE("capacity: what ran on a machine decides how often it is interrupted") {
    ProblemRequest request;
    request.hardware = "jean-zay-a100:384";
    request.model = "bloom-176b";
    request.framework = "megatron-deepspeed";
    request.tokens = "366B";
    SearchSession searches = session();
    CapacityQuestion question;
    const auto goodput = [&] {
      return *plan_capacity(request, question, searches).rows[0].plan.goodput;
    };
    const Goodput own = goodput();
    CHECK(own.rests_on.records.size() == 1);
    CHECK(own.rests_on.restart == Seconds(5400.0));
    // 384 x 115 days over 27.6 interruptions and 384 accelerators: 100 h.
    CHECK(own.mtbf.value() == doctest::Approx(100.0 * 3600.0));
    question.checkpoint_interval = "3h";
    CHECK(goodput().interval == Seconds(10800.0));
    CHECK(goodput().share < own.share);
    question.restart = "15min";
    CHECK(goodput().rests_on.restart == Seconds(900.0));
    question.mtbf = "50000h";
    CHECK(goodput().rests_on.records.empty());
    CHECK(goodput().mtbf.value() == doctest::Approx(50000.0 * 3600.0 / 384.0));
    question.checkpoint_interval = "0s";
    CHECK_THROWS_AS(static_cast<void>(goodput()), InputError);
  }

  TEST_CASE("capacity: a step that may take so long") {
    SearchSession searches = session();
    CapacityQuestion question;
    const CapacityReport free = plan_capacity(perlmutter(), question, searches);
    const auto step = [&](std::size_t row) {
      return free.rows[row].plan.plan->estimate.step.total();
    };
    REQUIRE(step(1) < step(0));
    // Between the steps of the two sizes: the larger one is the smallest that does.
    question.step_time = std::to_string(std::sqrt(step(0).value() * step(1).value())) + "s";
    const CapacityReport fast = plan_capacity(perlmutter(), question, searches);
    CHECK(fast.rows[0].beyond.ends_with(" the step time"));
    CHECK_FALSE(fast.rows[0].affordable_tokens.has_value());
    const auto size = [](const CapacityRow& row) {
      return std::optional<double>(row.plan.question.gpus);
    };
    CHECK(fast.least(size) == &fast.rows[1]);
    CHECK(free.least(size) == &free.rows[0]);
    question.step_time = "1ms";
    const CapacityReport never = plan_capacity(perlmutter(), question, searches);
    CHECK(unmet(never).find("no size is within the limits; the fastest step: ") == 0);
    CHECK(unmet(never).find(" on 128 x perlmutter, ") != std::string::npos);
    question.step_time = "0s";
    CHECK_THROWS_AS(static_cast<void>(plan_capacity(perlmutter(), question, searches)), InputError);
  }

  TEST_CASE("capacity: tokens are asked for") {
    ProblemRequest request = perlmutter();
    request.tokens.reset();
    SearchSession searches = session();
    CHECK_THROWS_WITH_AS(static_cast<void>(plan_capacity(request, {}, searches)),
                         "capacity: --tokens is missing", InputError);
  }
}

}  // namespace plansearch::capacity_test
