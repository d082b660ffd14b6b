// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/run_prediction.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "evidence/validate/run_summary.hpp"
#include "run_tables.hpp"
#include "support/schedules.hpp"

namespace plansearch::run_prediction_test {
namespace {

std::vector<RunPrediction> predict(const std::vector<RunRecord>& runs, int threads = 1) {
  static const ArchitectureTable kTable = test::shipped_architectures();
  std::vector<RunPrediction> predictions;
  for (const PredictedRun& row : predict_runs(runs, kTable, test::shipped_profiles(), threads)) {
    predictions.push_back(row.predicted);
  }
  return predictions;
}

const std::vector<test::Cells> kRows{
    {},
    {{"id", "no machine"}, {"hw", "no-such-machine"}},
    {{"id", "no framework"}, {"framework", "no-such-framework"}},
    {{"id", "deep"}, {"layers", "1"}},
    {{"id", "large"}, {"hidden", "16384"}, {"heads", "128"}, {"layers", "96"}},
    {{"id", "ragged"}, {"global_batch", "60"}},
    {{"id", "no rate"}, {"hw", "selene"}, {"precision", "fp8"}},
    {{"id", "wider"}, {"tp", "4"}, {"dp", "2"}},
    {{"id", "forbidden"}, {"framework", "nanotron"}, {"recompute", "selective"}},
};

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("three states of a row") {
    const auto runs = test::runs_of(kRows);
    const auto predictions = predict(runs);
    REQUIRE(predictions.size() == runs.size());
    CHECK(predictions[0].verdict == Verdict::Feasible);
    CHECK(predictions[0].reason.empty());
    REQUIRE(predictions[0].step_time);
    CHECK(predictions[0].step_time->value() > 0.05);
    CHECK(predictions[0].step_time->value() < 5.0);
    CHECK(*predictions[0].p10 <= *predictions[0].step_time);
    CHECK(*predictions[0].p90 >= *predictions[0].step_time);
    CHECK(predictions[1].verdict == Verdict::Inexpressible);
    CHECK(predictions[1].reason.find("no-such-machine") != std::string::npos);
    CHECK_FALSE(predictions[1].step_time);
    CHECK(predictions[2].verdict == Verdict::Inexpressible);
    CHECK(predictions[3].verdict == Verdict::Illegal);
    CHECK_FALSE(predictions[3].step_time);
    // The time is predicted although memory says no.
    CHECK(predictions[4].verdict == Verdict::OutOfMemory);
    CHECK(predictions[4].step_time);
    CHECK(predictions[5].verdict == Verdict::Illegal);
    CHECK(*predictions[5].step_time < *predictions[0].step_time * 1.01);
    CHECK(predictions[6].verdict == Verdict::Inexpressible);
    CHECK(predictions[6].reason.find("no fp8 rate") != std::string::npos);
  }

  TEST_CASE("layers of a run's stages are those it lists") {
    const auto rows = predict(test::runs_of({{},
                                             {{"id", "even"}, {"stage_layers", "12x2"}},
                                             {{"id", "first"}, {"stage_layers", "16 8"}},
                                             {{"id", "head"}, {"stage_layers", "24 0"}},
                                             {{"id", "chunks"}, {"stage_layers", "8x3"}},
                                             {{"id", "sum"}, {"stage_layers", "12 11"}},
                                             {{"id", "words"}, {"stage_layers", "12 rest"}}}));
    CHECK(*rows[1].step_time == *rows[0].step_time);
    CHECK(rows[1].verdict == Verdict::Feasible);
    // The busiest stage has 16 layers in place of 12, and a head less.
    CHECK(*rows[2].step_time > 1.02 * *rows[0].step_time);
    CHECK(*rows[2].step_time < 16.0 / 12.0 * *rows[0].step_time);
    // The head stays on the last stage: all layers and no head are less than twice half of both.
    CHECK(*rows[3].step_time < 2.0 * *rows[0].step_time);
    CHECK(*rows[3].step_time > 1.4 * *rows[0].step_time);
    CHECK(rows[4].verdict == Verdict::Illegal);
    CHECK(rows[4].reason.find("lists 24 layers of 3 chunks, the run has 24 of 2") !=
          std::string::npos);
    CHECK(rows[5].verdict == Verdict::Illegal);
    CHECK_FALSE(rows[5].step_time);
    CHECK(rows[6].verdict == Verdict::Inexpressible);
    CHECK(rows[6].reason.find("12 rest") != std::string::npos);
  }

  TEST_CASE("a run's framework is the release that its row names") {
    const auto rows = predict(test::runs_of(
        {{}, {{"id", "later"}, {"release", "megatron-2026"}}, {{"id", "none"}, {"release", "x"}}}));
    CHECK(rows[1].step_time);
    CHECK(rows[2].verdict == Verdict::Inexpressible);
    CHECK(rows[2].reason.find("x") != std::string::npos);
  }

