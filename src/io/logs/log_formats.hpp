// SPDX-License-Identifier: Apache-2.0
// Table of the lines that training programs print about their steps (frameworks/logs/formats.yaml).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "io/logs/line_pattern.hpp"

namespace plansearch::io {

/// A number of a line, as the table names it (kNames of log_formats.cpp); Tokens of a step are a pace times a time.
enum class Logged : std::uint8_t {
  Step,
  Total,
  StepTime,
  StepsPerS,
  TokensPerS,
  TokensPerSGpu,
  SamplesPerS,
  MeanStepTime,
  MeanStepsPerS,
  Elapsed,
  FlopRate,
  Allocated,
  Reserved,
  Batch,
  SeqLen,
  Gpus,
  Skipped,
  SkippedSoFar,
  Nans,
  Prompts,
  PromptsOfUpdate,
  Retries,
  Tokens
};
inline constexpr std::size_t kLoggedCount = 23;
[[nodiscard]] constexpr bool is_pace(Logged what) {
  return what >= Logged::StepTime && what <= Logged::Elapsed;
}

/// One number of a line, in the base unit after multiplication.
struct LogField {
  Logged what;
  LinePattern pattern;
  double factor = 1.0;
};

/// One kind of line.
struct LogLine {
  std::string mark;    ///< every such line has it
  bool open = false;   ///< so have others
  bool paced = false;  ///< it has a field for a time or a pace
  std::vector<LogField> fields;
};

struct LogFormat {
  std::string name;
  std::vector<LogLine> lines;
};

struct LogFormats {
  std::vector<LogFormat> formats;
  std::vector<LinePattern> ranks;
  std::vector<std::string> out_of_memory;  ///< words of a run that ended so
};

/// InputError with the place of what is wrong.
[[nodiscard]] LogFormats read_log_formats(const std::filesystem::path& path);

}  // namespace plansearch::io
