// SPDX-License-Identifier: Apache-2.0
#include "report/diagnosis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

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

std::string times_text(std::string_view source, const StepTimes& times) {
  std::string text =
      fmt::format("{}: {} steps, median {} (p10 - p90 {} - {}); {} take half as long again\n",
                  source, times.steps, to_text(times.median), to_text(times.p10),
                  to_text(times.p90), likelihood_text(times.slow_share));
  if (times.slowest_rank) {
    text += fmt::format("slowest: rank {}, {:.2f}x the median of all ranks\n", *times.slowest_rank,
                        times.slowest_over_median);
  }
  return text;
}

Json times_json(const StepTimes& times) {
  return {{"steps", times.steps},
          {"median_s", times.median.value()},
          {"p10_s", times.p10.value()},
          {"p90_s", times.p90.value()},
          {"slow_share", times.slow_share},
          {"slowest_rank", or_null(times.slowest_rank)},
          {"slowest_over_median", times.slowest_over_median}};
}

/// Steps that the median is not of, and why.
std::string left_out_text(const LogReport& log) {
  std::string text;
  if (log.warm_up > 0) text = fmt::format("{} of warm-up", log.warm_up);
  if (log.apart > 0) {
    text += fmt::format(
        "{}{} slower or faster than the others{}", text.empty() ? "" : ", ", log.apart,
        log.apart_every
            ? fmt::format(" (every {} steps: checkpoints, evaluation)", *log.apart_every)
            : "");
  }
  return text.empty() ? text : fmt::format("steps left out: {}\n", text);
}

/// The log's count of operations beside the one here, and what such a difference comes from.
std::string flops_text(const LogReport& log) {
  constexpr double kSame = 0.03;
  const double ratio = *log.flops / log.own_flops;
  const double recomputed = log.own_hardware_flops / log.own_flops;
  std::string reason = "counted alike";
  if (recomputed > 1.0 + kSame && std::abs(ratio / recomputed - 1.0) < kSame) {
    reason = "with what is recomputed";
  } else if (ratio > 1.0 + kSame) {
    reason =
        "more operations are counted there: attention as a full square, recomputation, a "
        "larger vocabulary, or another network or sequence";
  } else if (ratio < 1.0 - kSame) {
    reason =
        "fewer operations are counted there: no attention or logits, or another network or "
        "sequence";
  }
  return fmt::format("each GPU: {} as the log says, {} for the same time as counted here: {}\n",
                     to_text(*log.flops), to_text(log.own_flops), reason);
}

std::string memory_text(const LogReport& log, const PeakReport& predicted) {
  std::string text;
  const auto beside = [&](const char* what, const std::optional<Bytes>& logged, Bytes own) {
    if (!logged) return;
    text += fmt::format("{}{} {}, predicted {}", text.empty() ? "peak memory: " : "; ", what,
                        to_text(*logged), to_text(own));
  };
  beside("allocated", log.allocated, predicted.allocated);
  beside("reserved", log.reserved, predicted.reserved);
  return text.empty() ? text : text + "\n";
}

std::string log_text(const LogReport& log, const PeakReport& predicted) {
  std::string text = times_text(fmt::format("{}, read as {}", log.file, log.format), log.times);
  text += left_out_text(log);
  if (const auto& change = log.change) {
    text += fmt::format("{}: median {} before step {}, {} from there on\n",
                        change->sudden ? "a change of pace" : "a drift", to_text(change->before),
                        change->step, to_text(change->after));
  }
  if (log.skipped > 0) text += fmt::format("steps that skipped their update: {}\n", log.skipped);
  if (log.retries > 0)
    text += fmt::format("allocator gave its cache back and asked again: {} times\n", log.retries);
  if (log.nans > 0) text += fmt::format("steps whose loss is not a number: {}\n", log.nans);
  if (log.flops) text += flops_text(log);
  text += memory_text(log, predicted);
  if (!log.not_understood.empty()) {
    constexpr std::size_t kShown = 5;
    const std::size_t shown = std::min(log.not_understood.size(), kShown);
    text += fmt::format("lines not understood, cut or mixed with others: {}{}\n",
                        fmt::join(std::span(log.not_understood).first(shown), ", "),
                        shown < log.not_understood.size()
                            ? fmt::format(", ... ({} in all)", log.not_understood.size())
                            : "");
  }
  return text;
}

Json log_json(const LogReport& log) {
  Json json{{"file", log.file},
            {"format", log.format},
            {"times", times_json(log.times)},
            {"warm_up", log.warm_up},
            {"left_out", log.apart},
            {"left_out_every", or_null(log.apart_every)},
            {"skipped", log.skipped},
            {"nans", log.nans},
            {"allocator_retries", log.retries},
            {"flops_per_gpu", or_null(log.flops)},
            {"own_flops_per_gpu", log.own_flops.value()},
            {"allocated_bytes", or_null(log.allocated)},
            {"reserved_bytes", or_null(log.reserved)},
            {"lines_not_understood", log.not_understood}};
  if (const auto& change = log.change) {
    json["change"] = {{"step", change->step},
                      {"before_s", change->before.value()},
                      {"after_s", change->after.value()},
                      {"sudden", change->sudden}};
  }
  return json;
}

std::string profile_text(const ProfileReport& profile) {
  if (profile.times) return times_text(profile.file, *profile.times);
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
  if (profile.times) json["times"] = times_json(*profile.times);
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
  for (const std::string& advice : report.advice) text += fmt::format("hint: {}\n", advice);
  if (report.log) text += "\n" + log_text(*report.log, report.plan.peak);
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
  document["advice"] = report.advice;
  if (report.log) document["log"] = log_json(*report.log);
  if (report.profile) document["profile"] = profile_json(*report.profile);
  // Lines are the causes.
  return render_answer({format == Format::Json ? document : causes}, format,
                       [&] { return table_text(report, columns); });
}

}  // namespace plansearch
