// SPDX-License-Identifier: Apache-2.0
// From a row of measurements to a question that can be priced, and predictions for measured runs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "evidence/validate/run_record.hpp"
#include "io/document/document.hpp"
#include "io/model/network_names.hpp"
#include "plansearch/chip_software.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/evaluation.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/quantity.hpp"
#include "plansearch/schedule_id.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/site.hpp"
#include "plansearch/switch_priors.hpp"

namespace plansearch {

struct ArchitectureEntry {
  std::string name;
  std::map<std::string, std::vector<std::string>> columns;  ///< column, values it may have
  std::vector<std::string> text_has;     ///< ... in the label, the source or the schedule
  std::vector<std::string> label_has;    ///< one of these must occur in the label
  std::vector<std::string> label_lacks;  ///< none of these may
  /// Shipped model whose remaining switches are taken when its sizes are the row's.
  std::optional<ModelDescription> like;
  /// Each replaces what the columns and earlier entries gave.
  std::vector<std::function<void(ModelDescription&)>> facts;
  bool unfused_only = false;  ///< its attention, whatever the column says
  /// Values of columns that the row leaves empty: settings as flags write them, degrees.
  std::vector<std::pair<const SettingRow*, std::string>> settings;
  bool replaces = false;  ///< the settings hold whatever the row says: its table has them wrong
  PinnedDegrees degrees;
  std::map<std::string, std::string, std::less<>> others{};  ///< of kOtherColumns
  std::string inexpressible;                                 ///< not empty: why no description fits
};

/// Columns of runs that entries may fill besides settings and degrees: the framework as it was then
/// (the name of a shipped one), layers of every chunk (run_prediction.hpp), whether forwards run
/// beside backwards, whose memory was read.
inline constexpr std::array<std::string_view, 4> kOtherColumns{"release", "stage_layers",
                                                               "expert_overlap", "mem_rank"};

/// Names of pipeline orders in tables of runs (`schedules:`).
struct ScheduleWords {
  std::map<std::string, ScheduleId, std::less<>> orders;  ///< by words, in lower case
  std::set<std::string, std::less<>> remarks;             ///< parts that change no order

  /// Text in brackets is a remark, parts behind commas and semicolons have to be known ones.
  [[nodiscard]] std::optional<ScheduleId> find(std::string_view text) const;
};

[[nodiscard]] ScheduleWords read_schedule_words(const io::Node& node);

struct ArchitectureTable {
  std::int64_t default_vocab = 0;
  std::map<std::string, MemoryRank, std::less<>> memory_figures;  ///< by framework
  std::vector<ArchitectureEntry> entries;
  ScheduleWords schedules{};
  io::NetworkNames named{};  ///< networks that columns do not describe
  ModelFinder find_model{};  ///< of those, the ones that ship; empty: none does
  std::vector<std::string> shipped{};

  /// The network that the row's label names, where its columns do not describe it: the shipped one
  /// of that name, or the one of its family that has the sizes of the row. InputError without a
  /// place where none does.
  [[nodiscard]] std::optional<ModelDescription> named_network(const RunRecord& run) const;

