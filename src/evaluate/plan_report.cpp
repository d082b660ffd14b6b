// SPDX-License-Identifier: Apache-2.0
// Computes: rates and utilisation of a priced plan.
// Source: model FLOPs = 3 x forward (matmul, causal attention, logits); hardware FLOPs add what
//         recompute repeats; utilisation against the dense peak of the matmul format.
// Assumes: every device carries the same share of the FLOPs.
// Units: FLOP/s, tokens per second, shares.
// Checked by: tests/unit/evaluate/plan_report_test.cpp
#include "plansearch/plan_report.hpp"

#include "plan/recompute.hpp"

namespace plansearch {

PlanReport report_plan(const PlanEvaluator& evaluator, const PlanDegrees& plan,
                       const Estimate& estimate) {
  const Problem& problem = evaluator.problem();
  PlanReport report;
  report.plan = plan;
  report.estimate = estimate;
  const Seconds step = estimate.step.total();
  report.p10 = step * estimate.relative_p10;
  report.p90 = step * estimate.relative_p90;
  const auto sequences = static_cast<double>(plan.global_batch());
  report.tokens_per_s = sequences * static_cast<double>(problem.seq_len) / step.value();

  const Flops forward = model_forward_flops(*problem.network) * sequences;
  const Seconds gpu_time = step * static_cast<double>(plan.devices());
  report.model_rate_per_gpu = forward * 3.0 / gpu_time;
  const double repeated =
      repeated_flops_share(*problem.network, plan.recompute, problem.framework->selective);
  report.hardware_rate_per_gpu = forward * (3.0 + repeated) / gpu_time;
  const FlopRate peak = evaluator.matmul_peak();
  report.mfu = report.model_rate_per_gpu / peak;
  report.hfu = report.hardware_rate_per_gpu / peak;

  const auto workspace = PlanEvaluator::make_workspace();
  const auto profile = evaluator.profile(plan);
  report.communication = evaluator.communication(*profile, plan, *workspace);
  report.stages = evaluator.stages(*profile, plan, *workspace);
  report.operators = evaluator.operators(*profile, plan, estimate.busiest_stage, *workspace);
  report.why = explain(evaluator, plan, estimate);
  return report;
}

}  // namespace plansearch
