// SPDX-License-Identifier: Apache-2.0
// The command line as plain values. Reading files and making sense of them comes later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace plansearch::cli {

enum class Command { Search, Predict, Validate, Explain, List, Schedule, Bench, Completion };

/// Degrees as typed; absent ones are searched, or take their defaults in `predict`.
struct DegreeOptions {
  std::optional<int> dp, pp, vpp, cp, ep, etp, tp, tp_x, tp_y, tp_z;
  std::optional<int> zero, shard_group, micro_batch;
  std::optional<std::string> cp_kind, recompute, schedule;
  std::optional<int> sp;
};

/// What `plansearch schedule` asks: durations as typed, of one device-stage.
struct ScheduleQuestion {
  std::string name;
  std::optional<int> stages, micro_batches, chunks, group;
  std::string times;
  std::string p2p = "0";
};

struct Options {
  Command command = Command::Search;

  std::string hardware;
  std::string model;
  std::string plan;      ///< --plan PLAN or the argument of explain
  std::string argument;  ///< TABLE.csv, what to list, which shell
  std::optional<int> gpus;
  std::optional<int> nodes;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> seq_len;
  std::optional<std::string> precision;
  std::optional<std::string> optimizer;
  std::optional<std::string> attention;
  std::string framework;
  std::string target;
  std::string space;
  DegreeOptions degrees;
  std::optional<std::string> rank_order;
  std::optional<std::string> overlap;

  std::size_t top = 10;
  std::string format = "table";
  std::string out;
  int threads = 0;  ///< 0: all cores
  std::optional<double> time_limit_s;
  std::optional<std::string> mem_reserve;
  bool exhaustive = false;
  bool quiet = false;
  std::string color = "auto";

  std::vector<std::string> group_by;  ///< validate --by
  std::string suspects;               ///< validate --suspect
  double min_mfu = 0.0;               ///< validate --min-mfu
  ScheduleQuestion schedule;
};

inline constexpr const char* kVersion = "0.1.0";

/// The whole command line; callbacks set `options`. Kept apart from parsing so that completion
/// scripts are generated from the same tree.
void build_command_line(CLI::App& app, Options& options);

}  // namespace plansearch::cli
