// SPDX-License-Identifier: Apache-2.0
#include "measure/tune/tune.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "answer/diagnose.hpp"
#include "answer/make_report.hpp"
#include "base/names.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "evaluate/answer/interval.hpp"
#include "io/document/file.hpp"
#include "io/tables/csv.hpp"
#include "measure/tune/trial_choice.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "question/logged_plan.hpp"
#include "report/columns.hpp"
#include "report/plan_cells.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// Share of a step below which a trial is not worth its time.
constexpr double kWorthwhile = 0.003;
/// Share of a step by which a plan may be faster than the one that is called best.
constexpr double kAsGood = 0.01;
constexpr const char* kOutOfMemory = "oom";

/// A plan that may be tried.
struct Candidate {
  ResolvedPlan given;
  PlanReport plan;

  [[nodiscard]] Seconds step() const { return plan.estimate.step.total(); }
  [[nodiscard]] Bytes memory() const { return plan.estimate.memory.total(); }
};

struct Trial {
  std::size_t number = 0;
  std::size_t rank = 0;  ///< of the plan in plans.json, from 1
  std::string target{};
  std::string measured{};
  std::optional<Seconds> step{};
  bool out_of_memory = false;
};

std::string script_name(std::size_t trial) {
  return fmt::format("trial-{}.sh", trial);
}
std::string log_name(std::size_t trial) {
  return fmt::format("trial-{}.log", trial);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// The script of a Slurm job array: task N runs trial N.
constexpr const char* kArrayScript = "trials.sbatch";
constexpr std::string_view kDirective = "#SBATCH --";
constexpr std::string_view kTasks = "#SBATCH --array=";

/// Asks for what the script of a trial asks for.
std::string array_script(const std::string& trial, const std::string& tasks) {
  std::string text =
      fmt::format("#!/bin/bash\n{}job-name=plansearch-trials\n{}{}\n{}output=trial-%a.log\n",
                  kDirective, kTasks, tasks, kDirective);
  for (const std::string& line : split(trial, "\n")) {
    const bool own = line.find("--job-name=") != line.npos || line.find("--output=") != line.npos;
    if (line.starts_with(kDirective) && !own) text += line + "\n";
  }
  return text +
         "# Task N runs trial N, one task at a time. Submit it from its folder.\n"
         "set -euo pipefail\n"
         "exec bash \"trial-$SLURM_ARRAY_TASK_ID.sh\" \"$@\"\n";
}

/// A trial beside its plan, as it is shown and written.
struct TrialRow {
  Trial trial;
  const Candidate* candidate;
};

const Columns<TrialRow>& trial_columns() {
  using Row = const TrialRow&;
  static const Columns<TrialRow> kColumns{
      {"trial", [](Row r) { return r.trial.number; }, {"trial"}},
      {"rank", [](Row r) { return r.trial.rank; }, {"rank"}},
      {"plan", [](Row r) { return short_plan(r.candidate->plan.plan); }, {"plan", Align::Left}},
      {"target", [](Row r) { return r.trial.target; }},
      {"script", [](Row r) { return script_name(r.trial.number); }, {"script", Align::Left}},
      {"expected_s", [](Row r) { return r.candidate->step(); }, {"expected"}},
      {"expected_memory_gib",
       [](Row r) { return r.candidate->memory().value() / 0x1p30; },
       {"memory"},
       [](Row r) { return r.candidate->memory(); }},
      {"measured",
       [](Row r) { return r.trial.measured; },
       {"measured"},
       [](Row r) {
         return r.trial.step ? Cell(*r.trial.step)
                             : Cell(r.trial.out_of_memory ? "out of memory" : "-");
       }},
      {"", {}, {"measured / expected"}, [](Row r) {
         return r.trial.step ? fmt::format("{:.3f}", *r.trial.step / r.candidate->step()) : "-";
       }}};
  return kColumns;
}

class TrialFolder {
 public:
  explicit TrialFolder(const TuneRequest& request) : request_(request) {
    read_plans();
    read_trials();
  }

  [[nodiscard]] std::string advance() {
    believe();
    const std::size_t before = trials_.size();
    add_trials();
    write();
    return request_.format == Format::Json ? json_text(json(before)) + "\n" : text(before);
  }

 private:
  [[nodiscard]] std::string file(const std::string& name) const {
    return (request_.folder / name).string();
  }

  void read_plans() {
    const SavedPlans plans(file("plans.json"));
    std::optional<ProblemFiles> files;
    if (plans.ranks() == 0) {
      throw InputError({file("plans.json"), 0, 0}, "no plans are in it",
                       "plansearch tune ... --out FOLDER writes it");
    }
    for (std::size_t rank = 1; rank <= plans.ranks(); ++rank) {
      const PlanRequest asked = plans.complete({}, rank);
      ResolvedPlan given = files ? resolve_plan(asked, *files) : resolve_plan(asked);
      if (!files) files = given.asked.files;
      SearchReport price = make_prediction(given);
      if (rank == 1) question_ = price.question;
      candidates_.push_back({std::move(given), std::move(price.plans.front())});
    }
  }

  void read_trials() {
    if (!is_there(file("trials.csv"))) return;
    const io::CsvTable table = io::CsvTable::read(file("trials.csv"));
    for (const io::CsvRow& row : table.rows()) {
      Trial trial{trials_.size() + 1};
      const auto rank = table.integer(row, "rank", 1);
      if (!rank || *rank > static_cast<std::int64_t>(candidates_.size())) {
        table.fail(row, "rank", fmt::format("plans.json has ranks 1 to {}", candidates_.size()),
                   "rows belong to the plans.json beside them");
      }
      trial.rank = static_cast<std::size_t>(*rank);
      trial.target = table.text(row, "target");
      trial.measured = table.text(row, "measured");
      if (trial.measured.empty()) trial.measured = measured_in_log(trial);
      trial.out_of_memory = canonical_name(trial.measured) == kOutOfMemory;
      if (!trial.measured.empty() && !trial.out_of_memory) {
        try {
          Measurement measured;
          read_pace(trial.measured, measured);
          trial.step = step_of(measured, question_, candidates_[trial.rank - 1].plan);
        } catch (const InputError& wrong) {
          table.fail(row, "measured",
                     fmt::format("'{}' is neither a step time, a pace nor oom", trial.measured),
                     wrong.hint());
        }
      }
      trials_.push_back(std::move(trial));
    }
  }

  /// The cell `measured` as the log beside the script says it; empty where there is none yet.
  [[nodiscard]] std::string measured_in_log(const Trial& trial) const {
    const std::string log = file(log_name(trial.number));
    if (!is_there(log)) return {};
    const Candidate& own = candidates_[trial.rank - 1];
    try {
      refuse_other_plan(log, own);
      const auto read = read_run_log(log, question_);
      return read ? fmt::format("{:.6g}s", read->times.median.value()) : kOutOfMemory;
    } catch (const InputError& wrong) {
      throw InputError(wrong.where(), wrong.what(),
                       fmt::format("run {} again, write its step time or oom into column measured "
                                   "of {}, or move the log away",
                                   script_name(trial.number), file("trials.csv")));
    }
  }

  /// The log prints the arguments of a plan with other degrees.
  void refuse_other_plan(const std::string& log, const Candidate& own) const {
    ProblemRequest typed;
    typed.hardware = own.given.asked.request.hardware;
    typed.model = own.given.asked.request.model;
    std::vector<std::string> notes;
    const auto logged = plan_in_log(log, typed, notes);
    if (!logged) return;
    for (const DegreeRow& row : degree_table()) {
      constexpr std::array kTold{Degree::TensorOut, Degree::Pipeline, Degree::Context,
                                 Degree::Expert, Degree::MicroBatch};
      const auto said = logged->request.degrees.get(row.degree);
      const int planned = row.get(own.plan.plan.degrees);
      if (!said || *said == planned || !contains(kTold, row.degree)) continue;
      throw InputError({log, 0, 0},
                       fmt::format("the log is of another plan: {} {}, the trial has {}", row.key,
                                   *said, planned));
    }
  }

  void believe() {
    std::vector<TrialPlan> plans;
    for (const Candidate& one : candidates_)
      plans.push_back({one.plan.estimate.step, one.plan.plan.degrees, one.plan.memory_risk});
    const ErrorModel errors = error_model(candidates_.front().given.problem);
    beliefs_.emplace(plans, TrialErrors{.level = std::hypot(errors.site, errors.framework)});
    for (const Trial& trial : trials_) {
      if (trial.out_of_memory) {
        beliefs_->ran_out(trial.rank - 1);
      } else if (trial.step) {
        beliefs_->see(trial.rank - 1, *trial.step);
      } else {
        beliefs_->await(trial.rank - 1);
      }
    }
    if (beliefs_->risk(beliefs_->leader()) < 1.0) return;
    throw InputError({file("trials.csv"), 0, 0}, "every plan ran out of memory",
                     "search again with a larger --mem-reserve, into another folder");
  }

  [[nodiscard]] std::vector<bool> open() const {
    std::vector<bool> open(candidates_.size(), true);
    for (const Trial& trial : trials_) open[trial.rank - 1] = false;
    return open;
  }

  /// The target of all trials; where none is named, the program that the plans are priced as.
  [[nodiscard]] std::string target() const {
    if (!request_.scripts.target.empty()) return request_.scripts.target;
    if (!trials_.empty()) return trials_.front().target;
    return TargetFilter({}, question_.framework).name();
  }

  [[nodiscard]] std::size_t pending() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        trials_, [](const Trial& trial) { return !trial.step && !trial.out_of_memory; }));
  }

  void add_trials() {
    if (request_.if_worthwhile && pending() > 0) return;
    for (const std::size_t plan : choose_trials(*beliefs_, open(), request_.trials)) {
      gain_ = std::max(gain_, beliefs_->gain(plan));
      if (request_.if_worthwhile && gain_ < kWorthwhile) return;
      trials_.push_back({trials_.size() + 1, plan + 1, target()});
    }
  }

  void write() const {
    std::string table;
    for (const TrialRow& row : rows()) {
      const Json cells = object_of(trial_columns(), row);
      if (table.empty()) table = csv_header(cells);
      table += csv_line(cells);
      const std::string script = file(script_name(row.trial.number));
      if (is_there(script)) continue;
      ExportOptions options = request_.scripts;
      options.target = row.trial.target;
      options.launcher = launcher();
      if (options.launcher == "slurm")
        options.sbatch.push_back("output=" + log_name(row.trial.number));
      const auto exported = export_question(row.candidate->given, options, request_.version);
      if (const auto* refused = std::get_if<RefusedPlan>(&exported)) {
        throw InputError({}, refused->message);
      }
      io::write_file(script, std::get<ExportResult>(exported).text);
    }
    io::write_file(file("trials.csv"), table);
    if (launcher() == "slurm" && pending() > 0) write_array();
  }

  /// As asked for; else the kind of the scripts that are there.
  [[nodiscard]] std::string launcher() const {
    if (!request_.scripts.launcher.empty()) return request_.scripts.launcher;
    return is_there(file(kArrayScript)) ? "slurm" : "torchrun";
  }

  /// In an older one only the numbers of the tasks change: lines that the user has added stay.
  void write_array() const {
    std::vector<std::size_t> open;
    for (const Trial& trial : trials_)
      if (!trial.step && !trial.out_of_memory) open.push_back(trial.number);
    const std::string tasks = fmt::format("{}%1", fmt::join(open, ","));
    const std::string array = file(kArrayScript);
    if (!is_there(array)) {
      const std::string first = io::read_file(file(script_name(open.front())));
      return io::write_file(array, array_script(first, tasks));
    }
    std::string text = io::read_file(array);
    const std::size_t at = text.find(kTasks);
    if (at == std::string::npos) return;
    const std::size_t begin = at + kTasks.size();
    text.replace(begin, std::min(text.find('\n', begin), text.size()) - begin, tasks);
    io::write_file(array, text);
  }

  [[nodiscard]] std::vector<TrialRow> rows() const {
    std::vector<TrialRow> rows;
    for (const Trial& trial : trials_) rows.push_back({trial, &candidates_[trial.rank - 1]});
    return rows;
  }

  [[nodiscard]] Json json(std::size_t before) const {
    const std::size_t leader = beliefs_->leader();
    return {{"schema", "plansearch/tune/v1"},
            {"trials", objects_of(trial_columns(), rows())},
            {"new_trials", trials_.size() - before},
            {"leader",
             {{"rank", leader + 1},
              {"step_time_s", beliefs_->expected(leader).value()},
              {"deviation", beliefs_->deviation(leader)},
              {"probability_best", beliefs_->is_best(leader, kAsGood)},
              {"memory_risk", beliefs_->risk(leader)}}},
            {"gain_of_a_trial", gain_}};
  }

  [[nodiscard]] std::string text(std::size_t before) const {
    std::string text = table_of(trial_columns(), rows()).text(request_.columns) + "\n";
    const auto line = [&](const std::string& words) {
      text += wrapped(words, request_.columns) + "\n";
    };
    const std::size_t leader = beliefs_->leader();
    const std::size_t rank = leader + 1;
    const bool tried =
        std::ranges::any_of(trials_, [&](const Trial& t) { return t.rank == rank && t.step; });
    line(fmt::format(
        "leader: rank {}, {}, {} {}; none of {} plans is more than {:.0f} % faster with a "
        "probability of {:.0f} %",
        rank, short_plan(candidates_[rank - 1].plan.plan), to_text(beliefs_->expected(leader)),
        tried ? "measured" : "expected", candidates_.size(), 100.0 * kAsGood,
        100.0 * beliefs_->is_best(leader, kAsGood)));
    if (pending() == 0) {
      line(fmt::format("one more trial saves {:.2g} % of a step on average: not worth its time",
                       100.0 * gain_));
      return text;
    }
    std::vector<std::string> scripts;
    for (std::size_t i = before; i < trials_.size(); ++i) {
      scripts.push_back(script_name(i + 1));
    }
    if (!scripts.empty()) {
      line(fmt::format("new: {}; such a trial saves {:.2g} % of a step on average",
                       fmt::join(scripts, ", "), 100.0 * gain_));
    }
    const std::string run =
        launcher() == "slurm"
            ? fmt::format("run them as one job array (cd {} && sbatch {}: each writes its log)",
                          request_.folder.string(), kArrayScript)
            : fmt::format("keep what each prints beside it (bash trial-1.sh > {} 2>&1)",
                          file(log_name(1)));
    line(
        fmt::format("{}, or write into column measured of {} what a step takes (18.9s, \"8500 "
                    "tokens/s\") or oom; then: plansearch tune --continue {}",
                    run, file("trials.csv"), request_.folder.string()));
    return text;
  }

  const TuneRequest& request_;
  QuestionReport question_;
  std::vector<Candidate> candidates_;
  std::vector<Trial> trials_;
  std::optional<TrialBeliefs> beliefs_;
  double gain_ = 0.0;  ///< of the best new trial, a share of a step
};

}  // namespace

std::string advance_trials(const TuneRequest& request) {
  return TrialFolder(request).advance();
}

}  // namespace plansearch
