// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/fit_profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <span>
#include <utility>

#include "answer/diagnose.hpp"
#include "answer/make_report.hpp"
#include "base/ranges.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/degree_table.hpp"
#include "question/logged_plan.hpp"

namespace plansearch {
namespace {

namespace fs = std::filesystem;

std::vector<RunRecord> read_table(const std::string& path, const ShippedData& data) {
  const io::CsvTable table = io::CsvTable::read(path);
  if (recognise_table(table) != TableKind::Runs) {
    table.fail_header("not a table of runs",
                      "a fit reads measured steps: hw, gpus, model, global_batch, micro_batch, "
                      "step_time_s and the degrees that are not 1");
  }
  if (table.rows().empty()) {
    table.fail_header("the table has a header but no rows", "add one line per measured run");
  }
  TableProblems problems;
  std::vector<RunRecord> runs = read_runs(
      table, [&](std::string_view name) { return data.model(name).description; }, problems);
  problems.refuse_any();
  return runs;
}

/// Values that rows differ in although a factor is for one of them.
void refuse_mixed(const char* what, const std::set<std::string>& values) {
  if (values.size() < 2) return;
  throw FitRefusal{fmt::format("the runs mix {}: {}", what, fmt::join(values, ", ")),
                   fmt::format("fit a profile to the runs of one {} at a time", what)};
}

/// The accelerator of a row's profile, or the name where no profile has it.
std::string accelerator_of(const RunRecord& run, const fs::path& table, const ShippedData& data) {
  const fs::path beside = table.parent_path() / run.hardware;
  std::error_code error;
  const bool is_file = fs::is_regular_file(beside, error);
  return data.cluster(is_file ? beside.string() : run.hardware).accelerator.name;
}

void refuse_contradiction(std::initializer_list<std::span<const FitRun>> all,
                          const std::set<std::string>& accelerators, const Cluster& base) {
  refuse_mixed("accelerator", accelerators);
  if (!accelerators.empty() && *accelerators.begin() != base.accelerator.name) {
    throw FitRefusal{fmt::format("the runs are on {}, --base {} has {}", *accelerators.begin(),
                                 base.name, base.accelerator.name),
                     "name the profile of the machine that the runs are from with --base"};
  }
  std::map<const char*, std::set<std::string>> seen;
  for (const std::span<const FitRun> runs : all) {
    for (const FitRun& fit : runs) {
      seen["machine"].insert(fit.run.hardware);
      seen["framework"].insert(fit.run.framework);
      seen["precision"].insert(fit.run.question.precision.value_or("bf16"));
      seen["implementation"].insert(fit.run.cell("implementation"));
    }
  }
  for (const auto& [what, values] : seen) refuse_mixed(what, values);
}

/// Columns that say what was measured or where it stands, not how a run differs.
bool is_remark(std::string_view column) {
  static const std::set<std::string_view> kRemarks{
      "id",       "source",   "locator", "note", "step_time_s", "peak_mem_gib",
      "mem_kind", "mem_rank", "oom",     "site", "known"};
  return kRemarks.contains(column);
}

double squares_about_mean(const std::vector<double>& values) {
  double mean = 0.0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  double sum = 0.0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

/// The plan of the log of this number.
std::string plan_of_log(const FitSources& sources, std::size_t log) {
  const auto& plans = sources.plans;
  if (plans.empty()) return {};
  if (plans.size() != 1 && plans.size() != sources.logs.size()) {
    throw InputError({}, fmt::format("{} plans for {} logs", plans.size(), sources.logs.size()),
                     "--plan once for all logs, once for each in their order, or not where they "
                     "print their arguments");
  }
  return plans.size() == 1 ? plans.front() : plans[log];
}

/// The run of a log, priced on the machine as it is.
FitRun run_of_log(const FitSources& sources, std::size_t number, const Cluster& machine,
                  std::vector<std::string>& unused) {
  const std::string& log = sources.logs[number];
  if (sources.base.empty()) {
    throw InputError({log, 0, 0}, "a log says nothing of the machine: --base is missing",
                     "name a profile that is like it with --base");
  }
  ProblemRequest typed;
  typed.site = kTunedSite;
  typed.hardware = sources.base;
  std::vector<std::string> notes;
  const std::string plan = plan_of_log(sources, number);
  const PlanRequest asked = plan_of_run(typed, plan, log, notes);
  if (asked.request.model.empty()) {
    throw InputError({log, 0, 0}, "the log prints no arguments that say its plan and its network",
                     "--plan PLAN, of plansearch predict --write-plan or plansearch import");
  }
  ProblemFiles files = read_problem_files(asked.request);
  files.cluster = std::make_shared<const Cluster>(machine);
  const ResolvedPlan given = resolve_plan(asked, files);
  const SearchReport priced = make_prediction(given);
  FitRun fit{.place = fs::path(log).filename().string(), .run = {}, .predicted = {}};
  const QuestionReport& question = priced.question;
  fit.run.hardware = sources.base;
  fit.run.framework = question.framework;
  fit.run.model = question.model;
  fit.run.gpus = question.gpus;
  fit.run.question = given.asked.request;
  fit.run.question.precision = to_text(given.problem.precision);
  fit.step = priced.plans.front().estimate.step;
  fit.predicted = fit.step.total();
  for (const DegreeRow& row : degree_table())
    fit.run.cells[std::string(row.key)] =
        fmt::format("{}", row.get(priced.plans.front().plan.degrees));
  if (const auto read = read_run_log(log, question)) {
    fit.run.step_time = read->times.median;
    fit.log = std::log(*fit.run.step_time / fit.predicted);
  } else {
    unused.push_back(fit.place + ": the run ran out of memory");
  }
  return fit;
}

}  // namespace

FitRuns read_fit_runs(const FitSources& sources, const Cluster& base, const ShippedData& data,
                      int threads) {
  FitRuns found;
  std::set<std::string> accelerators;
  std::vector<FitRun> all;
  for (const std::string& table : sources.tables) {
    for (RunRecord& run : read_table(table, data)) {
      if (!run.hardware.empty()) accelerators.insert(accelerator_of(run, table, data));
      const std::string place = fmt::format("{} {}", fs::path(table).filename().string(), run.id);
      all.push_back({.place = place, .run = std::move(run), .predicted = {}});
    }
  }
  Cluster machine = base;
  machine.site.reset();
  std::vector<FitRun> logged;
  for (std::size_t log = 0; log < sources.logs.size(); ++log)
    logged.push_back(run_of_log(sources, log, machine, found.unused));
  refuse_contradiction({all, logged}, accelerators, base);
  const ProfileFinder finder{[&](std::string_view) { return machine; },
                             [&](std::string_view name) { return data.framework(name); }};
  const ArchitectureTable architectures = shipped_architectures(data);
  std::vector<RunRecord> runs = transformed(all, &FitRun::run);
  const std::vector<PredictedRun> rows = predict_runs(runs, architectures, finder, threads);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [run, predicted] = rows[i];
    if (!rows[i].has_both_times()) {
      const std::string& why = predicted.reason;
      found.unused.push_back(
          fmt::format("{}: {}", all[i].place, why.empty() ? "no measured step time" : why));
      continue;
    }
    all[i].predicted = *predicted.tuned;
    all[i].log = std::log(*run.step_time / all[i].predicted);
    all[i].step = *predicted.parts;
    found.runs.push_back(std::move(all[i]));
  }
  for (FitRun& run : logged) {
    if (run.run.step_time) found.runs.push_back(std::move(run));
  }
  if (!found.runs.empty()) {
    found.framework = found.runs.front().run.framework;
    found.precision = found.runs.front().run.question.precision.value_or("");
  }
  return found;
}

std::string separating_column(const std::vector<FitRun>& runs) {
  std::vector<double> logs = transformed(runs, &FitRun::log);
  const auto count = static_cast<double>(runs.size());
  const double all = squares_about_mean(logs) / (count - 1.0);
  double best = 0.3;  // of the variance: less does not separate
  std::string text;
  for (const auto& [column, unused] : runs.front().run.cells) {
    if (is_remark(column)) continue;
    std::map<std::string, std::vector<double>> groups;
    for (const FitRun& fit : runs) groups[fit.run.cell(column)].push_back(fit.log);
    if (groups.size() < 2 || groups.size() >= runs.size()) continue;
    double within = 0.0;
    for (const auto& [cell, values] : groups) within += squares_about_mean(values);
    const double left = within / (count - static_cast<double>(groups.size()));
    if (all <= 0.0 || 1.0 - left / all <= best) continue;
    best = 1.0 - left / all;
    std::vector<std::string> parts;
    for (const auto& [cell, values] : groups) {
      parts.push_back(fmt::format("x{:.2f} at {} {}", std::exp(median(values)), column,
                                  cell.empty() ? "(empty)" : cell));
    }
    text = fmt::format("column {} separates the runs: {}", column, fmt::join(parts, ", "));
  }
  return text;
}

}  // namespace plansearch
