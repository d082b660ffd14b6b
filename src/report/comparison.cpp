// SPDX-License-Identifier: Apache-2.0
#include "report/comparison.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/units.hpp"
#include "report/plan_text.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

/// "+1.2 ms", "-3 GiB"; signs of equal values are left out.
template <typename Q>
std::string difference(Q from, Q to) {
  const double change = (to - from) / (from + to);
  if (std::abs(change) < 1e-6) return "0";
  return to > from ? fmt::format("+{}", to_text(to - from))
                   : fmt::format("-{}", to_text(from - to));
}

template <typename Q>
void add_row(TextTable& table, const std::string& name, Q plan, Q rival) {
  if (plan == Q(0) && rival == Q(0)) return;
  table.add_row({name, to_text(plan), to_text(rival), difference(plan, rival)});
}

void add_step_rows(TextTable& table, const StepTimeBreakdown& a, const StepTimeBreakdown& b) {
  add_row(table, "compute", a.compute, b.compute);
  add_row(table, "recompute", a.recompute, b.recompute);
  for (std::size_t i = 0; i < kPurposeCount; ++i) {
    add_row(table, fmt::format("exposed communication, {}", to_text(static_cast<Purpose>(i))),
            a.exposed[i], b.exposed[i]);
  }
  add_row(table, "pipeline bubble", a.bubble, b.bubble);
  add_row(table, "optimizer", a.optimizer, b.optimizer);
  add_row(table, "host", a.host, b.host);
  add_row(table, "step time", a.total(), b.total());
}

}  // namespace

std::string compare_plans(const PlanReport& plan, const PlanReport& rival) {
  TextTable table(
      {{"against the best other plan", Align::Left}, {"this plan"}, {"rival"}, {"rival - this"}});
  add_step_rows(table, plan.estimate.step, rival.estimate.step);
  add_row(table, "peak memory", plan.estimate.memory.total(), rival.estimate.memory.total());
  const Seconds mine = plan.estimate.step.total();
  const Seconds theirs = rival.estimate.step.total();
  const double share = (theirs / mine - 1.0) * 100.0;
  return fmt::format("{}rival: {}, {:.1f} % {}\n", table.text(), short_plan(rival.plan),
                     share < 0 ? -share : share, share < 0 ? "faster" : "slower");
}

}  // namespace plansearch
