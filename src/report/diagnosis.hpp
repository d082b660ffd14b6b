// SPDX-License-Identifier: Apache-2.0
// A measured step beside its prediction, and what would explain the difference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/report.hpp"

namespace plansearch {

/// One thing that may be otherwise than the question says.
struct CauseReport {
  std::string what;         ///< "all operators run eagerly"
  std::string check;        ///< how to find out whether it is so
  Seconds predicted;        ///< the step if it is so
  double likelihood = 0.0;  ///< after the measurement; all of them, normal and unknown add to 1
  bool fits = true;         ///< in memory, as predicted
  bool explains = true;     ///< it makes the measurement likelier than it is with nothing wrong
};

/// The time of one part of a step, as predicted and as a profiler saw it.
struct TermReport {
  std::string term;  ///< "matrix products"
  Seconds predicted;
  std::optional<Seconds> measured;  ///< nothing where the profile has no timeline
  double calls = 0.0;               ///< measured, of a step
};

/// Steps of a run, one by one.
struct StepTimes {
  std::size_t steps = 0;
  Seconds median;  ///< of the slowest rank of every step
  Seconds p10;
  Seconds p90;
  double slow_share = 0.0;  ///< of steps that take a half longer than the median
  std::optional<std::int64_t> slowest_rank;
  double slowest_over_median = 1.0;  ///< its median step over the median of all ranks'
};

/// The contents of the file of `--profile`.
struct ProfileReport {
  std::string file;
  double steps = 1.0;              ///< that its kernels belong to
  std::vector<TermReport> terms;   ///< of one step; empty where it lists steps only
  std::optional<StepTimes> times;  ///< where it lists steps
};

/// A run that goes on faster or slower than it began.
struct PaceChange {
  std::int64_t step = 0;  ///< from which on
  Seconds before;         ///< medians
  Seconds after;
  bool sudden = false;  ///< else little by little
};

/// The contents of the file of `--log`.
struct LogReport {
  std::string file;
  std::string format;  ///< of the program that printed it
  StepTimes times;     ///< of the steady part
  std::size_t warm_up = 0;
  std::size_t apart = 0;  ///< further steps left out
  std::optional<std::int64_t> apart_every{};
  std::optional<PaceChange> change{};
  std::int64_t skipped = 0;  ///< steps without an update
  std::int64_t nans = 0;
  std::int64_t retries = 0;         ///< of the allocator
  bool says_batch = false;          ///< sequences of a step
  bool says_length = false;         ///< tokens of a sequence
  std::optional<FlopRate> flops{};  ///< of one accelerator, as the log counts them
  FlopRate own_flops{};             ///< of the same time, as they are counted here
  FlopRate own_hardware_flops{};    ///< the same with what is recomputed
  std::optional<Bytes> allocated{};
  std::optional<Bytes> reserved{};
  std::vector<std::int64_t> not_understood{};  ///< lines
};

struct DiagnosisReport {
  QuestionReport question;
  PlanReport plan;  ///< as the question says it, with p10 and p90
  Seconds measured;
  double faster_share = 0.0;  ///< of runs like this one that take less time, by the prediction
  double normal = 0.0;        ///< likelihood that nothing is wrong
  double unknown = 0.0;       ///< that it is none of the causes: what has no price here
  std::vector<CauseReport> causes;  ///< the likeliest first
  std::optional<ProfileReport> profile{};
  std::optional<LogReport> log{};
  std::vector<std::string> advice{};  ///< what would be faster than this plan, whatever it takes
};

[[nodiscard]] std::string render_diagnosis(const DiagnosisReport& report, Format format,
                                           int columns = 0);

}  // namespace plansearch
