// SPDX-License-Identifier: Apache-2.0
// Measured training runs: one row of the table that `plansearch validate` reads, as values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/csv.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/degree_set.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// How a run ended.
enum class Outcome : std::uint8_t {
  Measured,     ///< it ran
  OutOfMemory,  ///< it ran out of device memory
  Failed,       ///< it crashed, for whatever reason
};

/// What a published memory figure counts.
enum class MemoryKind : std::uint8_t {
  Allocated,  ///< peak of the allocator
  Reserved,   ///< held by the allocator
  TorchPeak,  ///< a counter of PyTorch, not said which
  NvidiaSmi,  ///< the whole process
};
inline constexpr std::size_t kMemoryKindCount = 4;
[[nodiscard]] std::string_view to_text(MemoryKind kind);

/// Whose peak a memory figure is.
enum class MemoryRank : std::uint8_t { Worst, FirstStage, LastStage };

/// Empty cells are absent: unknown, never zero.
struct RunRecord {
  int line = 0;
  std::string id;
  std::string hardware;
  std::string framework;
  std::string model;  ///< label; the sizes below decide
  std::string mlp;
  std::string attention;
  std::string precision;
  std::string recompute;
  std::int64_t gpus = 1;
  std::int64_t layers = 1;
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t seq_len = 1;
  std::int64_t global_batch = 1;
  std::optional<std::int64_t> ffn, kv_heads, head_size, vocab;
  std::optional<std::int64_t> experts, top_k, expert_width;
  PinnedDegrees degrees;  ///< but for `recompute`, whose words are the table's own
  std::optional<Seconds> step_time;
  std::optional<Bytes> peak_memory;
  std::optional<MemoryKind> memory_kind;
  std::optional<MemoryRank> memory_rank;  ///< absent: the rank whose figure the framework logs
  std::optional<DataType> main_gradient;  ///< absent: the framework's
  Outcome outcome = Outcome::Measured;
  /// Columns whose empty cell leaves nothing to predict; the fields above are then meaningless.
  std::vector<std::string> unknown;
  /// Every cell as written, by column name, for grouping.
  std::map<std::string, std::string, std::less<>> cells;

  [[nodiscard]] const std::string& cell(std::string_view column) const;
};

/// All rows of a table of runs. InputError with file, line and column for missing columns, text in
/// a number, negative or zero times, and values outside a closed set.
[[nodiscard]] std::vector<RunRecord> read_runs(const io::CsvTable& table);

}  // namespace plansearch
