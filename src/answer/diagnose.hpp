// SPDX-License-Identifier: Apache-2.0
// Is a measured step normal, and if not, what explains it?
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "io/logs/log_formats.hpp"
#include "io/tables/kernel_profile/step_profile.hpp"
#include "plansearch/network.hpp"
#include "plansearch/plan_report.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/resolve_plan.hpp"
#include "report/diagnosis.hpp"

namespace plansearch {

class SearchSession;

/// How fast a run is, as trainers print it.
struct Pace {
  enum class Counts : std::uint8_t { Tokens, Sequences, ModelFlops, Utilization } counts;
  double value = 0.0;  ///< a second; of utilization a share
  bool of_each_gpu = false;
};

/// A measured step, the log of a run, a profile of some steps, or several of them.
struct Measurement {
  std::optional<Seconds> step{};  ///< nothing: as the pace, the log or the profile says
  std::optional<Pace> pace{};
  std::string log{};                 ///< output of the training program; empty: none
  std::string profile{};             ///< file of a profiler; empty: none
  std::optional<double> profiled{};  ///< steps that it covers; nothing: as it says itself, else one
};

/// Reads "18.9s", "8500 tokens/s", "1060 tok/s per GPU", "1.9 s/it", "0.5 it/s", "12 samples/s",
/// "310 TFLOP/s/GPU" or "27% MFU" as trainers print them. InputError for other texts.
void read_pace(const std::string& text, Measurement& measured);

/// Seconds of a step of the question and plan; nothing where no time and no pace is known. FLOPs
/// are those of the model, without recomputation.
[[nodiscard]] std::optional<Seconds> step_of(const Measurement& measured,
                                             const QuestionReport& question,
                                             const PlanReport& plan);
/// The pace of a run of the question by its log; nothing where it ran out of memory.
/// InputError for logs without steps, of another job, and of runs whose losses are mostly no numbers.
[[nodiscard]] std::optional<LogReport> read_run_log(const std::string& file,
                                                    const QuestionReport& question);
/// The shipped table of lines that training programs print.
[[nodiscard]] io::LogFormats log_formats(const ShippedData& data);

/// Prices the plan as asked and with every cause of causes.cpp. InputError as resolve_plan, and
/// where nothing says how long a step takes.
/// With a session: beside the best plan of the question too.
[[nodiscard]] DiagnosisReport diagnose(const PlanRequest& asked, const Measurement& measured,
                                       SearchSession* session = nullptr);

/// Something in a log that a cause would leave there.
enum class LogSign : std::uint8_t { None, Retries, SlowRank };

/// The same question with one thing changed.
struct Cause {
  std::string what;
  std::string check;
  double odds = 0.1;  ///< before any measurement, against a run in which nothing is wrong
  PlanRequest request;
  ProblemFiles files;  ///< empty: they are read again
  LogSign sign = LogSign::None;
};

/// Those that the question leaves open, and faults that no setting states. `given` is the plan as
/// it would be priced, `peak` the memory that it takes.
[[nodiscard]] std::vector<Cause> possible_causes(const PlanRequest& asked,
                                                 const ResolvedPlan& given, Bytes peak);

/// The terms of one step of the busiest device.
struct StepTerms {
  std::array<Seconds, io::kProfileTerms> kernels{};
  Seconds exposed{};  ///< messages beside which nothing computes
  Seconds idle{};     ///< waits for other stages, and for the host
  Seconds site{};     ///< further time, of which nothing says where it goes
};

[[nodiscard]] StepTerms predicted_terms(const Network& network, const PlanReport& plan);

/// Rows for the reader, of a profile of so many steps; terms that neither has are left out.
[[nodiscard]] std::vector<TermReport> terms_beside(const StepTerms& predicted,
                                                   const io::StepProfile& measured, double steps);

/// How well a prediction explains the measured parts: a density, of the parts that are at least a
/// fiftieth of a step. `sigma` is the deviation of the logarithm of a part.
[[nodiscard]] double density_of_terms(const StepTerms& predicted, const io::StepProfile& measured,
                                      double steps, double sigma);

/// Medians, scatter and the slowest rank.
[[nodiscard]] StepTimes step_times(const std::vector<io::RankStep>& steps);

/// Steps of a run without those that say nothing of its pace.
struct SteadySteps {
  std::vector<io::RankStep> steps;
  std::size_t all = 0;
  std::size_t warm_up = 0;                    ///< at the start
  std::size_t apart = 0;                      ///< later ones: checkpoints, evaluations, stalls
  std::optional<std::int64_t> apart_every{};  ///< steps, where slow ones follow each other so
  std::optional<PaceChange> change{};
};
[[nodiscard]] SteadySteps steady_steps(const std::vector<io::RankStep>& steps);

}  // namespace plansearch
