// SPDX-License-Identifier: Apache-2.0
// Causes of a measured step: the price of a fault, given as the measurement, finds the fault.
#include "answer/diagnose.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "answer/make_report.hpp"
#include "unit/question/llama_on_sixteen.hpp"

namespace plansearch::diagnose_test {
namespace {

Seconds price(const PlanRequest& asked) {
  const SearchReport report = make_prediction(resolve_plan(asked));
  return report.plans.front().estimate.step.total();
}

double sum_of(const DiagnosisReport& report) {
  return std::accumulate(
      report.causes.begin(), report.causes.end(), report.normal + report.unknown,
      [](double sum, const CauseReport& cause) { return sum + cause.likelihood; });
}

bool suspects(const DiagnosisReport& report, const std::string& words) {
  return std::any_of(report.causes.begin(), report.causes.end(), [&](const CauseReport& cause) {
    return cause.what.find(words) != std::string::npos;
  });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a pace is a step: tokens, iterations, of all GPUs or of each") {
    const auto read = [](const char* text) {
      Measurement measured;
      read_pace(text, measured);
      return measured;
    };
    CHECK(read("18.9s").step == Seconds(18.9));
    CHECK(read("1.9 s/it").step == Seconds(1.9));
    CHECK(read("0.5 it/s").step == Seconds(2.0));
    CHECK(read("8500 tokens/s").pace->value == 8500.0);
    CHECK(read("8.5k tok/s").pace->value == 8500.0);
    CHECK_FALSE(read("8500 tokens/s").pace->of_each_gpu);
    CHECK(read("1,060 tokens/s/GPU").pace->of_each_gpu);
    CHECK(read("1060 tokens/s per GPU").pace->value == 1060.0);
    CHECK(read("310.5 TFLOP/s/GPU").pace->value == 310.5e12);
    CHECK(read("27% MFU").pace->value == doctest::Approx(0.27));
    CHECK(read("0.27 MFU").pace->value == doctest::Approx(0.27));
    for (const char* text : {"fast", "0 tokens/s", "tokens/s", "-1s", "8500", "12 samples"}) {
      CAPTURE(text);
      CHECK_THROWS_AS(static_cast<void>(read(text)), InputError);
    }
    const PlanRequest asked = test::llama_on_sixteen();
    const SearchReport report = make_prediction(resolve_plan(asked));
    const QuestionReport& q = report.question;
    // The rates of a step of 40 s, by hand.
    const double sequences = static_cast<double>(q.global_batch) / 40.0;
    const double tokens = sequences * static_cast<double>(q.seq_len) / q.gpus;
    const double share = report.plans.front().estimate.step.total().value() / 40.0;
    const double flops = report.plans.front().model_rate_per_gpu.value() * share;
    using C = Pace::Counts;
    for (const Pace& pace :
         {Pace{C::Tokens, tokens, true}, Pace{C::Sequences, sequences, false},
          Pace{C::ModelFlops, flops, true}, Pace{C::ModelFlops, flops * q.gpus, false},
          Pace{C::Utilization, report.plans.front().mfu * share, false}}) {
      CHECK(diagnose(asked, {{}, pace}).measured.value() == doctest::Approx(40.0));
    }
  }

  TEST_CASE("the predicted step is normal, and half of all runs are faster") {
    const DiagnosisReport report =
        diagnose(test::llama_on_sixteen(), {price(test::llama_on_sixteen())});
    CHECK(report.faster_share == doctest::Approx(0.5));
    for (const CauseReport& cause : report.causes) CHECK(cause.likelihood < report.normal);
    CHECK(sum_of(report) == doctest::Approx(1.0));
  }

  TEST_CASE("a tenth of all runs is faster than p10, nine tenths than p90") {
    const DiagnosisReport usual =
        diagnose(test::llama_on_sixteen(), {price(test::llama_on_sixteen())});
    CHECK(diagnose(test::llama_on_sixteen(), {usual.plan.p10}).faster_share ==
          doctest::Approx(0.1));
    CHECK(diagnose(test::llama_on_sixteen(), {usual.plan.p90}).faster_share ==
          doctest::Approx(0.9));
  }

  TEST_CASE("recomputation that is not told comes first; told, it is no suspect") {
    PlanRequest run = test::llama_on_sixteen();
    run.request.degrees.pin(Degree::Recompute, static_cast<int>(Recompute::Full));
    const Seconds measured = price(run);
    const DiagnosisReport blind = diagnose(test::llama_on_sixteen(), {measured});
    REQUIRE(!blind.causes.empty());
    CHECK(blind.causes.front().what == "full recomputation is on");
    CHECK(blind.causes.front().predicted.value() == doctest::Approx(measured.value()));
    CHECK(sum_of(blind) == doctest::Approx(1.0));
    CHECK_FALSE(suspects(diagnose(run, {measured}), "recomputation"));
  }

  TEST_CASE("products in fp32 come first where the step takes as long as theirs") {
    PlanRequest run = test::llama_on_sixteen();
    run.request.precision = "fp32";
    const DiagnosisReport blind = diagnose(test::llama_on_sixteen(), {price(run)});
    REQUIRE(!blind.causes.empty());
    CHECK(blind.causes.front().what == "products run in fp32");
    CHECK(blind.causes.front().predicted.value() == doctest::Approx(price(run).value()));
    CHECK(blind.causes.front().predicted > 4.0 * price(test::llama_on_sixteen()));
    CHECK_FALSE(suspects(diagnose(run, {price(run)}), "products run in fp32"));
  }

