// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "report/text_table.hpp"
#include "report/training.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// The step in the slow mode of the fabric, which is not in the interval.
std::string slow_mode_text(const PlanReport& plan) {
  if (!plan.slow) return {};
  return fmt::format(
      "slow mode of {}, no part of p10 - p90: {:.0f} % of the pipelines measured on so many nodes; "
      "{} for plan {} if the network made it, not their code\n",
      plan.slow->fabric, 100.0 * plan.slow->share,
      to_text(plan.estimate.step.total() + plan.slow->excess), plan.rank);
}

/// The meaning of a sign in a cell of degrees, said where a plan has it.
struct DegreeNote {
  bool (*holds)(const PlanDegrees& plan);
  const char* words;
};
using Plan = const PlanDegrees&;
constexpr DegreeNote kDegreeNotes[]{
    {[](Plan p) { return p.pieces > 1; }, "; pieces: of a micro-batch, in turns (overdecompose)"},
    {[](Plan p) { return p.recompute_layers > 0; },
     "; first N: so many layers of every chunk are recomputed"},
    {[](Plan p) { return p.tensor() > 1 && p.sequence_parallel == SequenceParallel::On; },
     "; +sp: with sequence parallelism"},
    {[](Plan p) { return p.context > 1 && p.context_kind == ContextKind::Ulysses; },
     "; cp u: Ulysses, else ring"},
    {[](Plan p) { return p.context > 1 && p.context_kind == ContextKind::AllGather; },
     "; cp g: keys and values gathered"}};

/// "; zero 2, 3: Megatron-FSDP" of every feature that some plan has.
std::string features_text(const std::vector<PlanReport>& plans) {
  std::string text;
  for (const PlanReport& plan : plans) {
    for (const PlanFeature& feature : plan.features) {
      const std::string words = fmt::format("; {}: {}", feature.plans, feature.name);
      if (text.find(words) == std::string::npos) text += words;
    }
  }
  return text;
}

std::string without_text(const SearchReport& report) {
  if (!report.without) return {};
  const WithoutReport& without = *report.without;
  if (!without.plan) return fmt::format("without {}: no plan fits\n", without.features);
  return fmt::format("without {}: {} takes {}, {:+.1f} %\n", without.features,
                     short_plan(*without.plan), to_text(without.step), 100.0 * without.over_first);
}

/// Plans with joined directions, where the table has no column for their order.
std::string pairs_text(const std::vector<PlanReport>& plans) {
  std::map<std::string, std::vector<int>> ranks;  // by order
  for (const PlanReport& p : plans) {
    const ScheduleId order = p.plan.degrees.schedule;
    if (!p.variant_of && schedule_row(order).joins)
      ranks[std::string(to_text(order))].push_back(p.rank);
  }
  std::string text;
  for (const auto& [order, of] : ranks)
    text += fmt::format("forwards beside backwards ({}): plan{} {}\n", order,
                        of.size() > 1 ? "s" : "", fmt::join(of, ", "));
  return text;
}

/// Where nothing fits as surely as asked for.
std::string admission(const SearchReport& report) {
  if (report.admitted == MemoryFit::Fits) return {};
  return fmt::format(
      "tight: no plan has a risk of running out of memory of {:.0f} % or less (--mem-risk); these "
      "may fit\n\n",
      100.0 * report.question.memory_risk);
}

/// "beyond megatron: dp 4, tp 1x4x64 takes 14.1 s, 69 % less than plan 1 (64 to 73 %), ..."
std::string beyond_text(const SearchReport& report) {
  const BeyondSearch& beyond = report.beyond;
  if (beyond.tried.empty()) return {};
  if (beyond.plans.empty()) {
    return fmt::format("nothing beyond {} is faster by more than a tie; tried: {}\n",
                       report.question.framework, beyond.tried);
  }
  std::string text;
  for (const BeyondReport& one : beyond.plans) {
    const Estimate& estimate = one.plan.estimate;
    text += fmt::format(
        "beyond {}: {} takes {}, {:.0f} % less than plan 1 ({:.0f} to {:.0f} %), with {}, by {}; "
        "runs in: {}\n  {}\n",
        report.question.framework, short_plan(one.plan.plan), to_text(estimate.step.total()),
        100.0 * one.gain, 100.0 * one.least, 100.0 * one.most,
        memory_of(estimate.memory.total(), report.question.memory_capacity), one.what, one.runs_in,
        one.command);
  }
  return text;
}

}  // namespace

