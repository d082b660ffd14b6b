// SPDX-License-Identifier: Apache-2.0
// Files of measured samples (plansearch/samples/v1): one JSON object a line, the first of them the
// machine. Lines are only ever added, so a run that is killed loses the line it was writing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plansearch::io {

inline constexpr std::size_t kLargestSampleFile = std::size_t{64} << 20U;

/// A measured point, by the columns of the tables of `validate`: "m" -> "1024".
using SampleCells = std::map<std::string, std::string, std::less<>>;
/// Empty where there is no such cell.
[[nodiscard]] std::string word_in(const SampleCells& cells, std::string_view name);
/// 1 where there is no such cell, or another text in it.
[[nodiscard]] double number_in(const SampleCells& cells, std::string_view name);

/// The origin of the samples.
struct SampledMachine {
  std::string backend;
  std::string name;  ///< of the accelerator
  int multiprocessors = 1;
  double memory_bytes = 0.0;  ///< of one accelerator
  double cache_bytes = 0.0;
  int accelerators = 1;                        ///< of one node
  std::map<std::string, std::string> facts{};  ///< library, driver, threads
};

/// State that a device reported while a sample was taken.
struct SampleState {
  std::map<std::string, double> values{};  ///< "clock_mhz", "power_w", "temperature_c"
  std::vector<std::string> slowed{};       ///< why its clock is below what it could be
};

struct Sample {
  int line = 0;
  std::string probe{};
  SampleCells cells{};
  std::optional<double> time_us{};   ///< median of the blocks; absent: failed or skipped
  double spread = 0.0;               ///< robust standard deviation of a block over the median
  std::vector<double> blocks_us{};   ///< every block, outliers included
  std::vector<std::string> flags{};  ///< "unstable", "outliers 1"
  SampleState state{};
  std::string failed{};   ///< why there is no time
  std::string skipped{};  ///< why the machine has no such probe
};

struct SampleFile {
  std::string file;
  SampledMachine machine;
  std::vector<Sample> samples;
  std::size_t whole_bytes = 0;  ///< up to the end of the last whole line
};

[[nodiscard]] bool is_sample_file(std::string_view text);

/// A last line without its end is left out. InputError for any other line that is wrong, for times
/// that are not above zero and keys that are unknown.
[[nodiscard]] SampleFile parse_samples(std::string_view text, const std::string& file_name);

/// Each with the end of its line.
[[nodiscard]] std::string machine_line(const SampledMachine& machine, std::string_view date);
[[nodiscard]] std::string sample_line(const Sample& sample);

/// "gemm dtype=fp32 k=64 ...": two samples of one key measured the same.
[[nodiscard]] std::string sample_key(std::string_view probe, const SampleCells& cells);

}  // namespace plansearch::io
