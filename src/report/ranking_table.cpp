// SPDX-License-Identifier: Apache-2.0
#include "report/ranking_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_tables.hpp"
#include "report/text_table.hpp"
#include "report/training.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

std::string reasons(const PlanReport& plan) {
  constexpr std::size_t kShown = 2;
  std::string text = fmt::format(
      "{}",
      fmt::join(plan.why.begin(),
                plan.why.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, plan.why.size())),
                ", "));
  for (const PlanFeature& feature : plan.features) text += ", by " + feature.name;
  return text;
}

/// A column of the ranking and when it tells something.
struct PlanColumn {
  TextColumn column;
  std::function<Cell(const PlanReport&)> cell;
  std::function<bool(const PlanReport&)> tells = [](const PlanReport&) { return true; };
};

/// Of the plan, or of any of its stages.
bool any_stage(const PlanSummary& plan, const std::function<bool(const PlanDegrees&)>& holds) {
  return holds(plan.degrees) || std::any_of(plan.stages.begin(), plan.stages.end(), holds);
}

std::string number(int value) {
  return fmt::format("{}", value);
}

PlanColumn degree_column(
    TextColumn column, std::function<std::string(const PlanDegrees&)> cell,
    std::function<bool(const PlanDegrees&)> tells = [](const PlanDegrees&) { return true; }) {
  return {std::move(column),
          [cell = std::move(cell)](const PlanReport& p) { return across_stages(p.plan, cell); },
          [tells = std::move(tells)](const PlanReport& p) { return any_stage(p.plan, tells); }};
}

/// "2 (4, 8 tie)", "2 (4-20 tie)": with the numbers of its variants.
std::string chunks_cell(const PlanReport& plan) {
  std::set<int> others;
  const PlanDegrees& own = plan.plan.degrees;
  for (const PlanDegrees& variant : plan.variants) {
    const bool twin = variant.zero != own.zero || variant.context_kind != own.context_kind;
    if (!twin) others.insert(variant.chunks);
  }
  others.erase(own.chunks);
  constexpr std::size_t kListed = 2;
  std::string text =
      across_stages(plan.plan, [](const PlanDegrees& p) { return number(p.chunks); });
  if (others.size() > kListed) {
    text += fmt::format(" ({}-{} tie)", *others.begin(), *others.rbegin());
  } else if (!others.empty()) {
    text += fmt::format(" ({} tie)", fmt::join(others, ", "));
  }
  return text;
}

bool is_any(const PlanDegrees& /*variant*/, const PlanDegrees& /*plan*/) {
  return true;
}

/// "0 (1 tie)": with what the cell says of variants that are meant.
std::string tied_cell(const PlanReport& plan, std::string (*cell)(const PlanDegrees&),
                      bool (*is_meant)(const PlanDegrees&, const PlanDegrees&) = is_any) {
  std::string text = across_stages(plan.plan, cell);
  std::set<std::string> others;
  for (const PlanDegrees& variant : plan.variants) {
    if (is_meant(variant, plan.plan.degrees)) others.insert(cell(variant));
  }
  others.erase(text);
  if (!others.empty()) text += fmt::format(" ({} tie)", fmt::join(others, ", "));
  return text;
}

std::string zero_cell(const PlanDegrees& plan) {
  return number(static_cast<int>(plan.zero));
}

/// The order of its pipeline, and those of variants with as many chunks.
std::string order_cell(const PlanReport& plan) {
  if (plan.plan.window) return "found";
  return tied_cell(plan, schedule_cell, [](const PlanDegrees& variant, const PlanDegrees& own) {
    return variant.chunks == own.chunks;
  });
}

