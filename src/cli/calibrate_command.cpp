// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "calibrate/drift.hpp"
#include "calibrate/probe.hpp"
#include "calibrate/processes/processes.hpp"
#include "calibrate/session.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "cli/stopping.hpp"
#include "plansearch/error.hpp"
#include "report/json_text.hpp"

namespace plansearch::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string listing() {
  std::string text = "probes\n";
  for (const calibrate::Probe& probe : calibrate::probes()) {
    text += fmt::format("  {:<14} {}\n", probe.name, probe.help);
  }
  text += "back ends\n";
  for (const calibrate::BackendRow& row : calibrate::backends()) {
    text += fmt::format("  {:<14} {}\n", row.name, row.help);
  }
  return text;
}

/// From any thread: another may be inside a library that waits for the lost process.
[[noreturn]] void end_after_loss(const std::string& who, const Options& options) {
  static std::mutex once;  // never unlocked: the first tells, and all end with it
  once.lock();
  print_error(fmt::format("error: {}\nhint: the samples before it are kept; the same command goes "
                          "on",
                          who),
              options);
  ::_exit(kExitInfeasible);
}

calibrate::BackendOptions backend_options(const Options& options) {
  constexpr double kMost = 4.0 * (1ULL << 30U);
  constexpr double kMostQuick = 512.0 * (1ULL << 20U);
  constexpr double kShare = 0.25;  // of the memory limit, for the operands of all sets
  const CalibrateOptions& own = options.calibrate;
  calibrate::BackendOptions backend;
  backend.truth = own.truth;
  if (backend.truth.empty() && own.backend == "synthetic") backend.truth = "dgx-h100";
  backend.noise = own.noise;
  backend.wild = own.wild;
  backend.seed = own.seed;
  backend.tables = own.tables;
  backend.threads = options.threads;
  backend.on_loss = [options](const std::string& who) { end_after_loss(who, options); };
  const auto limit = stop_limits(options).memory;
  backend.most_bytes =
      std::min(own.quick ? kMostQuick : kMost, kShare * limit.value_or(Bytes(kMost)).value());
  return backend;
}

calibrate::SessionRequest request_of(const Options& options,
                                     const calibrate::BackendOptions& backend) {
  constexpr double kQuick = 120.0;  // seconds, on a machine that is busy besides
  const CalibrateOptions& own = options.calibrate;
  calibrate::SessionRequest request;
  request.out = options.out;
  request.only = own.only;
  request.shapes = calibrate::model_shapes(own.models, shipped_data());
  request.quick = own.quick;
  if (own.quick) request.budget_s = kQuick;
  if (!own.budget.empty()) request.budget_s = calibrate::parse_budget(own.budget);
  request.most_bytes = backend.most_bytes;
  request.seed = own.seed;
  request.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  return request;
}

std::string plan_text(const calibrate::Backend& backend, const calibrate::SessionPlan& plan,
                      bool quick) {
  std::string text;
  for (const calibrate::Point& point : plan.points) text += point.key() + "\n";
  for (const io::Sample& sample : plan.skipped) {
    text += fmt::format("{}: skipped: {}\n", sample.probe, sample.skipped);
  }
  return text +
         fmt::format("{} points, about {}\n", plan.points.size(),
                     to_text(Seconds(calibrate::estimated_seconds(backend, plan.points, quick))));
}

std::string summary_text(const calibrate::SessionSummary& summary, const Options& options) {
  std::string text = fmt::format("{}: {} of {} points: {} measured now, {} before", options.out,
                                 summary.known + summary.measured, summary.points, summary.measured,
                                 summary.known);
  if (summary.failed > 0) text += fmt::format(", {} failed", summary.failed);
  text += "\n";
  for (const io::Sample& sample : summary.skipped) {
    text += fmt::format("{}: skipped: {}\n", sample.probe, sample.skipped);
  }
  if (summary.stopped != StopReason::None) {
    text += fmt::format("{}: {} points are left; the same command goes on\n",
                        to_text(summary.stopped), summary.left);
  } else if (summary.left > 0) {
    text += fmt::format("the budget did not suffice for {} points; the same command goes on\n",
                        summary.left);
  }
  return text + fmt::format("next: plansearch fit {} --out mine.yaml\n", options.out);
}

std::string summary_json(const calibrate::SessionSummary& summary, const Options& options) {
  Json skipped = Json::object();
  for (const io::Sample& sample : summary.skipped) skipped[sample.probe] = sample.skipped;
  const Json answer{{"schema", "plansearch/calibrate/v1"},
                    {"out", options.out},
                    {"points", summary.points},
                    {"known", summary.known},
                    {"measured", summary.measured},
                    {"failed", summary.failed},
                    {"left", summary.left},
                    {"skipped", std::move(skipped)},
                    {"stopped", summary.stopped != StopReason::None}};
  return json_text(answer, 1) + "\n";
}

std::string drift_text(const std::vector<calibrate::Drift>& all,
                       const std::vector<calibrate::SlowRank>& slow) {
  std::string text;
  for (const calibrate::Drift& drift : all) {
    text += fmt::format("{:<32} {:>3} points, x{:.2f} of the profile (x{:.2f} when fitted){}\n",
                        drift.part, drift.points, drift.ratio, drift.expected,
                        drift.drifted() ? "  DRIFTED" : "");
  }
  for (const calibrate::SlowRank& rank : slow) {
    text += fmt::format("{:<32} {:>3} points, x{:.2f} of the middle rank  SLOW: rank {} ({})\n",
                        rank.part, rank.points, rank.ratio, rank.rank, rank.where);
  }
  return text;
}

