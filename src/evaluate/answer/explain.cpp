// SPDX-License-Identifier: Apache-2.0
// Computes: the heaviest reasons for a plan's step time, in words with numbers.
// Source: the plan's own breakdown.
// Assumes: a part below one percent is not worth a sentence.
// Units: shares of the step at factor 1: a site slows all parts alike.
// Checked by: tests/unit/evaluate/explain_test.cpp
#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"
#include "plansearch/plan_report.hpp"

namespace plansearch {
namespace {

struct Reason {
  Seconds time;
  std::string text;
};

}  // namespace

std::vector<std::string> explain(const PlanEvaluator& evaluator, const PlanDegrees& plan,
                                 const Estimate& estimate) {
  const StepTimeBreakdown& step = estimate.step;
  const Seconds total = step.total();
  std::vector<Reason> reasons;
  const auto add = [&](Seconds time, const std::string& what) {
    const double share = time / (total - step.site);
    if (share < 0.01) return;
    reasons.push_back({time, fmt::format("{} {:.0f} %", what, 100.0 * share)});
  };
  add(step.compute, "kernels");
  add(step.recompute, "recompute");
  for (std::size_t i = 0; i < kPurposeCount; ++i) {
    const auto purpose = static_cast<Purpose>(i);
    add(step.exposed[i], fmt::format("exposed {} communication", to_text(purpose)));
  }
  add(step.bubble, fmt::format("bubble of {} stages, {} micro-batch{}", plan.pipeline,
                               plan.micro_batches, plan.micro_batches == 1 ? "" : "es"));
  add(step.optimizer, "optimizer");
  add(step.host, "waiting for the host");
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const Reason& a, const Reason& b) { return a.time > b.time; });
  std::vector<std::string> texts;
  for (const Reason& reason : reasons) texts.push_back(reason.text);
  if (texts.size() > 3) texts.resize(3);
  if (estimate.next_step_overlap > Seconds(0)) {
    texts.push_back(fmt::format(
        "updates are validated after the step: {} of its {} run beside the next step",
        to_text(estimate.next_step_overlap), to_text(total + estimate.next_step_overlap)));
  }
  const double full = estimate.memory.total() / evaluator.memory_limit();
  if (full > 0.9) texts.push_back(fmt::format("memory {:.0f} % full", 100.0 * full));
  return texts;
}

std::string steps_text(const std::vector<PricedCommunication>& communication, int tensor_ranks) {
  Seconds all;
  Seconds exposed;
  Seconds longest;
  int summed = 1;
  for (const PricedCommunication& line : communication) {
    const Communication& c = line.communication;
    if ((c.axes & kTensorAxes).empty()) continue;
    const Seconds time = line.time * line.count;
    if (c.steps > 1) {
      all += time;
      exposed += line.exposed;
    }
    const bool sum = c.kind == CommunicationKind::AllReduce && c.subject == Subject::Activation;
    if (!sum || time <= longest) continue;
    longest = time;
    summed = c.group_size;
  }
  if (all == Seconds(0)) return {};
  const std::string left =
      summed == 1 ? "no all-reduce of activations is left"
                  : fmt::format("most all-reduces of activations are over {} ranks of {}", summed,
                                tensor_ranks);
  return fmt::format("operators in steps: {:.0f} % of what tiles travel is hidden; {}",
                     100.0 * std::max(0.0, 1.0 - exposed / all), left);
}

std::string against_text(const StepTimeBreakdown& own, const StepTimeBreakdown& other,
                         std::string_view name, std::string_view pieces) {
  const auto exposed = [](const StepTimeBreakdown& step) {
    Seconds sum;
    for (const Seconds part : step.exposed) sum += part;
    return sum;
  };
  const auto alone = [](const StepTimeBreakdown& step) { return step.total() - step.site; };
  const double ratio = alone(other) / alone(own);
  std::vector<Reason> parts;
  const auto add = [&](Seconds change, const std::string& what) {
    const Seconds size = change > Seconds(0) ? change : Seconds(0) - change;
    if (size < 0.01 * alone(other)) return;
    parts.push_back({size, fmt::format("{} {} {}", what, to_text(size),
                                       change > Seconds(0) ? "more" : "less")});
  };
  add(own.between_nodes - other.between_nodes, "messages between nodes");
  add(exposed(own) - own.between_nodes - (exposed(other) - other.between_nodes),
      "messages inside nodes");
  add(own.compute + own.recompute - other.compute - other.recompute,
      own.compute > other.compute ? fmt::format("kernels, smaller {},", pieces) : "kernels");
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Reason& a, const Reason& b) { return a.time > b.time; });
  std::string text = fmt::format("{:.2f} x as fast as {}", ratio, name);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? ": " : ", ", parts[i].text);
  }
  return text;
}

}  // namespace plansearch
