// SPDX-License-Identifier: Apache-2.0
// The command line as plain values. Reading files and making sense of them comes later.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "answer/capacity.hpp"
#include "answer/compare_questions.hpp"
#include "answer/schedule_question.hpp"
#include "plansearch/load_problem.hpp"

namespace CLI {
class App;
}

namespace plansearch::cli {

struct Caller;

struct CommandRow;
struct Options;
using Command = std::function<int(const Options&)>;

/// The question and how to answer it.
struct Options : ProblemRequest {
  const CommandRow* row = nullptr;  ///< the command (command_row.hpp)
  Command run;
  Caller* caller = nullptr;  ///< another program takes the answer (parse.hpp)

  std::string plan;                ///< --plan PLAN or the argument of explain and export
  std::string constraints;         ///< search, predict --constraints
  std::string rival;               ///< the second argument of explain
  std::vector<std::string> plans;  ///< the arguments of compare
  std::string write_plan;          ///< predict --write-plan
  std::string write_stages;        ///< predict --write-stages
  std::string write_primitives;    ///< predict --write-primitives
  std::string trace;               ///< --trace
  std::string page;                ///< search --report
  std::vector<std::string> plots;  ///< --plot NAME=FILE
  std::string measured;            ///< diagnose --measured
  std::string log;                 ///< diagnose --log
  std::string profile;             ///< diagnose --profile
  std::optional<double> profile_steps;
  bool force = false;               ///< --force: however large the trace
  bool timeline = false;            ///< explain --timeline
  bool sensitivity = false;         ///< explain --sensitivity
  std::string shown;                ///< whose file to show
  bool graph = false;               ///< show the network
  std::string argument;             ///< TABLE.csv, what to list, which shell
  std::string to;                   ///< export --to
  std::string launch;               ///< export --launch
  std::vector<std::string> sbatch;  ///< export --sbatch OPTION=VALUE
  std::string image;                ///< export --image
  std::string checkpoints;          ///< export --checkpoints
  int save_every = 500;             ///< export --save-every
  std::string shard;                ///< sweep --shard
  std::vector<std::string> known;   ///< sweep --known

  std::size_t top = 10;
  std::string format = "table";
  std::string out;
  int threads = 0;  ///< 0: all cores
  std::optional<double> time_limit_s;
  std::optional<std::string> memory_limit;
  bool exhaustive = false;
  bool pareto = false;
  bool beyond = false;     ///< list what the framework does not run
  bool no_beyond = false;  ///< do not even look for it
  bool recipes = false;    ///< list the published plans of the question
  std::string all;         ///< file for every priced plan
  bool quiet = false;
  std::string color = "auto";

  ScheduleQuestion schedule;
  OrderingQuestion ordering;  ///< schedule --blocks
  CapacityQuestion capacity;
  FitsQuestion fits;
};

/// The kinds of files that `show` shows.
inline constexpr std::array<std::string_view, 3> kShown{"hw", "model", "framework"};

/// The whole command line; callbacks set `options`. Kept apart from parsing so that completion
/// scripts are generated from the same tree.
void build_command_line(CLI::App& app, Options& options);

}  // namespace plansearch::cli
