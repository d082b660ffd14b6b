// SPDX-License-Identifier: Apache-2.0
// The answer of a search as plain data, and its views: table, JSON, JSON lines, CSV.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plansearch/plan_report.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// One setting of the effective configuration and who decided it.
struct SettingReport {
  std::string key;
  std::string value;
  std::string origin;  ///< flag | plan | model | assumed | framework | profile | default
};

/// The question, in words and numbers.
struct QuestionReport {
  std::string hardware;
  std::string accelerator;
  std::string model;
  std::int64_t parameters = 0;
  std::string framework;
  std::string framework_validation;  ///< the measured steps it was compared with; empty: none
  std::string precision;
  int gpus = 1;
  std::string beyond_machine;  ///< where that is more than the machine has, in words
  std::int64_t global_batch = 1;
  std::int64_t seq_len = 1;
  std::optional<std::int64_t> lora_rank;  ///< absent: the whole network is trained
  std::string lora_targets;               ///< words joined by commas
  Bytes memory_capacity;
  double memory_risk = 0.0;                      ///< that a plan may have
  std::optional<double> gpu_power_watt;          ///< rated, of the profile
  std::optional<double> gpu_price_usd_per_hour;  ///< of the profile
  std::optional<double> tokens;                  ///< to train on, where that is asked
  SiteEffect site;                               ///< whose runs the times are about
  std::vector<SettingReport> settings;
};

struct CountsReport {
  std::string space;
  std::int64_t total = 0;
  std::int64_t evaluated = 0;
  std::int64_t simulated = 0;
  std::int64_t pruned = 0;
  std::int64_t subtrees = 0;
  std::int64_t classes = 0;
  std::int64_t unvisited = 0;
  std::vector<std::pair<std::string, std::int64_t>> rejected;  ///< reason, plans; most first
  std::vector<std::string> left_out;                           ///< plans outside the space, and why
};

/// A plan that does not fit, and by how much.
struct NearMissReport {
  PlanSummary plan;
  MemoryBreakdown memory;  ///< of its worst device
  Bytes limit;             ///< predicted peaks up to it run more likely than not
  [[nodiscard]] Bytes excess() const { return memory.total() - limit; }
};

/// A plan that the framework does not run and that beats plan 1 by more than a tie, priced with the
/// framework's own software.
struct BeyondReport {
  std::string what;   ///< the idea that buys the gain: "tensor grids"
  double gain = 0.0;  ///< share of the step of plan 1 that it saves; 80 % of outcomes lie between:
  double least = 0.0, most = 0.0;
  std::string runs_in;  ///< the frameworks that run it, or each of its parts
  std::string command;  ///< that prices it
  PlanReport plan;
};

/// Where the search for plans beyond the framework went: what was found, and the ideas tried.
struct BeyondSearch {
  std::vector<BeyondReport> plans;  ///< the fastest first, at most one of each idea
  std::string tried;                ///< "tensor grids, ..."; empty: nothing was
};

/// The best plan that does without the features of the framework that plan 1 has.
struct WithoutReport {
  std::string features;             ///< "Megatron-FSDP"
  std::optional<PlanSummary> plan;  ///< absent: none fits
  Seconds step;
  double over_first = 0.0;  ///< step over that of plan 1, less 1
};

/// A published plan of the model on the machine at this size, as this question prices it.
struct PublishedReport {
  std::string name;
  std::string publisher;
  std::string source;
  std::string date;
  std::string words;   ///< "tp 4, pp 4, vpp 5, cp 2"
  std::string reason;  ///< why it has no price here; else empty
  Seconds step;        ///< where it has one
  Bytes memory;
  bool fits = false;
  std::size_t rank = 0;             ///< among the plans shown and it; 0: behind all of them
  double over_first = 0.0;          ///< step over that of plan 1, less 1; 0 where there is none
  std::optional<Seconds> measured;  ///< as published, of the recipe's own batch and precision
  // Where it is measured, under the recipe's own batch, length and precision:
  double measured_rate = 0.0;  ///< tokens per second and device, as published
  double error = 0.0;          ///< predicted step over the published one, less 1
};

struct SearchReport {
  QuestionReport question;
  std::string selection;  ///< which plans these are, where they are not the fastest
  std::vector<PlanReport> plans;
  MemoryFit admitted = MemoryFit::Fits;  ///< what `plans` are: Tight where nothing fits
  /// A tight plan that is faster than all that fit, by more than a tie.
  std::optional<PlanReport> faster_tight;
  BeyondSearch beyond;
  std::optional<WithoutReport> without;
  std::vector<PublishedReport> published;  ///< that fit first, then by step
  std::string
      published_elsewhere{};  ///< machines and sizes of recipes of the model, where none is of this
  bool list_published = false;  ///< whether tables list them all
  std::vector<PlanReport> front;
  std::vector<NearMissReport> misses;
  std::vector<std::string> remedies;  ///< what would make something fit
  std::vector<std::string> advice;    ///< what would do better, each tried
  CountsReport counts;
  bool stopped = false;    ///< a limit or an interrupt cut the search short
  std::string optimality;  ///< "optimal within space megatron" or the gap
  std::string evidence;    ///< what the numbers rest on
};

/// One rung of the capacity ladder: the best plan for a number of GPUs.
struct LadderRung {
  SearchReport report;
  double speedup = 1.0;     ///< over the smallest feasible rung
  double efficiency = 1.0;  ///< speed-up over the ratio of GPUs
};

/// The capacity view: how many GPUs make sense for a fixed batch.
struct LadderReport {
  std::vector<LadderRung> rungs;
  std::size_t chosen = 0;  ///< the rung whose plans are shown in full
  std::string choice;      ///< why that one, in one line
  std::string ceiling;     ///< from which size on more GPUs buy nothing; empty where none does
};

/// Shows the Pareto front in place of the fastest plans.
void show_front(SearchReport& report);

enum class Format { Table, Json, JsonLines, Csv };

/// Tables lose columns and sentences are wrapped to fit `columns` characters; 0: as long as it
/// takes.
[[nodiscard]] std::string render_search(const SearchReport& report, Format format, int columns = 0);
[[nodiscard]] std::string render_ladder(const LadderReport& ladder, Format format, int columns = 0);
/// One given plan in full (predict): breakdowns, memory and communication.
[[nodiscard]] std::string render_prediction(const SearchReport& report, Format format,
                                            int columns = 0);

/// Messages and the kernels that hide them, on the busiest stage.
[[nodiscard]] std::string hidden_table(const std::vector<HiddenMessage>& messages, int columns);

/// One micro-batch on the busiest stage, operator by operator, before anything hides.
[[nodiscard]] std::string operator_table(const std::vector<OperatorReport>& operators,
                                         int columns = 0);

/// Tensors that change their layout, message by message: the longest kShownRedistributions of a
/// step in the order of the plan, the others in one row.
inline constexpr std::size_t kShownRedistributions = 60;
[[nodiscard]] std::string redistribution_table(const std::vector<Redistribution>& all,
                                               int columns = 0);

}  // namespace plansearch
