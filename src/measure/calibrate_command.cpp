// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/command_row.hpp"
#include "cli/commands.hpp"
#include "cli/option_kinds.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "measure/calibrate/probe.hpp"
#include "measure/calibrate/processes/processes.hpp"
#include "measure/calibrate/session.hpp"
#include "plansearch/error.hpp"
#include "report/columns.hpp"

namespace plansearch::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Places and sizes of the measurement.
struct CalibrateOptions {
  std::string name = "cpu";  ///< of the back end
  calibrate::BackendOptions backend;
  calibrate::SessionRequest session;
  std::vector<std::string> models;
  bool list = false;
  bool dry_run = false;
  std::string budget;
  std::string check;  ///< a profile
};

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

calibrate::BackendOptions backend_options(const Options& options, const CalibrateOptions& own) {
  constexpr double kMost = 4.0 * (1ULL << 30U);
  constexpr double kMostQuick = 512.0 * (1ULL << 20U);
  constexpr double kShare = 0.25;  // of the memory limit, for the operands of all sets
  calibrate::BackendOptions backend = own.backend;
  backend.seed = own.session.seed;
  backend.threads = options.threads;
  backend.on_loss = [options](const std::string& who) { end_after_loss(who, options); };
  const auto limit = stop_limits(options).memory;
  backend.most_bytes = std::min(own.session.quick ? kMostQuick : kMost,
                                kShare * limit.value_or(Bytes(kMost)).value());
  return backend;
}

calibrate::SessionRequest request_of(const Options& options, const CalibrateOptions& own,
                                     const calibrate::BackendOptions& backend) {
  constexpr double kQuick = 120.0;  // seconds, on a machine that is busy besides
  calibrate::SessionRequest request = own.session;
  request.out = options.out;
  request.shapes = calibrate::model_shapes(own.models, shipped_data());
  if (request.quick) request.budget_s = kQuick;
  if (!own.budget.empty()) request.budget_s = calibrate::parse_budget(own.budget);
  request.most_bytes = backend.most_bytes;
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
int check(calibrate::Backend& backend, calibrate::SessionRequest request, const std::string& name,
          const Options& options) {
  constexpr double kMinute = 60.0;
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
  const bool same = slow.empty() && std::ranges::none_of(all, [](const calibrate::Drift& drift) {
                      return drift.drifted();
                    });
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

int run_calibrate(const Options& options, const CalibrateOptions& own) {
  if (own.list) {
    Output(options).write(listing());
    return kExitOk;
  }
  const calibrate::BackendOptions backend_opts = backend_options(options, own);
  try {
    const auto backend = calibrate::make_backend(own.name, backend_opts, shipped_data());
    const calibrate::SessionRequest request = request_of(options, own, backend_opts);
    if (!own.check.empty()) return check(*backend, request, own.check, options);
    if (!own.dry_run) return measure(*backend, request, options);
    Output(options).write(
        plan_text(*backend, calibrate::plan_session(*backend, request), request.quick));
    return kExitOk;
  } catch (const calibrate::ProcessLost& lost) {
    end_after_loss(lost.reason, options);
  } catch (const calibrate::Unmeasurable& missing) {
    print_error(fmt::format("error: {}: {}{}{}", own.name, missing.reason,
                            missing.remedy.empty() ? "" : "\nhint: ", missing.remedy),
                options);
    return kExitInfeasible;
  }
}

void positive_time(CLI::Option* option) {
  option->check([](const std::string& text) {
    const auto time = calibrate::parse_budget(text);
    return time ? std::string() : fmt::format("'{}' is not a time such as 90s or 2m", text);
  });
}

void add_calibrate(CLI::App& app, Options& /*shared*/, CalibrateOptions& c) {
  Choices names;
  for (const calibrate::BackendRow& row : calibrate::backends()) names.emplace_back(row.name);
  restrict_to(app.add_option("--backend", c.name, "where probes run"), names);
  app.add_option("--models", c.models, "the products of these models too")
      ->delimiter(',')
      ->type_name("MODEL");
  Choices probes;
  for (const calibrate::Probe& probe : calibrate::probes()) probes.emplace_back(probe.name);
  restrict_to(
      app.add_option("--only", c.session.only, "these probes and no others")->delimiter(','),
      probes);
  app.add_flag("--list", c.list, "list probes and back ends, measure nothing");
  app.add_flag("--dry-run", c.dry_run, "list the points in their order, measure nothing");
  app.add_flag("--quick", c.session.quick, "fewer and smaller points, shorter blocks");
  positive_time(
      add_typed(app, "TIME", "--budget", c.budget, "as many points as this time has room for"));
  add_typed(app, "HARDWARE", "--check", c.check,
            "a minute's worth of points against this profile: what has drifted");
  add_typed(app, "TABLE", "--table", c.backend.tables,
            "replay: CSV of products or collectives, as for validate");
  add_typed(app, "HARDWARE", "--truth", c.backend.truth,
            "synthetic: the profile to sample (default: dgx-h100); replay: the machine of the "
            "rows");
  add_typed(app, "SHARE", "--noise", c.backend.noise,
            "synthetic: standard deviation of the time of a block, relative")
      ->check(CLI::Range(0.0, 1.0).description(""));
  add_typed(app, "SHARE", "--wild", c.backend.wild,
            "synthetic: share of points three to ten times too slow")
      ->check(CLI::Range(0.0, 1.0).description(""));
  add_number(app, "--seed", c.session.seed, "of noise and order", {0, 1'000'000'000});
}

}  // namespace

Command bind_calibrate(CLI::App& app, Options& options) {
  return bind_own<CalibrateOptions, run_calibrate, add_calibrate>(app, options);
}

}  // namespace plansearch::cli