/// Degrees; what no plan makes use of is left out, but for the three everybody looks for.
std::vector<PlanColumn> degree_columns() {
  using Plan = const PlanDegrees&;
  return {
      {{"#"},
       [](const PlanReport& p) {
         return fmt::format("{}{}", p.ties.with_first ? "~" : "", p.rank);
       }},
      degree_column({"dp"}, [](Plan p) { return number(p.data); }),
      degree_column({"pp"}, [](Plan p) { return number(p.pipeline); }),
      {{"layers"},
       [](const PlanReport& p) { return layers_by_stage(p.plan); },
       [](const PlanReport& p) { return !p.plan.written.empty(); }},
      {{"vpp"},
       chunks_cell,
       [](const PlanReport& p) {
         const auto chunked = [](Plan d) { return d.chunks > 1; };
         return any_stage(p.plan, chunked) ||
                std::any_of(p.variants.begin(), p.variants.end(), chunked);
       }},
      {{"tp"},
       [](const PlanReport& p) { return across_stages(p.plan, tensor_cell) + steps_cell(p.plan); }},
      {{"cp"},
       [](const PlanReport& p) { return tied_cell(p, context_cell); },
       [](const PlanReport& p) { return any_stage(p.plan, [](Plan d) { return d.context > 1; }); }},
      degree_column(
          {"ep"}, [](Plan p) { return number(p.expert); }, [](Plan p) { return p.expert > 1; }),
      degree_column(
          {"etp"}, [](Plan p) { return number(p.expert_tensor); },
          [](Plan p) { return p.expert_tensor > 1; }),
      {{"zero"}, [](const PlanReport& p) { return tied_cell(p, zero_cell); }},
      degree_column({"mbs"}, [](Plan p) { return number(p.micro_batch); }),
      degree_column(
          {"pieces"}, [](Plan p) { return number(p.pieces); }, [](Plan p) { return p.pieces > 1; }),
      degree_column({"recompute", Align::Left}, recompute_cell,
                    [](Plan p) { return p.recompute != Recompute::None; }),
      degree_column(
          {"dispatcher", Align::Left}, [](Plan p) { return std::string(to_text(p.dispatcher)); },
          [](Plan p) { return p.dispatcher != kOwnDispatcher; }),
      degree_column(
          {"offload", Align::Left}, [](Plan p) { return std::string(host_text(p.on_host)); },
          [](Plan p) { return p.on_host != 0; }),
      {{"schedule", Align::Left, 2}, order_cell, [](const PlanReport& p) {
         return p.plan.degrees.pipeline > 1 || schedule_row(p.plan.degrees.schedule).joins;
       }}};
}

/// Below half a percent a risk is not worth a column.
bool is_at_risk(const PlanReport& plan) {
  return plan.memory_risk >= 0.005;
}

std::vector<PlanColumn> cost_columns(Bytes capacity) {
  const auto share = [](auto part) {
    return [part](const PlanReport& p) {
      const StepTimeBreakdown& step = p.estimate.step;
      return share_text(part(step) / (step.total() - step.site));
    };
  };
  return {
      {{"step"}, [](const PlanReport& p) { return p.estimate.step.total(); }},
      {{"p10 - p90", Align::Right, 3},
       [](const PlanReport& p) { return range_cell(p.p10, p.p90); }},
      {{"tokens/s", Align::Right, 6},
       [](const PlanReport& p) { return count_cell(p.tokens_per_s); }},
      {{"MFU", Align::Right, 2}, [](const PlanReport& p) { return share_text(p.mfu); }},
      {{"memory"},
       [capacity](const PlanReport& p) { return memory_of(p.estimate.memory.total(), capacity); }},
      {{"risk", Align::Right, 2}, [](const PlanReport& p) { return risk_text(p); }, is_at_risk},
      {{"comm", Align::Right, 5},
       share([](const StepTimeBreakdown& step) { return step.exposed_total(); })},
      {{"bubble", Align::Right, 4},
       share([](const StepTimeBreakdown& step) { return step.bubble; }),
       [](const PlanReport& p) { return p.plan.degrees.pipeline > 1; }},
      {{"why", Align::Left, 7}, reasons}};
}

/// Beside the interval: what runs in the slow mode of the fabric take.
std::string slow_mode_text(const PlanReport& plan) {
  if (!plan.slow) return {};
  return fmt::format(
      "slow mode of {}, no part of p10 - p90: {:.0f} % of the pipelines measured on so many nodes; "
      "{} for plan {} if the network made it, not their code\n",
      plan.slow->fabric, 100.0 * plan.slow->share,
      to_text(plan.estimate.step.total() + plan.slow->excess), plan.rank);
}

/// What cells of degrees mean, where a plan has them.
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

/// Where no column tells orders: those that chunks do not tell.
std::string pairs_text(const std::vector<PlanReport>& plans) {
  std::vector<std::string> pairs;
  for (const PlanReport& p : plans) {
    const ScheduleId order = p.plan.degrees.schedule;
    if (p.variant_of || !schedule_row(order).joins) continue;
    pairs.push_back(fmt::format("{} ({})", p.rank, to_text(order)));
  }
  if (pairs.empty()) return {};
  return fmt::format("forwards beside backwards: plan {}\n", fmt::join(pairs, ", "));
}

