// SPDX-License-Identifier: Apache-2.0
// What a step depends on, against the same question asked with the value set.
#include "answer/make_report.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "plansearch/evaluator.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch::sensitivity_test {
namespace {

ProblemRequest request() {
  ProblemRequest request;
  request.hardware = "dgx-h100";
  request.model = "llama3-8b";
  request.gpus = 16;
  request.batch = 64;
  request.degrees.pin(Degree::TensorOut, 2);
  request.degrees.pin(Degree::Pipeline, 2);
  request.degrees.pin(Degree::Data, 4);
  return request;
}

Estimate estimate_of(const ProblemRequest& request) {
  const ResolvedPlan plan = resolve_plan({request, {}});
  return std::get<Estimate>(PlanEvaluator(plan.problem).evaluate(plan.plan));
}

SensitivityReport report_of(const ProblemRequest& request, int threads = 1) {
  const ResolvedPlan plan = resolve_plan({request, {}});
  return sensitivity_of(plan.asked, plan.problem, plan.plan, threads);
}

const SensitivityRow* find(const SensitivityReport& report, const std::string& key) {
  const auto found = std::find_if(report.rows.begin(), report.rows.end(),
                                  [&](const SensitivityRow& row) { return row.key == key; });
  return found == report.rows.end() ? nullptr : &*found;
}

}  // namespace

TEST_SUITE("problem") {
  TEST_CASE("sensitivity: each row is the same question with the value set") {
    const SensitivityReport report = report_of(request());
    const Estimate before = estimate_of(request());
    const auto check = [&](const std::string& key, const std::string& value) {
      ProblemRequest changed = request();
      changed.set = key + "=" + value;
      const Estimate after = estimate_of(changed);
      const SensitivityRow* row = find(report, key);
      REQUIRE(row != nullptr);
      CHECK(row->step_change ==
            doctest::Approx(after.step.total() / before.step.total() - 1.0).epsilon(1e-9));
      CHECK(row->memory_change == after.memory.total() - before.memory.total());
    };
    check("accelerator.peak.bf16", "1087.9 TFLOP/s");         // 989
    check("tiers.nvlink.bandwidth", "495 GB/s");              // 450
    check("tiers.infiniband.nic_bandwidth", "440 Gbit/s");    // 400
    check("framework.constants.memory_context", "1.76 GiB");  // 1.6
  }

  TEST_CASE("sensitivity: rates make a step shorter, times longer, and all of them by a tenth") {
    // With every rate and its inverse, every time, changed alike the step would change alike: what
    // times add and rates take away is a tenth of the step, to first order.
    const SensitivityReport report = report_of(request());
    CHECK(report.refused.empty());
    CHECK(report.rows.front().key == "accelerator.peak.bf16");
    double rates = 0.0, times = 0.0;
    for (const SensitivityRow& row : report.rows) {
      CAPTURE(row.key);
      const bool rate = row.value.find("/s") != std::string::npos;
      if (rate) CHECK(row.step_change <= 1e-9);
      // The curve of a tier grows with the tier's bandwidth: one of the two counts.
      if (rate && row.key.find(".link.") == std::string::npos) rates -= row.step_change;
      if (!rate && row.memory_change == Bytes(0)) times += row.step_change;
    }
    CHECK(rates > 0.07);
    CHECK(rates + times == doctest::Approx(0.1).epsilon(0.15));
  }

  TEST_CASE("sensitivity: what a plan does not use has no effect") {
    ProblemRequest one_node = request();
    one_node.gpus = 8;
    one_node.degrees.pin(Degree::Data, 2);
    const SensitivityReport report = report_of(one_node);
    CHECK(find(report, "tiers.infiniband.nic_bandwidth") == nullptr);
    CHECK(find(report, "accelerator.peak.fp8") == nullptr);
    CHECK(report.without_effect > 10);
  }

  TEST_CASE("sensitivity: the same for any number of threads, on top of what is set already") {
    ProblemRequest changed = request();
    changed.set = "tiers.nvlink.bandwidth=200 GB/s; accelerator.peak.bf16=500 TFLOP/s";
    const SensitivityReport a = report_of(changed, 1), b = report_of(changed, 2);
    REQUIRE(a.rows.size() == b.rows.size());
    for (std::size_t i = 0; i < a.rows.size(); ++i) {
      CHECK(a.rows[i].key == b.rows[i].key);
      CHECK(a.rows[i].step_change == b.rows[i].step_change);
    }
    const SensitivityRow* row = find(a, "tiers.nvlink.bandwidth");
    REQUIRE(row != nullptr);
    CHECK(row->value == "200 GB/s");
    ProblemRequest more = changed;
    more.set = "tiers.nvlink.bandwidth=220 GB/s; accelerator.peak.bf16=500 TFLOP/s";
    CHECK(row->step_change ==
          doctest::Approx(estimate_of(more).step.total() / estimate_of(changed).step.total() - 1.0)
              .epsilon(1e-9));
  }
}

}  // namespace plansearch::sensitivity_test
