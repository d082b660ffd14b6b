// SPDX-License-Identifier: Apache-2.0
#include "report/diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"
#include "report/columns.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

std::string likelihood_text(double share) {
  if (share < 0.01) return "<1 %";
  return share > 0.99 ? ">99 %" : fmt::format("{:.0f} %", 100.0 * share);
}

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.2f}", *ratio) : "-";
}

Columns<CauseReport> cause_columns(Seconds measured) {
  using Row = const CauseReport&;
  return {{"cause", &CauseReport::what, {"what may be otherwise", Align::Left}},
          {"predicted_step_time_s", &CauseReport::predicted, {"then predicted"}},
          {"measured_over_predicted",
           [measured](Row r) { return measured / r.predicted; },
           {"measured / predicted"},
           ratio_text},
          {"likelihood", &CauseReport::likelihood, {"likelihood"}, likelihood_text},
          {"fits", &CauseReport::fits},
          {"explains", &CauseReport::explains},
          {"check", &CauseReport::check, {"check", Align::Left, 1}}};
}

Columns<TermReport> term_columns() {
  const auto ratio = [](const TermReport& r) -> std::optional<double> {
    if (!r.measured || r.predicted <= Seconds(0)) return std::nullopt;
    return *r.measured / r.predicted;
  };
  return {{"part", &TermReport::term, {"of one step", Align::Left}},
          {"predicted_s", &TermReport::predicted, {"predicted"}},
          {"measured_s", &TermReport::measured, {"measured"}},
          {"measured_over_predicted", ratio, {"measured / predicted"}, ratio_text},
          {"calls", &TermReport::calls, {"calls"}, [](double calls) {
             return fmt::format("{:.0f}", calls);
           }}};
}

/// The part that takes most beyond its prediction.
const TermReport* furthest(const std::vector<TermReport>& terms) {
  const TermReport* found = nullptr;
  const auto excess = [](const TermReport& term) { return *term.measured - term.predicted; };
  for (const TermReport& term : terms) {
    if (!term.measured || excess(term) <= Seconds(0)) continue;
    if (found == nullptr || excess(term) > excess(*found)) found = &term;
  }
  return found;
}

std::string profile_text(const ProfileReport& profile) {
  if (const auto& times = profile.times) {
    std::string text =
        fmt::format("{}: {} steps, median {} (p10 - p90 {} - {}); {} take half as long again\n",
                    profile.file, times->steps, to_text(times->median), to_text(times->p10),
                    to_text(times->p90), likelihood_text(times->slow_share));
    if (times->slowest_rank) {
      text += fmt::format("slowest: rank {}, {:.2f}x the median of all ranks\n",
                          *times->slowest_rank, times->slowest_over_median);
    }
    return text;
  }
  std::string text = fmt::format("{}, {:.4g} {}:\n\n", profile.file, profile.steps,
                                 profile.steps == 1.0 ? "step" : "steps") +
                     table_of(term_columns(), profile.terms).text();
  if (const TermReport* most = furthest(profile.terms)) {
    text += fmt::format("furthest beyond its prediction: {}, by {}\n", most->term,
                        to_text(*most->measured - most->predicted));
  }
  return text;
}

Json profile_json(const ProfileReport& profile) {
  Json json;
  json["file"] = profile.file;
  json["steps"] = profile.steps;
  json["parts"] = objects_of(term_columns(), profile.terms);
  if (const auto& times = profile.times) {
    json["times"] = {{"steps", times->steps},
                     {"median_s", times->median.value()},
                     {"p10_s", times->p10.value()},
                     {"p90_s", times->p90.value()},
                     {"slow_share", times->slow_share},
                     {"slowest_rank", or_null(times->slowest_rank)},
                     {"slowest_over_median", times->slowest_over_median}};
  }
  return json;
}

