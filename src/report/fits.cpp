// SPDX-License-Identifier: Apache-2.0
#include "report/fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/capacity.hpp"
#include "report/columns.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "report/text_table.hpp"
#include "report/training.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;
using Card = const CardRow&;

std::string gib(Bytes bytes) {
  return fmt::format("{:.1f} GiB", bytes.value() / 1073741824.0);
}

bool does(Card row) {
  return row.gpus.has_value();
}

/// Pace and, where tokens are asked about, the time for them, each with 80 % of outcomes.
std::string pace_text(const QuestionReport& question, const PlanReport& plan) {
  const auto rate = [&](Seconds step) {
    return count_text(plan.tokens_per_s / question.gpus * (plan.estimate.step.total() / step));
  };
  std::string text = fmt::format("{} tokens/s a GPU ({} to {})", rate(plan.estimate.step.total()),
                                 rate(plan.p90), rate(plan.p10));
  if (const auto cost = training_cost(question, plan)) {
    text += fmt::format(", {} for {} tokens ({} to {})", duration_text(cost->time),
                        count_text(*question.tokens), duration_text(cost->p10),
                        duration_text(cost->p90));
  }
  return text;
}

/// "fits on 8 x h100-sxm5-80gb (dgx-h100): 12.0 GiB free, ..."
std::string verdict_on(const SearchReport& answer, const FitsReport& report) {
  const QuestionReport& q = answer.question;
  const std::string where =
      fmt::format("on {} x {} ({})", grouped(q.gpus), q.accelerator, q.hardware);
  if (report.fits()) {
    const PlanReport& plan = answer.plans.front();
    const bool tight = plan.memory_fit != MemoryFit::Fits;
    return fmt::format("{} {}: {} free, {}{}", tight ? "tight" : "fits", where,
                       gib(std::max(Bytes(0), q.memory_capacity - plan.estimate.memory.total())),
                       tight ? fmt::format("a risk of {} of running out, ", risk_text(plan)) : "",
                       pace_text(q, plan));
  }
  if (answer.stopped && answer.misses.empty())
    return "stopped before a plan was found that fits " + where;
  std::string text = "does not fit " + where;
  for (const NearMissReport& miss : answer.misses) {
    text +=
        fmt::format(": {} at the least, {} too much", gib(miss.memory.total()), gib(miss.excess()));
    break;
  }
  const auto same = std::ranges::find(report.cards, q.hardware, &CardRow::hardware);
  if (same != report.cards.end() && same->gpus > q.gpus) {
    text += fmt::format("; {} fit", grouped(*same->gpus));
  }
  if (report.priced) text += "; priced all the same: " + pace_text(q, answer.plans.front());
  return text;
}

std::string verdict(const FitsReport& report) {
  if (report.answer) return verdict_on(*report.answer, report);
  return fmt::format("{} {} fits on {} of {} kinds of cards, on a single one of {}", report.model,
                     report.method, std::ranges::count_if(report.cards, does), report.cards.size(),
                     std::ranges::count_if(report.cards, [](Card row) { return row.gpus == 1; }));
}

/// Parts of the memory of the fullest GPU as a bar, with their sizes; what is left are dots.
std::string bar_of(const MemoryBreakdown& memory, Bytes capacity) {
  constexpr double kWidth = 64.0;
  constexpr double kShown = 0.002;
  constexpr std::string_view kMarks = "#=+*o~-";
  const Bytes whole = std::max(capacity, memory.total());
  std::string bar, legend;
  Bytes sum;
  std::size_t mark = 0;
  for (const auto& [key, name, value] : parts_of(memory)) {
    const char letter = kMarks[mark++ % kMarks.size()];
    sum = sum + value;
    const auto end = static_cast<std::size_t>(std::lround(kWidth * (sum / whole)));
    bar.resize(std::max(bar.size(), end), letter);
    if (value < kShown * whole) continue;
    legend += fmt::format("{}{} {} {}", legend.empty() ? "" : ", ", letter, name, gib(value));
  }
  bar.resize(static_cast<std::size_t>(kWidth), '.');
  return fmt::format("[{}] {}\n{}\n", bar, memory_of(sum, capacity), legend);
}

