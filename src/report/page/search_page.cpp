// SPDX-License-Identifier: Apache-2.0
#include "report/page/search_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.hpp"
#include "report/page/html.hpp"
#include "report/page/pictures.hpp"
#include "report/page/rank_picture.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_row.hpp"
#include "report/plan_tables.hpp"
#include "report/text_table.hpp"
#include "report/training.hpp"

namespace plansearch::page {
namespace {

/// Bars of more plans say nothing.
constexpr std::size_t kMostBars = 10;

std::string seconds_text(double seconds) {
  return to_text(Seconds(seconds));
}
std::string bytes_text(double bytes) {
  return to_text(Bytes(bytes));
}

std::string headline(const QuestionReport& q) {
  return fmt::format("{} on {} x {}", q.model, grouped(q.gpus), q.accelerator);
}

std::string question_line(const QuestionReport& q) {
  return fmt::format("{} parameters, sequence {}, batch {}, {}, {} on {}",
                     count_text(static_cast<double>(q.parameters)), q.seq_len, q.global_batch,
                     q.precision, framework_text(q), q.hardware);
}

std::string fact(std::string_view value, std::string_view name) {
  return fmt::format("<div><b>{}</b>{}</div>", escaped(value), escaped(name));
}

/// Plan 1 in a few numbers.
std::string facts(const SearchReport& report) {
  if (report.plans.empty()) {
    return paragraph(report.stopped ? "The search was cut short and found nothing."
                                    : "No plan fits.");
  }
  const PlanReport& p = report.plans.front();
  std::string text = paragraph("Plan 1: " + short_plan(p.plan)) + "<div class=\"facts\">";
  text += fact(to_text(p.estimate.step.total()),
               fmt::format("a step ({} - {})", to_text(p.p10), to_text(p.p90)));
  text += fact(share_text(p.mfu), "of the peak (MFU)");
  text += fact(count_text(p.tokens_per_s), "tokens a second");
  text += fact(memory_of(p.estimate.memory.total(), report.question.memory_capacity),
               fmt::format("memory, risk {}", risk_text(p)));
  if (const auto cost = training_cost(report.question, p)) {
    text += fact(count_text(cost->gpu_time.value() / 3600.0), "GPU-hours");
  }
  text += "</div>\n";
  for (const std::string& reason : p.why) text += paragraph("why: " + reason);
  return text;
}

std::string ladder_section(const LadderReport* ladder) {
  if (ladder == nullptr) return {};
  std::vector<CurvePoint> predicted;
  std::vector<CurvePoint> ideal;
  const LadderRung* first = nullptr;
  for (const LadderRung& rung : ladder->rungs) {
    if (rung.report.plans.empty()) continue;
    if (first == nullptr) first = &rung;
    const double gpus = rung.report.question.gpus;
    const double smallest = first->report.question.gpus;
    predicted.push_back({gpus, rung.speedup,
                         fmt::format("{} GPUs: {:.2f} x, {}", grouped(rung.report.question.gpus),
                                     rung.speedup, share_text(rung.efficiency))});
    ideal.push_back({gpus, gpus / smallest, {}});
  }
  CurvePicture picture;
  picture.alt =
      "Speed-up over the smallest size that runs, beside the growth in GPUs; both axes "
      "are logarithmic.";
  picture.curves = {{"predicted", std::move(predicted)}, {"ideal", std::move(ideal), false, true}};
  picture.x_name = "GPUs";
  picture.y_name = "speed-up";
  picture.x_text = [](double gpus) { return grouped(static_cast<std::int64_t>(gpus)); };
  picture.y_text = [](double speedup) { return fmt::format("{:.4g}", speedup); };
  picture.scale = Scale::Logarithmic;
  return section("sizes", "How many GPUs",
                 table(ladder_rows(ladder->rungs), "Best plan of every size, the batch fixed.",
                       Rows::Sortable) +
                     curves(picture) + paragraph(ladder->ceiling));
}

std::string plans_section(const SearchReport& report) {
  if (report.plans.empty()) {
    return section("plans", "Nearest misses",
                   (report.misses.empty() ? std::string()
                                          : table(miss_table(report.misses),
                                                  "Plans that need a little more memory.")) +
                       list(report.remedies));
  }
  const TextTable plans = plan_table(report);
  return section("plans", "Ranked plans",
                 paragraph(report.selection) + table(plans, "Fastest first.", Rows::Sortable) +
                     paragraph(plan_legend(report.plans, plans, kAnyWidth), "quiet") +
                     list(report.advice));
}

template <typename Breakdown>
Bar bar_of(const PlanReport& plan, const Breakdown& breakdown) {
  Bar bar{fmt::format("plan {}", plan.rank), {}};
  for (const auto& part : parts_of(breakdown)) bar.parts.push_back({part.name, part.value.value()});
  return bar;
}

std::string breakdown_section(const SearchReport& report) {
  BarPicture step{"Where the step of every plan goes.", {}, seconds_text};
  BarPicture memory{"What fills the fullest device of every plan.",
                    {},
                    bytes_text,
                    BarPart{"capacity", report.question.memory_capacity.value()}};
  for (const PlanReport& plan : report.plans) {
    if (step.bars.size() == kMostBars) break;
    if (plan.variant_of) continue;
    step.bars.push_back(bar_of(plan, plan.estimate.step));
    memory.bars.push_back(bar_of(plan, plan.estimate.memory));
  }
  return section("parts", "Step and memory", bars(step) + bars(memory));
}

std::string front_section(const SearchReport& report) {
  CurvePicture picture;
  Curve front{"front", {}};
  for (const PlanReport& plan : report.front) {
    const Estimate& e = plan.estimate;
    front.points.push_back({e.memory.total().value(), e.step.total().value(),
                            fmt::format("{}: {}, {}", short_plan(plan.plan),
                                        to_text(e.step.total()), to_text(e.memory.total()))});
  }
  std::sort(front.points.begin(), front.points.end(),
            [](const CurvePoint& a, const CurvePoint& b) { return a.x < b.x; });
  picture.curves = {std::move(front)};
  picture.alt = "Pareto front: no plan beats one of these in both step time and memory.";
  picture.x_name = "memory";
  picture.y_name = "step time";
  picture.x_text = bytes_text;
  picture.y_text = seconds_text;
  picture.scale = Scale::Logarithmic;
  return section("front", "Time against memory", curves(picture));
}

std::string pipeline_section(const SearchPage& content) {
  if (content.program == nullptr) return {};
  const int shown = content.program->shape.micro_batches;
  const std::string part =
      shown < content.micro_batches
          ? fmt::format(" The first {} of {} micro-batches.", shown, content.micro_batches)
          : "";
  return section("pipeline", "One step of plan 1",
                 timeline(*content.program, "What every stage does over the step." + part) +
                     memory_curve(*content.program, "What stages hold meanwhile." + part));
}

std::string groups_section(const SearchPage& content) {
  if (content.problem == nullptr) return {};
  const PlanSummary& plan = content.report->plans.front().plan;
  if (!plan.stages.empty() || content.problem->gpus < 2) return {};
  return section("groups", "Where the groups of plan 1 lie",
                 rank_picture(plan.degrees, *content.problem) +
                     table(group_table(plan.degrees, *content.problem),
                           "Groups of ranks: how many, how far apart, over how many nodes."));
}

std::string details_section(const SearchReport& report) {
  if (report.plans.empty()) return {};
  const PlanReport& p = report.plans.front();
  std::string text;
  if (p.stages.size() > 1) text += table(stage_table(p.stages), "Stages of plan 1.");
  if (!p.communication.empty()) {
    text += table(communication_table(p.communication), "Messages of plan 1.", Rows::Sortable);
  }
  return section("messages", "Stages and messages", text);
}

std::string rest_section(const SearchReport& report) {
  const CountsReport& c = report.counts;
  std::string text = paragraph(fmt::format(
      "{} plans in space {}: {} priced, {} pruned by bounds, {} simulated.", grouped(c.total),
      c.space, grouped(c.evaluated), grouped(c.pruned), grouped(c.simulated)));
  std::vector<std::string> reasons;
  for (const auto& [reason, plans] : c.rejected) {
    reasons.push_back(fmt::format("rejected: {} {}", grouped(plans), reason));
  }
  for (const std::string& what : c.left_out) reasons.push_back("left out: " + what);
  return section("search", "The search", text + list(reasons) + paragraph(report.optimality));
}

std::string evidence_section(const SearchReport& report) {
  TextTable settings(
      {{"setting", Align::Left}, {"value", Align::Left}, {"decided by", Align::Left}});
  for (const SettingReport& s : report.question.settings) {
    settings.add_row({s.key, s.value, std::string(s.origin)});
  }
  return section("evidence", "What the numbers rest on",
                 paragraph(report.evidence) + table(settings, "Settings of the question."));
}

std::string published_section(const SearchReport& report) {
  if (report.published.empty()) return {};
  return section("published", "Published plans",
                 table(published_table(report.published),
                       "Plans that were published for this model, machine and size, as priced "
                       "here; published step: of the recipe's own batch and precision.",
                       Rows::Sortable));
}

/// Links to the sections that are there.
std::string navigation(std::string_view body) {
  constexpr std::pair<const char*, const char*> kSections[] = {
      {"sizes", "sizes"},       {"plans", "plans"},         {"parts", "step and memory"},
      {"front", "front"},       {"pipeline", "pipeline"},   {"groups", "groups"},
      {"messages", "messages"}, {"published", "published"}, {"search", "search"},
      {"evidence", "evidence"}};
  std::string text = "<nav aria-label=\"sections\">";
  for (const auto& [name, words] : kSections) {
    if (body.find(fmt::format("<section id=\"{}\"", name)) == std::string_view::npos) continue;
    text += fmt::format("<a href=\"#{}\">{}</a>", name, words);
  }
  return text + "</nav>\n";
}

}  // namespace

std::string search_page(const SearchPage& content) {
  const SearchReport& report = *content.report;
  const std::string body = ladder_section(content.ladder) + plans_section(report) +
                           breakdown_section(report) + front_section(report) +
                           pipeline_section(content) + groups_section(content) +
                           details_section(report) + published_section(report) +
                           rest_section(report) + evidence_section(report);
  const std::string head = fmt::format("<h1>{}</h1>\n", escaped(headline(report.question))) +
                           paragraph(question_line(report.question), "quiet") + facts(report);
  return document(headline(report.question), head + navigation(body) + body);
}

}  // namespace plansearch::page