  TEST_CASE("a step a thousand times as long as predicted has no cause") {
    const DiagnosisReport report =
        diagnose(test::llama_on_sixteen(), {price(test::llama_on_sixteen()) * 1000.0});
    CHECK(report.unknown > 0.9);
    CHECK(report.faster_share > 0.99);
  }

  TEST_CASE("the peak of memory in a log decides between causes of one step time") {
    PlanRequest run = test::llama_on_sixteen();
    run.request.degrees.pin(Degree::Recompute, static_cast<int>(Recompute::Full));
    const PlanReport recomputed = make_prediction(resolve_plan(run)).plans.front();
    const PlanReport kept = make_prediction(resolve_plan(test::llama_on_sixteen())).plans.front();
    const auto likelihood = [&](Bytes allocated) {
      const std::string file = "plansearch-diagnose-test.log";
      std::ofstream log(file);
      for (int i = 1; i <= 5; ++i)
        log << fmt::format("iteration {}/ 9 | elapsed time per iteration (ms): {:.3f} |\n", i,
                           1e3 * recomputed.estimate.step.total().value());
      log << fmt::format("memory (MB) | allocated: 1.0 | max allocated: {:.1f} | reserved: 1\n",
                         allocated.value() / 0x1p20);
      log.close();
      const DiagnosisReport report = diagnose(test::llama_on_sixteen(), {.log = file});
      std::filesystem::remove(file);
      CHECK(sum_of(report) == doctest::Approx(1.0));
      const auto cause =
          std::ranges::find(report.causes, "full recomputation is on", &CauseReport::what);
      return cause == report.causes.end() ? 0.0 : cause->likelihood;
    };
    CHECK(recomputed.peak.allocated < 0.7 * kept.peak.allocated);
    CHECK(likelihood(recomputed.peak.allocated) > 0.9);
    CHECK(likelihood(kept.peak.allocated) < 0.5);
  }

  TEST_CASE("a link at half its rate costs what its file with half the rate says") {
    PlanRequest usual = test::llama_on_sixteen();
    usual.request.degrees.pin(Degree::TensorOut, 8);
    usual.request.degrees.pin(Degree::Data, 2);
    PlanRequest slow = usual;
    slow.request.set = "tiers.nvlink.bandwidth=225GB/s";
    const DiagnosisReport report = diagnose(usual, {price(slow)});
    const auto cause =
        std::ranges::find(report.causes, "nvlink at half its rate", &CauseReport::what);
    REQUIRE(cause != report.causes.end());
    CHECK(cause->predicted.value() == doctest::Approx(price(slow).value()));
    // Where the rate is said already, it is not suspected.
    const DiagnosisReport said = diagnose(slow, {price(slow)});
    CHECK_FALSE(suspects(said, "nvlink at half"));
    CHECK(suspects(said, "attention is not fused"));
  }

  TEST_CASE("links that the plan does not use and fp8 that nobody asked for are not suspected") {
    PlanRequest node = test::llama_on_sixteen();
    node.request.gpus = 8;
    node.request.degrees.pin(Degree::Data, 4);
    const auto words = [](const PlanRequest& asked) {
      std::string all;
      for (const Cause& cause : possible_causes(asked, resolve_plan(asked), Bytes(0)))
        all += cause.what + "\n";
      return all;
    };
    CHECK(words(node).find("infiniband") == std::string::npos);
    CHECK(words(test::llama_on_sixteen()).find("infiniband at half its rate") != std::string::npos);
    CHECK(words(test::llama_on_sixteen()).find("is not active: products") == std::string::npos);
    CHECK(words(test::llama_on_sixteen()).find("routers") == std::string::npos);
    PlanRequest mixture = test::llama_on_sixteen();
    mixture.request.model = "mixtral-8x7b";
    mixture.request.degrees.pin(Degree::Expert, 8);
    CHECK(words(mixture).find("routers spread tokens unevenly") != std::string::npos);
    CHECK(words(mixture).find("tokens beyond an even share are dropped") != std::string::npos);
    mixture.request.routing = "real, capacity factor 1";
    CHECK(words(mixture).find("dropped") == std::string::npos);
    CHECK(words(node).find("fp32 weights are cast") != std::string::npos);
    CHECK(words(node).find("allocator") == std::string::npos);
    const ResolvedPlan given = resolve_plan(node);
    const Bytes memory = given.problem.cluster->accelerator.memory;
    const auto full = possible_causes(node, given, 0.95 * memory);
    CHECK(std::ranges::any_of(full, [](const Cause& cause) {
      return cause.sign == LogSign::Retries && cause.what.find("allocator") != std::string::npos;
    }));
    PlanRequest narrow = test::llama_on_sixteen();
    narrow.request.precision = "fp8";
    CHECK(words(narrow).find("fp8 is not active: products run in bf16") != std::string::npos);
  }
}

}  // namespace plansearch::diagnose_test
