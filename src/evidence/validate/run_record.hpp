// SPDX-License-Identifier: Apache-2.0
// Measured training runs: one row of the table that `plansearch validate` reads, as values.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/tables/csv.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// Everything that is wrong with a table, reported at once.
class TableProblems {
 public:
  /// The result of `read`; an InputError that it throws is noted, and the value is empty.
  template <typename F>
  auto attempt(const F& read) -> std::invoke_result_t<F> {
    try {
      return read();
    } catch (const InputError& error) {
      problems_.push_back(error);
      return std::invoke_result_t<F>();
    }
  }
  [[nodiscard]] bool any() const { return !problems_.empty(); }
  /// Throws InputErrors where there are any: the first twenty, and how many more.
  void refuse_any() const {
    if (problems_.empty()) return;
    constexpr std::size_t kShown = 20;
    std::vector<InputError> shown = problems_;
    if (shown.size() > kShown) {
      const std::size_t more = shown.size() - kShown;
      shown.erase(shown.begin() + kShown, shown.end());
      shown.emplace_back(SourceLocation{shown.front().where().file, 0, 0},
                         fmt::format("{} more of the kind", more));
    }
    throw InputErrors(std::move(shown));
  }

 private:
  std::vector<InputError> problems_;
};

enum class Outcome : std::uint8_t {
  Measured,     ///< it ran
  OutOfMemory,  ///< it ran out of device memory
  Failed,       ///< it crashed, for whatever reason
};

/// The memory that a published figure counts.
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
/// "max", "first" or "last", as the column mem_rank has it.
[[nodiscard]] std::optional<MemoryRank> parse_memory_rank(std::string_view word);

/// Empty cells are absent: unknown, never zero.
struct RunRecord {
  int line = 0;
  std::string id;
  std::string hardware;
  std::string framework;
  bool framework_assumed = false;  ///< the table has no such column
  std::string model;               ///< label; the sizes below decide
  std::string mlp;
  /// Settings that have a column, and what is wrong with the first cell that is.
  ProblemRequest question;
  std::string wrong;
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
  Outcome outcome = Outcome::Measured;
  /// The network, where the row has no sizes and names one that ships; the sizes above are its own.
  std::shared_ptr<const ModelDescription> shipped;
  /// Columns whose empty cell leaves nothing to predict; the fields above are then meaningless.
  std::vector<std::string> unknown;
  /// Every cell as written, by column name, for grouping.
  std::map<std::string, std::string, std::less<>> cells;

  [[nodiscard]] const std::string& cell(std::string_view column) const;
};

/// Finds a shipped model by name; InputError for unknown names.
using ModelFinder = std::function<ModelDescription(std::string_view)>;

/// All rows of a table of runs; what is wrong is noted with file, line and column: missing columns,
/// text in a number, negative or zero times, values outside a closed set, names of models without
/// sizes that do not ship.
[[nodiscard]] std::vector<RunRecord> read_runs(const io::CsvTable& table,
                                               const ModelFinder& find_model,
                                               TableProblems& problems);
/// The same; throws what is wrong.
[[nodiscard]] std::vector<RunRecord> read_runs(const io::CsvTable& table,
                                               const ModelFinder& find_model = {});

/// Columns of the table that no prediction reads.
[[nodiscard]] std::vector<std::string> unread_columns(const io::CsvTable& table);

}  // namespace plansearch