std::string tight_text(const SearchReport& report) {
  if (!report.faster_tight) return {};
  const PlanReport& tight = *report.faster_tight;
  const double gain = report.plans.front().estimate.step.total() / tight.estimate.step.total();
  return fmt::format(
      "faster, but tight: {} takes {}, {:.0f} % less, with {} and a risk of {} of running out of "
      "memory; --mem-risk {:.2f} admits it",
      short_plan(tight.plan), to_text(tight.estimate.step.total()), 100.0 * (1.0 - 1.0 / gain),
      memory_of(tight.estimate.memory.total(), report.question.memory_capacity), risk_text(tight),
      std::ceil(100.0 * tight.memory_risk) / 100.0);
}

TextTable plan_table(const SearchReport& report) {
  std::vector<ShownPlan> plans;
  for (const PlanReport& plan : report.plans) plans.push_back({report.question, plan});
  Columns<ShownPlan> columns = plan_columns(PlanTable::Ranking, plans);
  if (report.question.tokens) {
    const Column<ShownPlan> why = std::move(columns.back());
    columns.pop_back();
    append<ShownPlan, TrainingCost>(columns, training_columns(), [](const ShownPlan& s) {
      return training_cost(s.question, s.plan);
    });
    columns.push_back(why);
  }
  std::vector<ShownPlan> shown;
  for (const ShownPlan& plan : plans) {
    if (!plan.plan.variant_of) shown.push_back(plan);
  }
  return table_of(columns, shown);
}

std::string plan_legend(const std::vector<PlanReport>& plans, const TextTable& table, int columns) {
  const auto any = [&](auto which) {
    return std::ranges::any_of(plans, [&](const PlanReport& p) { return which(p); });
  };
  std::string text;
  if (any([](const PlanReport& p) { return p.ties.with_first && !p.variant_of; })) {
    text += "~ too close to plan 1 to call\n";
  }
  if (any([](const PlanReport& p) { return !p.variants.empty(); })) {
    text += "(... tie): variants of the plan that are too close to it to call\n";
  }
  if (!table.shows("why", columns)) {
    text += fmt::format("why plan {}: {}\n", plans.front().rank, reasons_cell(plans.front()));
  }
  if (!table.shows("schedule", columns)) text += pairs_text(plans);
  text += slow_mode_text(plans.front());
  text += "mbs: sequences per micro-batch; memory: of the fullest GPU";
  if (table.shows("p10 - p90", columns)) text += "; p10 - p90: 80 % of outcomes";
  if (table.shows("risk", columns)) text += "; risk: of running out of memory";
  if (table.shows("comm", columns)) text += "; comm: exposed communication, share of the step";
  for (const DegreeNote& note : kDegreeNotes) {
    if (any([&](const PlanReport& p) { return any_stage(p.plan, note.holds); })) text += note.words;
  }
  return text + features_text(plans) + "\n";
}

void show_front(SearchReport& report) {
  report.selection =
      "Pareto front over step time and memory: no plan beats one of these in both, fastest first";
  report.plans = report.front;
  int rank = 0;
  for (PlanReport& plan : report.plans) plan.rank = ++rank;
}

std::string ranking_table(const SearchReport& report, int columns) {
  const TextTable table = plan_table(report);
  const std::string tight = tight_text(report);
  return admission(report) + table.text(columns) + tight + (tight.empty() ? "" : "\n") +
         plan_legend(report.plans, table, columns) + without_text(report) + beyond_text(report);
}

}  // namespace plansearch