  /// The worst stage where nothing is known of the framework.
  [[nodiscard]] MemoryRank memory_figure(std::string_view framework) const;
  /// The row's cell of one of kOtherColumns, else what the last entry that holds says of it.
  [[nodiscard]] std::string cell(const RunRecord& run, const std::string& column) const;
  /// Entries that hold for the row, first to last.
  [[nodiscard]] std::vector<const ArchitectureEntry*> matching(const RunRecord& run) const;
};

[[nodiscard]] ArchitectureTable read_architectures(const std::filesystem::path& path,
                                                   const ModelFinder& find_model);

/// validation/architectures.yaml of the shipped data.
[[nodiscard]] ArchitectureTable shipped_architectures(const ShippedData& data);

/// A row's network and plan, as a question that is settled as anybody's.
struct RunCase {
  ModelDescription model;
  ProblemRequest question;  ///< with the degrees that the row decides
  PlanDegrees plan;         ///< as far as the row says it, until the question is settled
  /// Neither the row nor the framework says it: the plan has one sequence until it is priced.
  bool open_micro_batch = false;
  /// Degrees of which neither says anything, and the ranks that the others leave to them: all of
  /// them are the first one's until the plan is priced.
  std::vector<Degree> open_degrees{};
  int open_ranks = 1;
  /// Degrees that are 1, and data parallelism over all ranks, as the row says nothing else; where no
  /// such plan fits they are open too.
  std::vector<Degree> assumed_degrees{};
  std::vector<std::int64_t> stage_layers{};  ///< of every chunk; empty: the framework's rule
  std::optional<MemoryRank> memory_rank{};   ///< whose figure the row gives
  std::vector<std::string> filled;  ///< values that the columns do not give, and who gave them
  /// Sequences of the row over sequences of the plan: below 1 when the last micro-batch is partial.
  double batch_share = 1.0;
  /// Deviation of ln(step) between the number formats that the row may mean.
  double open_precision = 0.0;
};

/// The framework of the row as it was then: a column, an entry, else the row's own.
[[nodiscard]] std::string release_of(const RunRecord& run, const ArchitectureTable& table);

/// InputError without a place for a row that cannot be expressed.
[[nodiscard]] RunCase make_case(const RunRecord& run, const ArchitectureTable& table,
                                const Framework& framework);

/// Reasons why a run is hard to predict, by name; it may have several, or none.
[[nodiscard]] std::vector<std::string> regimes_of(const RunRecord& run, const RunCase& run_case,
                                                  const Cluster& cluster);

/// "4x15,1": the layers of every chunk in the order in which micro-batches pass them. InputError
/// without a place for other text.
[[nodiscard]] std::vector<std::int64_t> read_stage_layers(const std::string& text);

/// The plan with its layers so; what comes before the first one is in the first chunk, what comes
/// behind the last one in the last. Infeasible where the numbers are not those of the plan.
[[nodiscard]] std::variant<ParallelPlan, Infeasible> with_stage_layers(
    const PlanEvaluator& evaluator, const PlanDegrees& plan,
    const std::vector<std::int64_t>& layers);

/// Finds what the rows name; throws InputError for unknown names and broken files.
struct ProfileFinder {
  std::function<Cluster(std::string_view)> cluster;
  std::function<Framework(std::string_view)> framework;
  SiteTable sites{};          ///< measured ones; none: predictions are at factor 1
  std::string site{};         ///< of rows that name none; empty: a typical one
  SwitchPriors priors{};      ///< of switches that rows leave out; none: as the framework has them
  ChipSoftwareTable chips{};  ///< the software of chips, where rows do not say it
};

enum class Verdict : std::uint8_t {
  Feasible,
  Illegal,  ///< degrees, divisibility, or a rule of the framework
  OutOfMemory,
  Inexpressible,  ///< neither: the row describes something that has no model here
};
[[nodiscard]] std::string_view to_text(Verdict verdict);

struct SitedTime {
  Seconds time;
  Seconds p10;
  Seconds p90;
};

struct RunPrediction {
  Verdict verdict = Verdict::Inexpressible;
  std::string reason;                  ///< empty when feasible
  std::vector<std::string> filled{};   ///< values that the columns do not give
  bool chosen_micro_batch = false;     ///< by the prediction: the row leaves it out
  std::optional<PlanDegrees> plan{};   ///< absent where the row is inexpressible
  std::vector<std::string> regimes{};  ///< reasons why the run is hard to predict (regimes_of)
  /// Absent for plans that no framework could run; a rule of the framework does not hinder it.
  std::optional<Seconds> step_time;
  std::optional<StepTimeBreakdown> parts;  ///< of `step_time`, before rounding of the batch
  std::optional<Seconds> tuned{};          ///< the step at factor 1
  /// At the row's own site (absent where that was not measured), at a typical one, and at one that
  /// is typical of all laboratories but the row's.
  std::array<std::optional<SitedTime>, 3> at_sites{};
  std::string site{};  ///< whose run it is; empty: not known
  std::optional<Seconds> p10;
  std::optional<Seconds> p90;
  std::optional<Bytes> memory;        ///< of the kind and stage that the row's figure counts
  std::optional<Bytes> needed;        ///< by the worst device, everything included
  std::optional<double> memory_risk;  ///< the probability that it is not there
  std::optional<Bytes> memory_limit;  ///< what is there
  /// FLOPs of the model per step over what the accelerators could do in one second.
  std::optional<double> peak_seconds;

  /// Model FLOPs utilisation of a step that takes `time`.
  [[nodiscard]] std::optional<double> mfu(Seconds time) const;
};

/// A measured row and what is predicted for it.
struct PredictedRun {
  RunRecord run;
  RunPrediction predicted;

  /// It ran and it has a prediction: only such rows enter errors and rankings.
  [[nodiscard]] bool has_both_times() const {
    return run.step_time && run.outcome == Outcome::Measured && predicted.step_time;
  }
  /// Absent without a measured step.
  [[nodiscard]] std::optional<double> measured_mfu() const {
    return run.step_time ? predicted.mfu(*run.step_time) : std::nullopt;
  }
};

/// In order; the same for any number of threads.
[[nodiscard]] std::vector<PredictedRun> predict_runs(const std::vector<RunRecord>& runs,
                                                     const ArchitectureTable& table,
                                                     const ProfileFinder& finder, int threads);

/// Rows of one problem share an evaluator and its profiles.
struct RunGroup {
  ResolvedQuestion settled;
  std::vector<std::pair<PredictedRun*, RunCase>> rows;
};

/// Notes in the predictions what is filled, in which regime a run is, and why it is inexpressible.
[[nodiscard]] std::vector<RunGroup> group_by_problem(std::vector<PredictedRun>& rows,
                                                     const ArchitectureTable& table,
                                                     const ProfileFinder& finder);

}  // namespace plansearch