  TEST_CASE("what a framework's rule forbids is illegal, with the rule's words and a time") {
    const RunPrediction forbidden = predict(test::runs_of({kRows.back()})).front();
    CHECK(forbidden.verdict == Verdict::Illegal);
    CHECK(forbidden.reason.find("recomputes whole layers only") != std::string::npos);
    CHECK(forbidden.step_time);
  }

  TEST_CASE("an order without chunks has the fewest that it takes, and the row says so") {
    const auto rows = predict(test::runs_of({{{"vpp", ""}, {"schedule", "interleaved"}},
                                             {{"id", "b"}, {"vpp", "2"}},
                                             {{"id", "c"}, {"vpp", ""}, {"schedule", "zb-v"}},
                                             {{"id", "d"}, {"vpp", ""}}}));
    CHECK(rows[0].plan->schedule == test::kInterleaved);
    CHECK(rows[0].plan->chunks == 2);
    CHECK(std::count(rows[0].filled.begin(), rows[0].filled.end(), "vpp 2") == 1);
    CHECK(rows[0].step_time == rows[1].step_time);
    CHECK(rows[2].plan->schedule == *find_schedule("zb-v"));
    CHECK(rows[2].plan->chunks == 2);
    CHECK(rows[3].plan->schedule == kDefaultSchedule);
    CHECK(rows[3].plan->chunks == 1);
  }

  TEST_CASE("a row that leaves a switch out: quantiles of its stated rows, weighed by the prior") {
    // None in one of two runs, selective and full in one of four each.
    ProfileFinder finder = test::shipped_profiles();
    finder.priors = {{{Degree::Recompute, "megatron", "some", 2026, {{0, 2}, {1, 1}, {2, 1}}}},
                     0.0};
    const auto rows = predict_runs(test::runs_of({{{"recompute", ""}},
                                                  {{"id", "none"}},
                                                  {{"id", "some"}, {"recompute", "selective"}},
                                                  {{"id", "all"}, {"recompute", "full"}}}),
                                   test::shipped_architectures(), finder, 1);
    const RunPrediction& open = rows[0].predicted;
    CHECK(*open.step_time == *rows[1].predicted.step_time);
    const auto below = [&](Seconds time) {
      double share = 0.0;
      for (const auto& [row, odds] : {std::pair{1, 0.5}, {2, 0.25}, {3, 0.25}}) {
        const RunPrediction& stated = rows[static_cast<std::size_t>(row)].predicted;
        const double error = std::log(time / *stated.step_time);
        const double tenth = error < 0.0 ? std::log(*stated.step_time / *stated.p10)
                                         : std::log(*stated.p90 / *stated.step_time);
        share += odds * 0.5 * std::erfc(-1.2815515655 * error / tenth / std::sqrt(2.0));
      }
      return share;
    };
    CHECK(below(*open.p10) == doctest::Approx(0.1).epsilon(1e-4));
    CHECK(below(*open.p90) == doctest::Approx(0.9).epsilon(1e-4));
    const bool told = std::any_of(open.filled.begin(), open.filled.end(), [](const auto& text) {
      return text.starts_with("recompute none (") && text.find("full would take 1.") != text.npos;
    });
    CHECK(told);
  }

  TEST_CASE("a row without a micro-batch is priced at the fastest that fits, and says so") {
    // dp = 16 / (2 x 2) = 4: 64 sequences allow micro-batches of 1, 2, 4, 8 and 16.
    std::vector<test::Cells> rows{{{"micro_batch", ""}}};
    for (const char* size : {"1", "2", "4", "8", "16"})
      rows.push_back({{"id", size}, {"micro_batch", size}});
    const auto predictions = predict(test::runs_of(rows));
    Seconds fastest = *predictions[1].step_time;
    int best = 1;
    for (std::size_t i = 2; i < predictions.size(); ++i) {
      CHECK_FALSE(predictions[i].chosen_micro_batch);
      if (predictions[i].verdict != Verdict::Feasible || *predictions[i].step_time >= fastest) {
        continue;
      }
      fastest = *predictions[i].step_time;
      best = predictions[i].plan->micro_batch;
    }
    CHECK(predictions[0].chosen_micro_batch);
    CHECK(predictions[0].plan->micro_batch == best);
    CHECK(*predictions[0].step_time == fastest);
    CHECK(predictions[0].filled.back().starts_with("micro_batch "));
    // Nothing fits: the one that needs least.
    const RunPrediction large =
        predict(
            test::runs_of(
                {{{"micro_batch", ""}, {"hidden", "16384"}, {"heads", "128"}, {"layers", "96"}}}))
            .front();
    CHECK(large.verdict == Verdict::OutOfMemory);
    CHECK(large.plan->micro_batch == 1);
  }