/// Where nothing fits as surely as asked for.
std::string admission(const SearchReport& report) {
  if (report.admitted == MemoryFit::Fits) return {};
  return fmt::format(
      "tight: no plan has a risk of running out of memory of {:.0f} % or less (--mem-risk); these "
      "may fit\n\n",
      100.0 * report.question.memory_risk);
}

std::string faster_tight(const SearchReport& report) {
  if (!report.faster_tight) return {};
  const PlanReport& tight = *report.faster_tight;
  const double gain = report.plans.front().estimate.step.total() / tight.estimate.step.total();
  return fmt::format(
      "faster, but tight: {} takes {}, {:.0f} % less, with {} and a risk of {} of running out of "
      "memory; --mem-risk {:.2f} admits it\n",
      short_plan(tight.plan), to_text(tight.estimate.step.total()), 100.0 * (1.0 - 1.0 / gain),
      memory_of(tight.estimate.memory.total(), report.question.memory_capacity), risk_text(tight),
      std::ceil(100.0 * tight.memory_risk) / 100.0);
}

std::string beyond_text(const SearchReport& report) {
  std::string text;
  std::string what;
  for (const BeyondReport& beyond : report.beyond) {
    if (beyond.what != what) {
      text += fmt::format("beyond {}, faster: {}\n", report.question.framework, beyond.what);
    }
    what = beyond.what;
    const Estimate& estimate = beyond.plan.estimate;
    const Seconds best = report.plans.front().estimate.step.total();
    text +=
        fmt::format("  {}: {}, {}, {:.0f} % less than plan 1, {}\n",
                    to_text(beyond.plan.plan.degrees.schedule), short_plan(beyond.plan.plan),
                    to_text(estimate.step.total()), 100.0 * (1.0 - estimate.step.total() / best),
                    memory_of(estimate.memory.total(), report.question.memory_capacity));
  }
  return text;
}

}  // namespace

TextTable plan_table(const SearchReport& report) {
  std::vector<PlanColumn> columns = degree_columns();
  for (PlanColumn& column : cost_columns(report.question.memory_capacity)) {
    columns.push_back(std::move(column));
  }
  Columns<PlanReport> training;
  if (report.question.tokens) {
    append<PlanReport, TrainingCost>(training, training_columns(), [&](const PlanReport& p) {
      return training_cost(report.question, p);
    });
  }
  for (Column<PlanReport>& column : training) {
    columns.insert(columns.end() - 1, {column.title, std::move(column.cell)});  // before reasons
  }
  std::erase_if(columns, [&](const PlanColumn& column) {
    return std::none_of(report.plans.begin(), report.plans.end(),
                        [&](const PlanReport& p) { return column.tells(p); });
  });
  std::vector<TextColumn> headers;
  for (const PlanColumn& column : columns) headers.push_back(column.column);
  TextTable table(headers);
  for (const PlanReport& p : report.plans) {
    if (p.variant_of) continue;
    std::vector<Cell> cells;
    for (const PlanColumn& column : columns) cells.push_back(column.cell(p));
    table.add_row(std::move(cells));
  }
  return table;
}

std::string plan_legend(const std::vector<PlanReport>& plans, const TextTable& table, int columns) {
  const auto any = [&](auto which) {
    return std::any_of(plans.begin(), plans.end(), [&](const PlanReport& p) { return which(p); });
  };
  std::string text;
  if (any([](const PlanReport& p) { return p.ties.with_first; })) {
    text += "~ too close to plan 1 to call\n";
  }
  if (any([](const PlanReport& p) { return !p.variants.empty(); })) {
    text += "(... tie): variants of the plan that are too close to it to call\n";
  }
  if (!table.shows("why", columns)) {
    text += fmt::format("why plan {}: {}\n", plans.front().rank, reasons(plans.front()));
  }
  if (!table.shows("schedule", columns)) text += pairs_text(plans);
  text += slow_mode_text(plans.front());
  text += "mbs: sequences per micro-batch; memory: of the fullest GPU";
  if (table.shows("p10 - p90", columns)) text += "; p10 - p90: 80 % of outcomes";
  if (table.shows("risk", columns)) text += "; risk: of running out of memory";
  if (table.shows("comm", columns)) text += "; comm: exposed communication, share of the step";
  for (const auto& [holds, words] : kDegreeNotes) {
    if (any([&](const PlanReport& p) { return any_stage(p.plan, holds); })) text += words;
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
  return admission(report) + table.text(columns) + faster_tight(report) +
         plan_legend(report.plans, table, columns) + without_text(report) + beyond_text(report);
}

}  // namespace plansearch
