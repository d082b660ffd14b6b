// SPDX-License-Identifier: Apache-2.0
// Computes: whether a framework and a network take the order of a plan.
// Source: the lists of the framework, the row of the schedule.
// Assumes: one stage runs micro-batches one after the other, whatever is listed.
// Units: none.
// Checked by: tests/unit/plan/legality_test.cpp, tests/unit/evaluate/several_forwards_test.cpp
#include <fmt/format.h>

#include <algorithm>

#include "plan/legality/legality_parts.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "schedule/table.hpp"

namespace plansearch::legality {

std::optional<Infeasible> check_order_listed(const RuleCase& c, Wording wording) {
  const auto lists = [&](const std::vector<std::string>& orders) {
    return std::ranges::find(orders, to_text(c.plan.schedule)) != orders.end();
  };
  const auto& listed = c.framework.schedules;
  if (c.plan.pipeline == 1 || lists(listed) || lists(c.framework.paired_schedules)) {
    return std::nullopt;
  }
  Infeasible infeasible = refuse(wording, Obstacle::FrameworkForbids, 0, 0, [&] {
    return fmt::format("{} does not run {}", c.framework.name, to_text(c.plan.schedule));
  });
  if (wording == Wording::Silent) return infeasible;
  for (const std::string& name : listed) {
    const auto id = find_schedule(name);
    if (!id || suits(*id, c.network)) infeasible.legal_words.push_back(name);
  }
  if (!infeasible.legal_words.empty() || c.network.forwards == 1) return infeasible;
  infeasible.detail = fmt::format(
      "{} has no order for {} forward passes over stages; on one stage they follow each other",
      c.framework.name, c.network.forwards);
  return infeasible;
}

std::optional<Infeasible> check_pairs(const RuleCase& c, Wording wording) {
  if (!c.network.reference || c.plan.micro_batch % 2 == 0) return std::nullopt;
  return refuse(wording, Obstacle::BatchNotDivisible, 2, c.plan.micro_batch, [&] {
    return fmt::format("a micro-batch of {} sequences does not hold pairs (--task dpo)",
                       c.plan.micro_batch);
  });
}

std::optional<Infeasible> check_order_runs(const RuleCase& c, Wording wording) {
  const PipelineShape shape = pipeline_shape(c.plan, c.framework, c.network);
  if (const auto fault = fault_of(shape)) {
    return refuse(wording, obstacle_kind(*fault), static_cast<double>(fault->legal.from),
                  static_cast<double>(fault->given), [&] { return obstacle_of(shape)->detail; });
  }
  if (!schedule_row(shape.schedule).several_forwards || c.network.forwards > 1) return std::nullopt;
  return refuse(wording, Obstacle::NoSuchFeature, 2, 1, [&] {
    return fmt::format("{} orders several forward passes, and micro-batches pass {} once",
                       to_text(shape.schedule), c.network.name);
  });
}

}  // namespace plansearch::legality