  TEST_CASE("a run of which no degree is known: data parallel, else the fastest split that fits") {
    const auto row = [](std::string id, std::string tp, std::string pp, bool large) {
      test::Cells cells{{"id", id}, {"tp", tp}, {"pp", pp}, {"dp", ""}, {"sp", ""}};
      cells["micro_batch"] = "";
      if (!large) return cells;
      cells.insert({{"hidden", "8192"}, {"heads", "64"}, {"layers", "32"}});
      return cells;
    };
    std::vector<test::Cells> rows{row("small", "", "", false), row("open", "", "", true)};
    for (const char* tp : {"1", "2", "4", "8", "16"}) {
      for (const char* pp : {"1", "2", "4", "8", "16"}) {
        if (std::stoi(tp) * std::stoi(pp) > 16) continue;
        rows.push_back(row(fmt::format("{} x {}", tp, pp), tp, pp, true));
      }
    }
    const auto predictions = predict(test::runs_of(rows));
    CHECK(predictions[0].plan->data == 16);
    CHECK(std::none_of(predictions[0].filled.begin(), predictions[0].filled.end(),
                       [](const std::string& text) { return text.starts_with("tp "); }));
    CHECK(predictions[2].verdict == Verdict::OutOfMemory);  // data parallel
    Seconds fastest{1e9};
    for (std::size_t i = 2; i < predictions.size(); ++i) {
      if (predictions[i].verdict != Verdict::Feasible || *predictions[i].memory_risk > 0.1)
        continue;
      fastest = std::min(fastest, *predictions[i].step_time);
    }
    CHECK(predictions[1].verdict == Verdict::Feasible);
    CHECK(*predictions[1].step_time == fastest);
    const int ranks = predictions[1].plan->tensor() * predictions[1].plan->pipeline;
    CHECK(ranks > 1);
    CHECK(ranks * predictions[1].plan->data == 16);
  }

  TEST_CASE("a step beyond the times that 64 bits hold is that row's, not the table's") {
    const auto runs = test::runs_of({{},
                                     {{"id", "long"},
                                      {"global_batch", "2147483640"},
                                      {"micro_batch", "1"},
                                      {"pp", "4"},
                                      {"dp", "2"},
                                      {"layers", "96"},
                                      {"hidden", "16384"}}});
    const auto predictions = predict(runs);
    CHECK(predictions[0].step_time);
    CHECK_FALSE(predictions[1].step_time);
    CHECK(predictions[1].reason.find("106 days") != std::string::npos);
  }

  TEST_CASE("predictions do not depend on threads or on the other rows") {
    const auto runs = test::runs_of(kRows);
    const auto one = predict(runs, 1);
    const auto many = predict(runs, 4);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      CHECK(one[i].step_time == many[i].step_time);
      const auto alone = predict({runs[i]});
      CHECK(alone.front().step_time == one[i].step_time);
      CHECK(alone.front().memory == one[i].memory);
    }
  }

  TEST_CASE("utilisation relates the measured step to the peak") {
    const auto predictions = predict(test::runs_of({{}}));
    // 24 layers of 12 h^2 and the logits, 6 FLOPs per parameter and token, attention on top:
    // 1.21e9 + 0.105e9 parameters, 65,536 tokens: 0.52 PFLOP + 4 %; 16 x 989 TFLOP/s.
    const double seconds = *predictions[0].peak_seconds;
    CHECK(seconds == doctest::Approx(6.0 * 1.313e9 * 65536 * 1.04 / (16 * 989e12)).epsilon(0.03));
    CHECK(*predictions[0].mfu(Seconds(2.0 * seconds)) == doctest::Approx(0.5));
  }

  TEST_CASE("JSON rows carry every key, unknown is null") {
    const auto runs = test::runs_of(kRows);
    const auto predictions = predict(runs);
    const auto rows = test::rows_of(runs, predictions);
    RunReport report{rows};
    report.suspects = {"deep"};
    report.sets.push_back({"all", summarise_runs(rows, {})});
    const auto json = nlohmann::json::parse(render_runs(report, Format::Json));
    REQUIRE(json["rows"].size() == runs.size());
    CHECK(json["rows"][0]["feasible"] == true);
    CHECK(json["rows"][0]["reason"].is_null());
    CHECK(json["rows"][0]["measured_peak_memory_bytes"] == 12.0 * 1073741824);
    CHECK(json["rows"][1]["expressible"] == false);
    CHECK(json["rows"][1]["feasible"].is_null());
    CHECK(json["rows"][1]["predicted_step_time_s"].is_null());
    CHECK(json["rows"][3]["feasible"] == false);
    CHECK(json["rows"][3]["suspect"] == true);
    CHECK(json["summary"][0]["by"] == "all");
    CHECK(json["summary"][0]["inexpressible"] == 3);
    CHECK(render_runs(report, Format::Csv).starts_with("id,measured_step_time_s,"));
    CHECK(render_runs(report, Format::Table).find("cannot be expressed") != std::string::npos);
  }
}

}  // namespace plansearch::run_prediction_test
