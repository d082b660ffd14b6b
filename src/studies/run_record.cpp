// SPDX-License-Identifier: Apache-2.0
#include "studies/run_record.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "io/model_sections.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr double kGibibyte = 1073741824.0;
/// More accelerators, tokens or parameters than this is a misplaced digit.
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

/// Columns whose absence makes a table unreadable; those of free text may be missing.
constexpr std::array kRequired{
    "id",          "hw",           "framework",   "gpus",        "model",    "mlp",
    "attention",   "layers",       "hidden",      "ffn_hidden",  "heads",    "kv_heads",
    "head_dim",    "vocab",        "seq_len",     "moe_experts", "moe_topk", "moe_ffn",
    "precision",   "global_batch", "micro_batch", "tp",          "pp",       "vpp",
    "dp",          "cp",           "ep",          "sp",          "zero",     "recompute",
    "step_time_s", "peak_mem_gib", "mem_kind",    "oom"};

constexpr std::array<std::pair<std::string_view, MemoryKind>, 4> kMemoryKinds{
    {{"allocated", MemoryKind::Allocated},
     {"reserved", MemoryKind::Reserved},
     {"torch-peak", MemoryKind::TorchPeak},
     {"nvidia-smi", MemoryKind::NvidiaSmi}}};

class RowReader {
 public:
  RowReader(const io::CsvTable& table, const io::CsvRow& row) : table_(table), row_(row) {}

  [[nodiscard]] const std::string& text(std::string_view column) const {
    return table_.text(row_, column);
  }

  /// A cell without which there is no prediction: its absence is noted, not an error.
  [[nodiscard]] std::string needed_text(std::string_view column) {
    const std::string& cell = text(column);
    if (cell.empty()) unknown_.emplace_back(column);
    return cell;
  }

  [[nodiscard]] std::string identifier() const {
    if (text("id").empty()) {
      table_.fail(row_, "id", "column id is empty", "give every row a name of its own");
    }
    return text("id");
  }

  [[nodiscard]] std::optional<std::int64_t> count(std::string_view column, std::int64_t low = 1,
                                                  std::int64_t high = kLargest) const {
    const auto value = table_.integer(row_, column, low);
    if (value && *value > high) {
      table_.fail(row_, column, fmt::format("{} in column {} is too large", *value, column));
    }
    return value;
  }

  [[nodiscard]] std::int64_t needed_count(std::string_view column, std::int64_t high = kLargest) {
    const auto value = count(column, 1, high);
    if (!value) unknown_.emplace_back(column);
    return value.value_or(1);
  }

  [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_; }

  /// A degree in its range.
  [[nodiscard]] std::optional<int> degree(std::string_view column, Degree degree) const {
    const auto value = table_.integer(row_, column, row_of(degree).low);
    if (!value) return std::nullopt;
    if (in_range(degree, *value)) return static_cast<int>(*value);
    table_.fail(row_, column,
                fmt::format("{} in column {} is not {}", *value, column, legal_text(degree)));
  }

  [[nodiscard]] std::optional<double> positive(std::string_view column) const {
    const auto value = table_.number(row_, column, -std::numeric_limits<double>::max());
    if (value && *value <= 0.0) {
      table_.fail(row_, column, fmt::format("{} in column {} is not above 0", text(column), column),
                  "leave the cell empty when the value is unknown");
    }
    return value;
  }

  [[nodiscard]] std::optional<MemoryKind> memory_kind() const {
    const std::string& cell = text("mem_kind");
    if (cell.empty()) return std::nullopt;
    for (const auto& [name, kind] : kMemoryKinds) {
      if (cell == name) return kind;
    }
    table_.fail(row_, "mem_kind", fmt::format("\"{}\" is no kind of memory figure", cell),
                "it is allocated, reserved, torch-peak or nvidia-smi");
  }

  /// A cell of a column that tables may lack.
  [[nodiscard]] std::string optional_text(std::string_view column) const {
    return table_.has(column) ? text(column) : std::string();
  }

  [[nodiscard]] std::optional<MemoryRank> memory_rank() const {
    const std::string cell = optional_text("mem_rank");
    if (cell.empty()) return std::nullopt;
    if (cell == "max") return MemoryRank::Worst;
    if (cell == "first") return MemoryRank::FirstStage;
    if (cell == "last") return MemoryRank::LastStage;
    table_.fail(row_, "mem_rank", fmt::format("\"{}\" in column mem_rank", cell),
                "it is max (of all stages), first or last");
  }

