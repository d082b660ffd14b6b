// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/run_summary.hpp"

#include <doctest/doctest.h>

#include "run_tables.hpp"

namespace plansearch {
namespace {

RunPrediction prediction(double time, Verdict verdict = Verdict::Feasible) {
  RunPrediction p;
  p.verdict = verdict;
  p.step_time = Seconds(time);
  p.p10 = Seconds(0.9 * time);
  p.p90 = Seconds(1.1 * time);
  p.memory = Bytes(13.2 * 1073741824);
  p.peak_seconds = 0.1;
  return p;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("errors, coverage and memory of a group") {
    const auto runs = test::runs_of({{{"id", "1"}, {"step_time_s", "1"}},
                                     {{"id", "2"}, {"step_time_s", "2"}},
                                     {{"id", "3"}, {"step_time_s", "8"}, {"source", "other"}}});
    const std::vector<RunPrediction> predictions{prediction(1.05), prediction(1.6),
                                                 prediction(8.0)};
    const auto groups = summarise_runs(test::rows_of(runs, predictions), {{"source"}, 0.0, {}});
    REQUIRE(groups.size() == 3);
    CHECK(groups[0].by == "all");
    CHECK(groups[0].step_time.rows == 3);
    CHECK(groups[0].step_time.mean == doctest::Approx((0.05 + 0.2 + 0.0) / 3));
    CHECK(groups[0].step_time.within == 2);
    CHECK(groups[0].memory[0].mean == doctest::Approx(0.1));
    CHECK(groups[1].value == "test");
    CHECK(groups[2].value == "other");
    CHECK(groups[2].step_time.rows == 1);
  }

  TEST_CASE("a measured time is inside between both ends of the interval") {
    const auto runs = test::runs_of({{{"id", "1"}, {"step_time_s", "0.89"}},
                                     {{"id", "2"}, {"step_time_s", "1"}},
                                     {{"id", "3"}, {"step_time_s", "1.11"}}});
    const std::vector<RunPrediction> predictions{prediction(1), prediction(1), prediction(1)};
    const auto groups = summarise_runs(test::rows_of(runs, predictions), {{}, 0.0, {}});
    CHECK(groups[0].step_time.within == 1);
  }

  TEST_CASE("slow steps and suspects are left out") {
    const auto runs = test::runs_of({{{"id", "1"}, {"step_time_s", "1"}},
                                     {{"id", "2"}, {"step_time_s", "100"}},
                                     {{"id", "3"}, {"step_time_s", "2"}}});
    const std::vector<RunPrediction> predictions{prediction(1), prediction(50), prediction(2)};
    const auto groups = summarise_runs(test::rows_of(runs, predictions), {{}, 0.02, {"3"}});
    CHECK(groups[0].rows == 2);
    // 0.1 s at peak over 100 s is 0.1 %.
    CHECK(groups[0].step_time.rows == 1);
  }

  TEST_CASE("rows are grouped by utilisation and by regime") {
    const auto runs = test::runs_of({{{"id", "1"}, {"step_time_s", "1"}},
                                     {{"id", "2"}, {"step_time_s", "100"}},
                                     {{"id", "3"}}});
    std::vector<RunPrediction> predictions{prediction(1), prediction(50), prediction(2)};
    predictions[0].regimes = {"mixture of experts", "full recomputation"};
    predictions[2].peak_seconds.reset();
    const auto groups =
        summarise_runs(test::rows_of(runs, predictions), {{"mfu", "regime"}, 0.0, {}});
    REQUIRE(groups.size() == 6);
    CHECK(groups[1].value == ">= 2 %");
    CHECK(groups[1].rows == 1);
    CHECK(groups[2].value == "< 2 %");
    CHECK(groups[2].rows == 1);
    CHECK(groups[3].value == "mixture of experts");
    CHECK(groups[4].value == "full recomputation");
    CHECK(groups[5].value == "none of these");
    CHECK(groups[5].rows == 2);
  }

  TEST_CASE("feasibility counts legality and memory apart; failed rows have no time error") {
    const auto runs = test::runs_of({{{"id", "1"}},
                                     {{"id", "2"}},
                                     {{"id", "3"}, {"oom", "failed"}},
                                     {{"id", "4"}, {"oom", "1"}},
                                     {{"id", "5"}, {"oom", "failed"}},
                                     {{"id", "6"}, {"oom", "failed"}}});
    const std::vector<RunPrediction> predictions{prediction(0.5),
                                                 prediction(0.5, Verdict::OutOfMemory),
                                                 prediction(1),
                                                 prediction(1, Verdict::OutOfMemory),
                                                 prediction(1, Verdict::Illegal),
                                                 prediction(1, Verdict::Inexpressible)};
    const GroupSummary all = summarise_runs(test::rows_of(runs, predictions), {})[0];
    CHECK(all.step_time.rows == 2);
    CHECK(all.inexpressible == 1);
    CHECK(all.feasibility.measured == 2);
    CHECK(all.feasibility.measured_too_large == 1);
    CHECK(all.feasibility.measured_illegal == 0);
    CHECK(all.feasibility.failed == 3);
    CHECK(all.feasibility.failed_called_feasible == 1);
    CHECK(all.feasibility.failed_too_large == 1);
    CHECK(all.feasibility.failed_illegal == 1);
  }

  TEST_CASE("columns joined by + group by both") {
    const auto runs = test::runs_of({{{"id", "1"}}, {{"id", "2"}, {"known", "0"}}});
    const std::vector<RunPrediction> predictions{prediction(0.5), prediction(0.5)};
    const auto groups = summarise_runs(test::rows_of(runs, predictions), {{"hw+known"}, 0.0, {}});
    REQUIRE(groups.size() == 3);
    CHECK(groups[1].value == "dgx-h100, 1");
    CHECK(groups[2].value == "dgx-h100, 0");
  }
}

}  // namespace plansearch
