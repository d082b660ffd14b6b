// SPDX-License-Identifier: Apache-2.0
#include "report/fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
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

constexpr double kGiB = 1073741824.0;

std::string gib(Bytes bytes) {
  return fmt::format("{:.1f} GiB", bytes.value() / kGiB);
}

/// "8 x dgx-h100"
std::string where(const QuestionReport& question) {
  return fmt::format("{} x {}", grouped(question.gpus), question.hardware);
}

/// Pace and, where tokens are asked about, the time for them, each with 80 % of outcomes.
std::string pace_text(const QuestionReport& question, const PlanReport& plan) {
  const double tokens = plan.tokens_per_s / question.gpus;
  const Seconds step = plan.estimate.step.total();
  const auto rate = [&](Seconds other) { return count_text(tokens * (step / other)); };
  std::string text =
      fmt::format("{} tokens/s a GPU ({} to {})", rate(step), rate(plan.p90), rate(plan.p10));
  if (const auto cost = training_cost(question, plan)) {
    text += fmt::format(", {} for {} tokens ({} to {})", duration_text(cost->time),
                        count_text(*question.tokens), duration_text(cost->p10),
                        duration_text(cost->p90));
  }
  return text;
}

std::string verdict_on(const SearchReport& answer, bool priced, const CardRow* more) {
  const QuestionReport& q = answer.question;
  if (answer.plans.empty() || priced) {
    std::string text = fmt::format("does not fit on {}", where(q));
    if (!answer.misses.empty()) {
      const NearMissReport& miss = answer.misses.front();
      text += fmt::format(": {} at the least, {} too much", gib(miss.memory.total()),
                          gib(miss.excess()));
    }
    if (more != nullptr && more->gpus > q.gpus)
      text += fmt::format("; {} fit", grouped(*more->gpus));
    if (priced) text += "; priced all the same: " + pace_text(q, answer.plans.front());
    return text;
  }
  const PlanReport& plan = answer.plans.front();
  const bool tight = plan.memory_fit != MemoryFit::Fits;
  return fmt::format("{} on {}: {} free, {}{}", tight ? "tight" : "fits", where(q),
                     gib(std::max(Bytes(0), q.memory_capacity - plan.estimate.memory.total())),
                     tight ? fmt::format("a risk of {} of running out, ", risk_text(plan)) : "",
                     pace_text(q, plan));
}

/// Parts of the memory of the fullest GPU as a bar, with their sizes; what is left are dots.
std::string bar_of(const MemoryBreakdown& memory, Bytes capacity) {
  constexpr double kWidth = 64.0;
  constexpr std::string_view kMarks = "#=+*o~-";
  const Bytes whole = std::max(capacity, memory.total());
  std::string bar, legend;
  Bytes sum;
  std::size_t mark = 0;
  for (const auto& [key, name, value] : parts_of(memory)) {
    const char letter = kMarks[mark++ % kMarks.size()];
    if (value < Bytes(0.05 * kGiB)) continue;
    sum = sum + value;
    bar.resize(std::max(bar.size(), static_cast<std::size_t>(std::lround(kWidth * (sum / whole)))),
               letter);
    legend += fmt::format("{}{} {} {}", legend.empty() ? "" : ", ", letter, name, gib(value));
  }
  bar.resize(static_cast<std::size_t>(kWidth), '.');
  return fmt::format("[{}] {}\n{}\n", bar, memory_of(sum, capacity), legend);
}

const Columns<CardRow>& card_columns() {
  const auto found = [](auto value) {
    return
        [value](Card row) { return row.gpus ? json_of(std::invoke(value, row)) : Json(nullptr); };
  };
  const auto cell = [](auto show) {
    return [show](Card row) { return row.gpus ? Cell(show(row)) : Cell("-"); };
  };
  static const Columns<CardRow> kColumns{
      {"accelerator", &CardRow::accelerator, {"card", Align::Left}},
      {"hardware", &CardRow::hardware, {"machine", Align::Left, 2}},
      {"memory_capacity_bytes", &CardRow::capacity, {"memory"}},
      {"gpus", &CardRow::gpus, {"fewest GPUs"}, cell([](Card row) { return grouped(*row.gpus); })},
      {"peak_memory_bytes", found(&CardRow::memory), {"used"}, cell([](Card row) {
         return to_text(row.memory);
       })},
      {"memory_risk", found(&CardRow::risk)},
      {"tokens_per_s_per_gpu", found(&CardRow::rate), {"tokens/s a GPU"}, cell([](Card row) {
         return count_text(row.rate);
       })},
      {"reason", [](Card row) { return or_null(row.why_none); }},
      {"plan", found(&CardRow::plan), {"plan", Align::Left, 1}, [](Card row) {
         return row.gpus ? row.plan : row.why_none;
       }}};
  return kColumns;
}

std::string table_text(const FitsReport& report, int columns) {
  std::string text = report.verdict() + "\n";
  if (report.answer) {
    const SearchReport& answer = *report.answer;
    const QuestionReport& q = answer.question;
    if (!answer.plans.empty()) {
      const PlanReport& plan = answer.plans.front();
      text +=
          bar_of(plan.estimate.memory, q.memory_capacity) + "plan: " + short_plan(plan.plan) + "\n";
    } else if (!answer.misses.empty()) {
      const NearMissReport& miss = answer.misses.front();
      text += bar_of(miss.memory, q.memory_capacity) + "the least: " + short_plan(miss.plan) + "\n";
    }
    text += fmt::format("{}, {}, batch {} x {}, {}, {}\n", q.model, report.method, q.global_batch,
                        q.seq_len, q.precision, framework_text(q));
    for (const std::string& remedy : answer.remedies) text += "hint: " + remedy + "\n";
  }
  if (!report.cards.empty()) text += "\n" + table_of(card_columns(), report.cards).text(columns);
  if (report.answer) text += "\n" + report.answer->evidence + "\n";
  return wrapped(text, columns);
}

}  // namespace

bool FitsReport::fits() const {
  if (answer) return !answer->plans.empty() && !priced;
  return std::ranges::any_of(cards, [](Card row) { return row.gpus.has_value(); });
}

std::string FitsReport::verdict() const {
  if (answer) {
    const auto same = std::ranges::find(cards, answer->question.hardware, &CardRow::hardware);
    return verdict_on(*answer, priced, same == cards.end() ? nullptr : &*same);
  }
  const auto on = std::ranges::count_if(cards, [](Card row) { return row.gpus.has_value(); });
  const auto one = std::ranges::count_if(cards, [](Card row) { return row.gpus == 1; });
  return fmt::format("{} {} fits on {} of {} kinds of cards, on a single one of {}", model, method,
                     on, cards.size(), one);
}

std::string render_fits(const FitsReport& report, Format format, int columns) {
  return render_answer({{{"schema", "plansearch/fits/v1"},
                         {"model", report.model},
                         {"method", report.method},
                         {"fits", report.fits()},
                         {"verdict", report.verdict()},
                         {"answer", report.answer ? to_json(*report.answer) : Json(nullptr)},
                         {"rows", objects_of(card_columns(), report.cards)}}},
                       format, [&] { return table_text(report, columns); });
}

}  // namespace plansearch