/// "1.60x as long as predicted: slower than 98 % of such runs"
std::string verdict(const DiagnosisReport& report) {
  const double ratio = report.measured / report.plan.estimate.step.total();
  const bool slow = ratio >= 1.0;
  const double beyond = slow ? report.faster_share : 1.0 - report.faster_share;
  const bool inside = report.measured >= report.plan.p10 && report.measured <= report.plan.p90;
  return fmt::format("measured {}, predicted {} ({} - {}): {:.2f}x, {} than {} of such runs{}\n",
                     to_text(report.measured), to_text(report.plan.estimate.step.total()),
                     to_text(report.plan.p10), to_text(report.plan.p90), ratio,
                     slow ? "slower" : "faster", likelihood_text(beyond),
                     inside ? ", inside p10 - p90" : "");
}

std::string conclusion(const DiagnosisReport& report) {
  const CauseReport* first = report.causes.empty() ? nullptr : &report.causes.front();
  const double best = first == nullptr ? 0.0 : first->likelihood;
  // Beyond p10 and p90 one cause may still explain it no better than chance.
  const bool usual = report.faster_share >= 0.1 && report.faster_share <= 0.9;
  if (report.normal >= std::max(best, report.unknown) && (usual || report.normal > 0.5)) {
    return fmt::format("normal: nothing has to be wrong for that ({})\n",
                       likelihood_text(report.normal));
  }
  if (best > report.unknown) {
    return fmt::format("likeliest: {} ({}); that nothing is wrong: {}\ncheck first: {}\n",
                       first->what, likelihood_text(best), likelihood_text(report.normal),
                       first->check);
  }
  return fmt::format(
      "no cause that has a price explains it ({}): data loading, checkpoints, another job on the "
      "machine, or a plan that is not the one that ran\n",
      likelihood_text(report.unknown));
}

/// The line about a plan that memory forbids, whose step can be no measurement of it.
std::string memory_line(const DiagnosisReport& report) {
  const PlanReport& plan = report.plan;
  if (plan.memory_fit == MemoryFit::Fits) return {};
  return fmt::format(
      "this plan {} in memory: {} of {}, {} to run out; check that it is the plan that ran "
      "(degrees, micro-batch, recomputation, number formats)\n",
      plan.memory_fit == MemoryFit::Tight ? "may not fit" : "does not fit",
      to_text(plan.estimate.memory.total()), to_text(report.question.memory_capacity),
      risk_text(plan));
}

std::string table_text(const DiagnosisReport& report, int columns) {
  const QuestionReport& q = report.question;
  std::string text = fmt::format("{} on {}: {} x {}, batch {}, {}, {}\nplan: {}\n\n", q.model,
                                 q.hardware, q.gpus, q.accelerator, q.global_batch, q.precision,
                                 q.framework, short_plan(report.plan.plan));
  text += verdict(report) + memory_line(report) + conclusion(report);
  if (report.profile) text += "\n" + profile_text(*report.profile);
  if (!report.causes.empty()) {
    text += "\n" + table_of(cause_columns(report.measured), report.causes).text(columns);
  }
  text += fmt::format(
      "\nlikelihood: of each cause before the measurement, times how well it explains it; nothing "
      "wrong {}, none of these {}\n",
      likelihood_text(report.normal), likelihood_text(report.unknown));
  return wrapped(text, columns);
}

}  // namespace

std::string render_diagnosis(const DiagnosisReport& report, Format format, int columns) {
  const Json causes = objects_of(cause_columns(report.measured), report.causes);
  Json document;
  document["schema"] = "plansearch/diagnosis/v1";
  document["measured_step_time_s"] = report.measured.value();
  document["faster_share"] = report.faster_share;
  document["normal"] = report.normal;
  document["unknown"] = report.unknown;
  document["plan"] = plan_json(report.question, report.plan);
  document["causes"] = causes;
  if (report.profile) document["profile"] = profile_json(*report.profile);
  // Lines are the causes.
  return render_answer({format == Format::Json ? document : causes}, format,
                       [&] { return table_text(report, columns); });
}

}  // namespace plansearch