const Columns<CardRow>& card_columns() {
  static const Columns<CardRow> kColumns{
      {"accelerator", &CardRow::accelerator, {"card", Align::Left}},
      {"hardware", &CardRow::hardware, {"machine", Align::Left, 2}},
      {"memory_capacity_bytes", &CardRow::capacity, {"memory"}},
      {"gpus",
       &CardRow::gpus,
       {"fewest GPUs"},
       [](Card row) { return does(row) ? grouped(*row.gpus) : "-"; }},
      {"peak_memory_bytes",
       &CardRow::memory,
       {"used"},
       [](Card row) { return does(row) ? Cell(*row.memory) : Cell("-"); }},
      {"memory_risk", &CardRow::risk},
      {"tokens_per_s_per_gpu",
       &CardRow::rate,
       {"tokens/s a GPU"},
       [](Card row) { return does(row) ? count_text(*row.rate) : "-"; }},
      {"reason", [](Card row) { return or_null(row.why_none); }},
      {"plan",
       [](Card row) { return or_null(row.plan); },
       {"plan", Align::Left, 1},
       [](Card row) { return does(row) ? row.plan : row.why_none; }}};
  return kColumns;
}

/// The machine that was asked about: memory, plan, question, ways out.
std::string answer_text(const SearchReport& answer, const std::string& method) {
  const QuestionReport& q = answer.question;
  std::string text;
  if (!answer.plans.empty()) {
    const PlanReport& plan = answer.plans.front();
    text = bar_of(plan.estimate.memory, q.memory_capacity) + "plan: " + short_plan(plan.plan);
  } else if (!answer.misses.empty()) {
    const NearMissReport& miss = answer.misses.front();
    text = bar_of(miss.memory, q.memory_capacity) + "the least: " + short_plan(miss.plan);
  }
  text += fmt::format("\n{}, {}, batch {} x {}, {}, {}\n", q.model, method, q.global_batch,
                      q.seq_len, q.precision, framework_text(q));
  for (const std::string& remedy : answer.remedies) text += "hint: " + remedy + "\n";
  return text;
}

/// All cards, or beside a verdict on one machine the first of them and its own.
std::string cards_text(const FitsReport& report, int columns) {
  constexpr std::size_t kBeside = 10;
  const auto is_shown = [&](Card row) {
    const bool own = report.answer && row.hardware == report.answer->question.hardware;
    return !report.answer || own || &row < report.cards.data() + kBeside;
  };
  std::vector<CardRow> shown;
  std::ranges::copy_if(report.cards, std::back_inserter(shown), is_shown);
  std::string text = "\n" + table_of(card_columns(), shown).text(columns);
  if (shown.size() < report.cards.size()) {
    text += fmt::format("{} more kinds of cards: plansearch fits without --on\n",
                        report.cards.size() - shown.size());
  }
  return text;
}

}  // namespace

bool FitsReport::fits() const {
  return answer ? !answer->plans.empty() && !priced : std::ranges::any_of(cards, does);
}

std::string render_fits(const FitsReport& report, Format format, int columns) {
  const auto table = [&] {
    std::string text = verdict(report) + "\n";
    if (report.answer) text += answer_text(*report.answer, report.method);
    if (!report.cards.empty()) text += cards_text(report, columns);
    if (report.answer) text += "\n" + report.answer->evidence + "\n";
    return wrapped(text, columns);
  };
  return render_answer({{{"schema", "plansearch/fits/v1"},
                         {"model", report.model},
                         {"method", report.method},
                         {"fits", report.fits()},
                         {"verdict", verdict(report)},
                         {"answer", report.answer ? to_json(*report.answer) : Json(nullptr)},
                         {"rows", objects_of(card_columns(), report.cards)}}},
                       format, table);
}

}  // namespace plansearch