  [[nodiscard]] std::optional<DataType> main_gradient() const {
    const std::string cell = optional_text("main_grads");
    if (cell.empty()) return std::nullopt;
    const auto type = parse_data_type(cell);
    if (type == DataType::Bf16 || type == DataType::Fp16 || type == DataType::Fp32) return type;
    table_.fail(row_, "main_grads", fmt::format("\"{}\" in column main_grads", cell),
                "it is bf16, fp16 or fp32");
  }

  [[nodiscard]] Outcome outcome() const {
    const std::string& cell = text("oom");
    if (cell.empty() || cell == "0") return Outcome::Measured;
    if (cell == "1") return Outcome::OutOfMemory;
    if (cell == "failed") return Outcome::Failed;
    table_.fail(row_, "oom", fmt::format("\"{}\" in column oom", cell), "it is 0, 1 or failed");
  }

 private:
  const io::CsvTable& table_;
  const io::CsvRow& row_;
  std::vector<std::string> unknown_;
};

void read_sizes(RowReader& row, RunRecord& run) {
  run.gpus = row.needed_count("gpus");
  run.layers = row.needed_count("layers", io::kLayerRange.high);
  run.hidden = row.needed_count("hidden");
  run.heads = row.needed_count("heads");
  run.seq_len = row.needed_count("seq_len");
  run.global_batch = row.needed_count("global_batch");
  run.ffn = row.count("ffn_hidden");
  run.kv_heads = row.count("kv_heads");
  run.head_size = row.count("head_dim");
  run.vocab = row.count("vocab");
  run.experts = row.count("moe_experts");
  run.top_k = row.count("moe_topk");
  run.expert_width = row.count("moe_ffn");
}

/// The degrees that tables of runs have a column for.
constexpr std::array kColumns{Degree::TensorOut, Degree::Pipeline,         Degree::Chunks,
                              Degree::Data,      Degree::Context,          Degree::Expert,
                              Degree::Zero,      Degree::SequenceParallel, Degree::MicroBatch};

void read_degrees(RowReader& row, RunRecord& run) {
  for (const Degree degree : kColumns) {
    const std::string_view column = key_of(degree, {});
    if (const auto value = row.degree(column, degree)) run.degrees.pin(degree, *value);
  }
  static_cast<void>(row.needed_text(row_of(Degree::MicroBatch).key));
}

RunRecord read_run(const io::CsvTable& table, const io::CsvRow& cells) {
  RowReader row(table, cells);
  RunRecord run;
  run.line = cells.line;
  run.id = row.identifier();
  run.hardware = row.needed_text("hw");
  run.framework = row.needed_text("framework");
  run.model = row.text("model");
  run.mlp = row.needed_text("mlp");
  run.attention = row.text("attention");
  run.precision = row.text("precision");
  run.recompute = row.text("recompute");
  read_sizes(row, run);
  read_degrees(row, run);
  if (const auto time = row.positive("step_time_s")) run.step_time = Seconds(*time);
  if (const auto memory = row.positive("peak_mem_gib"))
    run.peak_memory = Bytes(*memory * kGibibyte);
  run.memory_kind = row.memory_kind();
  run.memory_rank = row.memory_rank();
  run.main_gradient = row.main_gradient();
  run.outcome = row.outcome();
  run.unknown = row.unknown();
  for (std::size_t i = 0; i < table.header().size(); ++i) {
    run.cells.emplace(table.header()[i], cells.cells[i].text);
  }
  return run;
}

}  // namespace

std::string_view to_text(MemoryKind kind) {
  for (const auto& [name, value] : kMemoryKinds) {
    if (value == kind) return name;
  }
  throw InternalError("memory kind without a name");
}

const std::string& RunRecord::cell(std::string_view column) const {
  static const std::string kUnknown;
  const auto found = cells.find(column);
  return found == cells.end() ? kUnknown : found->second;
}

std::vector<RunRecord> read_runs(const io::CsvTable& table) {
  for (const std::string_view column : kRequired) table.require(column);
  std::vector<RunRecord> runs;
  runs.reserve(table.rows().size());
  for (const io::CsvRow& row : table.rows()) {
    runs.push_back(read_run(table, row));
  }
  return runs;
}

}  // namespace plansearch
