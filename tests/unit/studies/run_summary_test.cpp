// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/run_summary.hpp"

#include <doctest/doctest.h>

#include <array>

#include "run_tables.hpp"

namespace plansearch::run_summary_test {
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

  TEST_CASE("stated risks are set against failures") {
    const auto runs = test::runs_of({{{"id", "1"}, {"step_time_s", "1"}},
                                     {{"id", "2"}, {"step_time_s", "1"}},
                                     {{"id", "3"}, {"step_time_s", ""}, {"oom", "1"}},
                                     {{"id", "4"}, {"step_time_s", ""}, {"oom", "failed"}},
                                     {{"id", "5"}, {"step_time_s", ""}, {"oom", "1"}}});
    std::vector<RunPrediction> predictions;
    for (const double risk : {0.1, 0.4, 0.2, 1.0, 1.0}) {
      RunPrediction p = prediction(1, risk > 0.5 ? Verdict::OutOfMemory : Verdict::Feasible);
      p.memory_risk = risk;
      p.needed = Bytes(risk > 0.5 ? 90e9 : 70e9);
      p.memory_limit = Bytes(80e9);
      predictions.push_back(p);
    }
    predictions.back().verdict = Verdict::Illegal;  // says nothing of memory
    const RiskSummary risk = summarise_runs(test::rows_of(runs, predictions), {})[0].risk;
    CHECK(risk.rows == 4);
    CHECK(risk.failed == 2);
    // Two of four failed: 0.5 x 0.5. The hard limit is wrong about one run of four.
    CHECK(risk.brier_base == doctest::Approx(0.25));
    CHECK(risk.brier_hard == doctest::Approx(0.25));
    CHECK(risk.brier == doctest::Approx((0.01 + 0.16 + 0.64 + 0.0) / 4.0));
    CHECK(risk.bins[0].rows == 1);
    CHECK(risk.bins[0].failed == 0);
    CHECK(risk.bins[1].rows == 2);
    CHECK(risk.bins[1].failed == 1);
    CHECK(risk.bins[1].stated == doctest::Approx(0.3));
    CHECK(risk.bins[2].rows == 0);
    CHECK(risk.bins[3].failed == 1);
    const auto ran = test::runs_of({{{"id", "1"}, {"step_time_s", "1"}}});
    CHECK(summarise_runs(test::rows_of(ran, {predictions[0]}), {})[0].risk.rows == 0);
  }

  TEST_CASE("sweeps are rows that differ in the plan only") {
    const auto runs = test::runs_of({{{"id", "1"}, {"step_time_s", "1"}},
                                     {{"id", "2"}, {"step_time_s", "2"}, {"tp", "4"}},
                                     {{"id", "3"}, {"step_time_s", "3"}, {"tp", "8"}},
                                     {{"id", "4"}, {"step_time_s", "4"}, {"gpus", "32"}},
                                     {{"id", "5"}, {"step_time_s", "5"}, {"gpus", "32"}}});
    // The first sweep picks its second row (regret 1), the other picks right.
    const std::vector<RunPrediction> predictions{prediction(2), prediction(1), prediction(3),
                                                 prediction(4), prediction(6)};
    const RankingSummary ranking = summarise_runs(test::rows_of(runs, predictions), {})[0].ranking;
    CHECK(ranking.sweeps == 2);
    CHECK(ranking.mean_regret == doctest::Approx(0.5));
    CHECK(ranking.worst_regret == doctest::Approx(1.0));
    CHECK(ranking.top1 == 1);
    CHECK(ranking.top3 == 2);
    CHECK(ranking.tau_sweeps == 1);
    CHECK(ranking.mean_tau == doctest::Approx(1.0 / 3.0));
  }

  TEST_CASE("a sweep names its best row and the one we would choose, called feasible or not") {
    const auto runs = test::runs_of({{{"id", "1"}, {"step_time_s", "3"}},
                                     {{"id", "2"}, {"step_time_s", "2"}, {"tp", "4"}},
                                     {{"id", "3"}, {"step_time_s", "4"}, {"gpus", "32"}}});
    const std::vector<RunPrediction> predictions{prediction(1, Verdict::OutOfMemory), prediction(2),
                                                 prediction(4)};
    const std::array<std::size_t, 3> rows{0, 1, 2};
    const auto sweeps = sweeps_of(test::rows_of(runs, predictions), rows);
    REQUIRE(sweeps.size() == 1);
    CHECK(sweeps[0].best == 1);
    CHECK(sweeps[0].chosen == 0);
    CHECK(sweeps[0].ranking.regret == doctest::Approx(0.5));
    // Two rows make a regret but no tau.
    CHECK(summarise_sweeps(sweeps).tau_sweeps == 0);
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

}  // namespace plansearch::run_summary_test