std::string drift_json(const std::vector<calibrate::Drift>& all,
                       const std::vector<calibrate::SlowRank>& slow, const std::string& profile) {
  Json parts = Json::array();
  for (const calibrate::Drift& drift : all) {
    parts.push_back({{"part", drift.part},
                     {"points", drift.points},
                     {"ratio", drift.ratio},
                     {"expected", drift.expected},
                     {"drifted", drift.drifted()}});
  }
  Json ranks = Json::array();
  for (const calibrate::SlowRank& rank : slow) {
    ranks.push_back({{"part", rank.part},
                     {"rank", rank.rank},
                     {"where", rank.where},
                     {"points", rank.points},
                     {"ratio", rank.ratio}});
  }
  return json_text({{"schema", "plansearch/calibrate-check/v1"},
                    {"profile", profile},
                    {"parts", std::move(parts)},
                    {"slow_ranks", std::move(ranks)}},
                   1) +
         "\n";
}

/// Throws where the device measures no more; what was measured is kept.
void require_whole(const calibrate::SessionSummary& summary) {
  if (summary.broken.empty()) return;
  throw calibrate::Unmeasurable{
      "the device stopped after " + summary.broken,
      "samples are kept: the same command goes on with the next point; --only leaves probes out"};
}

/// Exit 3 where a class of times is not that of the profile.
int check(calibrate::Backend& backend, calibrate::SessionRequest request, const Options& options) {
  constexpr double kMinute = 60.0;
  const std::string& name = options.calibrate.check;
  const Cluster profile = shipped_data().cluster(name);
  if (!request.budget_s) request.budget_s = kMinute;
  const auto summary =
      calibrate::run_session(backend, request, [](const calibrate::SessionProgress&) {});
  if (summary.stopped != StopReason::None) return kExitInterrupted;
  require_whole(summary);
  const auto all = calibrate::drifts(backend.machine(), summary.samples, profile);
  const auto slow = calibrate::slow_ranks(backend.machine(), summary.samples);
  Options shown = options;
  shown.out.clear();
  if (backend.is_first()) {
    Output(shown).write(format_of(options) == Format::Json ? drift_json(all, slow, name)
                                                           : drift_text(all, slow));
  }
  const bool same =
      slow.empty() && std::none_of(all.begin(), all.end(),
                                   [](const calibrate::Drift& drift) { return drift.drifted(); });
  if (!same && backend.is_first()) {
    print_note("the machine has drifted from " + name + ": measure again, or look for the cause",
               options);
  }
  return same && !all.empty() ? kExitOk : kExitInfeasible;
}

/// The samples go to --out, the summary to standard output.
int measure(calibrate::Backend& backend, const calibrate::SessionRequest& request,
            const Options& options) {
  if (options.out.empty()) {
    throw InputError({}, "no file for the samples: --out is missing",
                     "name it with --out samples.jsonl");
  }
  Options shown = options;
  shown.out.clear();
  const Output output(shown);
  const Format format = format_of(options);
  if (format != Format::Table && format != Format::Json) {
    throw InputError({}, "calibrate answers as a table or as one JSON document",
                     "--format table or --format json");
  }
  Progress progress(options);
  if (backend.is_first()) progress.begin("measuring");
  const double begun = backend.now();
  const auto summary =
      calibrate::run_session(backend, request, [&](const calibrate::SessionProgress& state) {
        const double elapsed = backend.now() - begun;
        if (!backend.is_first()) return;
        SearchProgress bar;
        bar.share = elapsed / std::max(elapsed + state.seconds_left, 1e-9);
        progress.update(bar);
      });
  progress.clear();
  if (backend.is_first())
    output.write(format == Format::Json ? summary_json(summary, options)
                                        : summary_text(summary, options));
  if (summary.stopped != StopReason::None) return kExitInterrupted;
  require_whole(summary);
  return summary.known + summary.measured > 0 ? kExitOk : kExitInfeasible;
}

}  // namespace

int run_calibrate(const Options& options) {
  if (options.calibrate.list) {
    Output(options).write(listing());
    return kExitOk;
  }
  const calibrate::BackendOptions backend_opts = backend_options(options);
  try {
    const auto backend =
        calibrate::make_backend(options.calibrate.backend, backend_opts, shipped_data());
    const calibrate::SessionRequest request = request_of(options, backend_opts);
    if (!options.calibrate.check.empty()) return check(*backend, request, options);
    if (!options.calibrate.dry_run) return measure(*backend, request, options);
    Output(options).write(
        plan_text(*backend, calibrate::plan_session(*backend, request), options.calibrate.quick));
    return kExitOk;
  } catch (const calibrate::ProcessLost& lost) {
    end_after_loss(lost.reason, options);
  } catch (const calibrate::Unmeasurable& missing) {
    print_error(fmt::format("error: {}: {}{}{}", options.calibrate.backend, missing.reason,
                            missing.remedy.empty() ? "" : "\nhint: ", missing.remedy),
                options);
    return kExitInfeasible;
  }
}

}  // namespace plansearch::cli
