// SPDX-License-Identifier: Apache-2.0
// The command line as plain values. Reading files and making sense of them comes later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answer/capacity.hpp"
#include "answer/ordering_question.hpp"
#include "answer/schedule_question.hpp"
#include "plansearch/load_problem.hpp"

namespace CLI {
class App;
}

namespace plansearch::cli {

/// calibrate: what to measure, and where.
struct CalibrateOptions {
  std::string backend = "cpu";
  std::vector<std::string> models;
  std::vector<std::string> only;
  std::vector<std::string> tables;
  bool list = false;
  bool dry_run = false;
  bool quick = false;
  std::string budget;
  std::string check;  ///< a profile
  std::string truth;
  double noise = 0.03;
  double wild = 0.0;
  std::uint64_t seed = 1;
};

struct Caller;

/// The question and how to answer it.
struct Options : ProblemRequest {
  int (*run)(const Options&) = nullptr;  ///< the command (commands.hpp)
  Caller* caller = nullptr;              ///< another program takes the answer (in_process.hpp)

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
  std::string profile;             ///< diagnose --profile
  std::optional<double> profile_steps;
  bool force = false;                    ///< --force: however large the trace
  bool timeline = false;                 ///< explain --timeline
  bool sensitivity = false;              ///< explain --sensitivity
  std::string goal;                      ///< explain --step-time
  std::string shown;                     ///< whose file to show
  bool graph = false;                    ///< show the network
  std::string argument;                  ///< TABLE.csv, what to list, which shell
  std::string to;                        ///< export --to
  std::string launch;                    ///< export --launch
  std::vector<std::string> sbatch;       ///< export --sbatch OPTION=VALUE
  std::string image;                     ///< export --image
  std::string checkpoints;               ///< export --checkpoints
  int save_every = 500;                  ///< export --save-every
  std::string shard;                     ///< sweep --shard
  std::vector<std::string> known;        ///< sweep --known
  std::string from;                      ///< import --from
  std::vector<std::string> definitions;  ///< import --define NAME=VALUE
  std::string write_model;               ///< import --write-model

  std::size_t top = 10;
  std::string format = "table";
  std::string out;
  int threads = 0;  ///< 0: all cores
  std::optional<double> time_limit_s;
  std::optional<std::string> memory_limit;
  bool exhaustive = false;
  bool pareto = false;
  bool recipes = false;  ///< list the published plans of the question
  std::string all;       ///< file for every priced plan
  bool quiet = false;
  std::string color = "auto";

  std::vector<std::string> group_by;  ///< validate --by
  std::string suspects;               ///< validate --suspect
  double min_mfu = 0.0;               ///< validate --min-mfu
  std::string base;                   ///< fit --base
  std::string fresh;                  ///< fit --new
  std::string fit_plot;               ///< fit --plot
  ScheduleQuestion schedule;
  OrderingQuestion ordering;  ///< schedule --blocks
  CalibrateOptions calibrate;
  CapacityQuestion capacity;
};

/// The whole command line; callbacks set `options`. Kept apart from parsing so that completion
/// scripts are generated from the same tree.
void build_command_line(CLI::App& app, Options& options);

}  // namespace plansearch::cli
