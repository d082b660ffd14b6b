// SPDX-License-Identifier: Apache-2.0
#include "report/training.hpp"

#include <doctest/doctest.h>

namespace plansearch::training_test {
namespace {

QuestionReport question() {
  QuestionReport q;
  q.gpus = 100;
  q.global_batch = 1000;
  q.seq_len = 2000;
  q.gpu_power_watt = 500.0;
  q.gpu_price_usd_per_hour = 2.0;
  q.tokens = 1e9 + 1;
  return q;
}

PlanReport plan() {
  PlanReport p;
  p.estimate.step.compute = Seconds(7.2);
  p.p10 = Seconds(7.0);
  p.p90 = Seconds(8.0);
  return p;
}

/// Of a table with this row only.
std::vector<std::string> cells_of(const TrainingCost& cost) {
  std::vector<std::string> texts;
  for (const Column<TrainingCost>& column : training_columns()) {
    if (column.title.title.empty()) continue;
    const Cell cell = column.cell(cost);
    texts.push_back(spelled({&cell}).front());
  }
  return texts;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("training: whole steps, GPU time, energy and price") {
    // 2 M tokens a step: 1,000,000,001 tokens need 501 steps of 7.2 s: 3,607.2 s on 100 GPUs are
    // 360,720 GPU-s, 100.2 GPU-hours; at 500 W 180.36 MJ (50.1 kWh), at 2 $/h 200.4 $.
    const auto cost = training_cost(question(), plan());
    REQUIRE(cost.has_value());
    CHECK(cost->steps == 501.0);
    CHECK(cost->time.value() == doctest::Approx(3607.2));
    CHECK(cost->p10.value() == doctest::Approx(3507.0));
    CHECK(cost->p90.value() == doctest::Approx(4008.0));
    CHECK(cost->gpu_time.value() == doctest::Approx(360720.0));
    CHECK(cost->energy_joule.value() == doctest::Approx(180.36e6));
    CHECK(cost->price_usd.value() == doctest::Approx(200.4));
    CHECK(cells_of(*cost) == std::vector<std::string>{"1.00 h", "100", "50.1 kWh", "$ 200"});
    CHECK(training_line(question()) ==
          "1 B tokens: 501 steps of 2,000,000 tokens; energy: the accelerators at 500 W, without "
          "hosts, network and cooling; price: 2 $/h per GPU, from the profile\n");
  }

  TEST_CASE("training: what the profile does not say is unknown, without tokens there is none") {
    QuestionReport q = question();
    q.gpu_power_watt.reset();
    q.gpu_price_usd_per_hour.reset();
    const auto cost = training_cost(q, plan());
    CHECK_FALSE(cost->energy_joule.has_value());
    CHECK_FALSE(cost->price_usd.has_value());
    CHECK(cells_of(*cost) == std::vector<std::string>{"1.00 h", "100", "-", "-"});
    CHECK(training_line(q).find("the profile has none (--set 'price=2.5 $/h')") !=
          std::string::npos);
    q.tokens.reset();
    CHECK_FALSE(training_cost(q, plan()).has_value());
    CHECK(training_line(q).empty());
  }

  TEST_CASE("training: long runs in days and GWh") {
    TrainingCost cost;
    cost.time = Seconds(86400.0 * 54);
    cost.gpu_time = Seconds(86400.0 * 54 * 16384);   // 21.2 M GPU-hours
    cost.energy_joule = 86400.0 * 54 * 16384 * 700;  // 14.9 GWh
    cost.price_usd = 21.23e6 * 2;
    CHECK(cells_of(cost) ==
          std::vector<std::string>{"54.0 days", "21.2 M", "14.9 GWh", "$ 42.5 M"});
  }
}

}  // namespace plansearch::training_test
