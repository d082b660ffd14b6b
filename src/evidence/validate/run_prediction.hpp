// SPDX-License-Identifier: Apache-2.0
// From a row of measurements to a question that can be priced, and predictions for measured runs.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "evidence/validate/architecture_table.hpp"
#include "evidence/validate/run_record.hpp"
#include "plansearch/chip_software.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/evaluation.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/quantity.hpp"
#include "plansearch/site.hpp"
#include "plansearch/switch_priors.hpp"

namespace plansearch {

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

/// A step at one site.
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
