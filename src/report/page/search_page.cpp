// SPDX-License-Identifier: Apache-2.0
#include "report/page/search_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.hpp"
#include "report/comparison.hpp"
#include "report/page/html.hpp"
#include "report/page/rank_picture.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "report/plan_tables.hpp"
#include "report/text_table.hpp"
#include "report/training.hpp"

namespace plansearch::page {
namespace {

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
  if (!p.why.empty()) text += paragraph(fmt::format("why: {}", fmt::join(p.why, ", ")));
  return text;
}

std::string ladder_section(const PageContent& content) {
  if (content.ladder == nullptr) return {};
  return section("sizes", "How many GPUs",
                 table(ladder_rows(content.ladder->rungs),
                       "Best plan of every size, the batch fixed.", Rows::Sortable) +
                     ladder_plot(content) + paragraph(content.ladder->ceiling));
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

std::string groups_section(const PageContent& content) {
  const std::string picture = groups_plot(content);
  if (picture.empty()) return {};
  return section(
      "groups", "Where the groups of plan 1 lie",
      picture + table(group_table(content.report->plans.front().plan.degrees, *content.problem),
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

std::string memory_section(const SearchReport& report) {
  if (report.plans.empty() || report.plans.front().peak.parts.empty()) return {};
  const PeakReport& peak = report.plans.front().peak;
  return section(
      "memory", "Memory by tensor",
      table(peak_table(peak),
            fmt::format("Tensors of plan 1 on device {} when that is fullest.", peak.device)) +
          paragraph(fmt::format("allocated {}, reserved {}, of the process {}",
                                to_text(peak.allocated), to_text(peak.reserved),
                                to_text(peak.process))));
}

std::string rival_section(const SearchReport& report) {
  if (report.plans.size() < 2) return {};
  const Rival rival{"plan 2", report.question, report.plans[1]};
  const PlanReport& first = report.plans.front();
  return section("rival", "The runner-up",
                 table(comparison_table(first, rival), "Plan 2 against plan 1, part by part.") +
                     paragraph(comparison_line(first, rival)));
}

std::string sensitivity_section(const PageContent& content) {
  if (content.sensitivity == nullptr || content.sensitivity->rows.empty()) return {};
  return section("sensitivity", "What the step depends on",
                 table(sensitivity_table(*content.sensitivity),
                       fmt::format("Each value of the data files {:.0f} % higher, the plan the "
                                   "same; --set KEY=VALUE changes one.",
                                   (content.sensitivity->factor - 1.0) * 100.0),
                       Rows::Sortable));
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
      {"sizes", "sizes"},           {"plans", "plans"},
      {"parts", "step and memory"}, {"memory", "memory by tensor"},
      {"front", "front"},           {"pipeline", "pipeline"},
      {"groups", "groups"},         {"messages", "messages"},
      {"rival", "runner-up"},       {"published", "published"},
      {"search", "search"},         {"sensitivity", "sensitivity"},
      {"evidence", "evidence"}};
  std::string text = "<nav aria-label=\"sections\">";
  for (const auto& [name, words] : kSections) {
    if (body.find(fmt::format("<section id=\"{}\"", name)) == std::string_view::npos) continue;
    text += fmt::format("<a href=\"#{}\">{}</a>", name, words);
  }
  return text + "</nav>\n";
}

}  // namespace

std::string search_page(const PageContent& content) {
  const SearchReport& report = *content.report;
  const std::string body =
      ladder_section(content) + plans_section(report) +
      section("parts", "Step and memory", step_plot(content) + memory_plot(content)) +
      memory_section(report) + section("front", "Time against memory", pareto_plot(content)) +
      section("pipeline", "One step of plan 1", timeline_plot(content) + held_plot(content)) +
      groups_section(content) + details_section(report) + rival_section(report) +
      published_section(report) + rest_section(report) + sensitivity_section(content) +
      evidence_section(report);
  const std::string head = fmt::format("<h1>{}</h1>\n", escaped(headline(report.question))) +
                           paragraph(question_line(report.question), "quiet") + facts(report);
  return document(headline(report.question), head + navigation(body) + body);
}

}  // namespace plansearch::page
