// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/run_record.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "io/model/model_sections.hpp"
#include "plansearch/setting_table.hpp"

namespace plansearch {
namespace {

constexpr double kGibibyte = 1073741824.0;
/// More accelerators, tokens or parameters than this is a misplaced digit.
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

/// Columns a table cannot do without. Every other one may be missing: its cells are then unknown.
constexpr std::array<std::string_view, 5> kRequired{"hw", "gpus", "model", "global_batch",
                                                    "step_time_s"};
/// The sizes of a network: all of them, or none where the model is a shipped one.
constexpr std::array<std::string_view, 4> kSizeColumns{"mlp", "layers", "hidden", "heads"};
/// Another name people give a column.
constexpr std::pair<std::string_view, std::string_view> kBatch{"global_batch", "batch"};

/// Columns that tables of runs may have besides settings and degrees.
constexpr std::array<std::string_view, 21> kOthers{
    "id",    "source",      "locator",  "known",   "ffn_hidden",  "kv_heads",     "head_dim",
    "vocab", "moe_experts", "moe_topk", "moe_ffn", "batch",       "peak_mem_gib", "mem_kind",
    "oom",   "mem_rank",    "site",     "tp",      "loss_kernel", "release",      "stage_layers"};

constexpr io::Choice<MemoryKind> kMemoryKinds[] = {{"allocated", MemoryKind::Allocated},
                                                   {"reserved", MemoryKind::Reserved},
                                                   {"torch-peak", MemoryKind::TorchPeak},
                                                   {"nvidia-smi", MemoryKind::NvidiaSmi}};
constexpr io::Choice<MemoryRank> kMemoryRanks[] = {
    {"max", MemoryRank::Worst}, {"first", MemoryRank::FirstStage}, {"last", MemoryRank::LastStage}};
constexpr io::Choice<Outcome> kOutcomes[] = {
    {"0", Outcome::Measured}, {"1", Outcome::OutOfMemory}, {"failed", Outcome::Failed}};

template <typename E, std::size_t N>
std::optional<E> value_of(std::string_view word, const io::Choice<E> (&words)[N]) {
  const auto* found = std::ranges::find(words, word, &io::Choice<E>::name);
  return found == std::end(words) ? std::nullopt : std::optional(found->value);
}

class RowReader {
 public:
  RowReader(const io::CsvTable& table, const io::CsvRow& row, TableProblems& problems)
      : table_(table), row_(row), problems_(problems) {}

  /// Empty where the table has no such column.
  [[nodiscard]] const std::string& text(std::string_view column) const {
    static const std::string kUnknown;
    return table_.has(column) ? table_.text(row_, column) : kUnknown;
  }

  /// A cell without which there is no prediction: its absence is noted, not an error.
  [[nodiscard]] std::string needed_text(std::string_view column) {
    const std::string& cell = text(column);
    if (cell.empty()) unknown_.emplace_back(column);
    return cell;
  }

  [[nodiscard]] std::string identifier() const {
    if (!table_.has("id")) return fmt::format("line {}", row_.line);
    if (text("id").empty()) {
      table_.fail(row_, "id", "column id is empty", "give every row a name of its own");
    }
    return text("id");
  }

  [[nodiscard]] std::optional<std::int64_t> count(std::string_view column, std::int64_t low = 1,
                                                  std::int64_t high = kLargest) const {
    if (text(column).empty()) return std::nullopt;
    return problems_.attempt([&] {
      const auto value = table_.integer(row_, column, low);
      if (value && *value > high) {
        table_.fail(row_, column, fmt::format("{} in column {} is too large", *value, column));
      }
      return value;
    });
  }

  [[nodiscard]] std::int64_t needed_count(std::string_view column, std::int64_t high = kLargest) {
    const auto value = count(column, 1, high);
    if (!value) unknown_.emplace_back(column);
    return value.value_or(1);
  }

  [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_; }
  void forget(std::string_view column) { std::erase(unknown_, column); }

  /// A degree in its range.
  [[nodiscard]] std::optional<int> degree(std::string_view column, Degree degree) const {
    if (text(column).empty()) return std::nullopt;
    return problems_.attempt([&]() -> std::optional<int> {
      const std::string& cell = text(column);
      const bool word = row_of(degree).kind == DegreeKind::Word;
      std::optional<std::int64_t> value;
      if (word)
        value = parse_value(degree, cell);
      else
        value = table_.integer(row_, column, row_of(degree).low);
      if (value && (word || in_range(degree, *value))) return static_cast<int>(*value);
      table_.fail(row_, column,
                  fmt::format("{} in column {} is not {}", cell, column, legal_text(degree)));
    });
  }

  [[nodiscard]] std::optional<double> positive(std::string_view column) const {
    if (text(column).empty()) return std::nullopt;
    return problems_.attempt([&] {
      const auto value = table_.number(row_, column, -std::numeric_limits<double>::max());
      if (*value <= 0.0) {
        table_.fail(row_, column,
                    fmt::format("{} in column {} is not above 0", text(column), column),
                    "leave the cell empty when the value is unknown");
      }
      return value;
    });
  }

  /// One of a few words; nothing for an empty cell.
  template <typename E, std::size_t N>
  [[nodiscard]] std::optional<E> choice(std::string_view column, const io::Choice<E> (&words)[N],
                                        const char* remedy) const {
    const std::string& cell = text(column);
    if (cell.empty()) return std::nullopt;
    return problems_.attempt([&] {
      const auto value = value_of(cell, words);
      if (value) return value;
      table_.fail(row_, column, fmt::format("\"{}\" in column {}", cell, column), remedy);
    });
  }

 private:
  const io::CsvTable& table_;
  const io::CsvRow& row_;
  TableProblems& problems_;
  std::vector<std::string> unknown_;
};

/// Sizes of the shipped model of that name.
void take_shipped(RowReader& row, const ModelFinder& find_model, RunRecord& run) {
  const auto shipped = std::make_shared<const ModelDescription>(find_model(run.model));
  run.layers = shipped->layers;
  run.hidden = shipped->hidden;
  run.heads = shipped->attention.heads;
  if (row.text("seq_len").empty()) run.seq_len = shipped->training.seq_len;
  for (const std::string_view column : kSizeColumns) row.forget(column);
  row.forget("seq_len");
  run.shipped = shipped;
}

/// The column of the batch, by whichever name the table has it.
std::string_view batch_column(const io::CsvTable& table) {
  return table.has(kBatch.first) ? kBatch.first : kBatch.second;
}

void read_sizes(RowReader& row, RunRecord& run) {
  run.gpus = row.needed_count("gpus");
  run.layers = row.needed_count("layers", io::kLayerRange.high);
  run.hidden = row.needed_count("hidden");
  run.heads = row.needed_count("heads");
  run.seq_len = row.needed_count("seq_len");
  run.ffn = row.count("ffn_hidden");
  run.kv_heads = row.count("kv_heads");
  run.head_size = row.count("head_dim");
  run.vocab = row.count("vocab");
  run.experts = row.count("moe_experts");
  run.top_k = row.count("moe_topk");
  run.expert_width = row.count("moe_ffn");
}

/// Words of the table's own: validation/architectures.yaml knows schedules, labels know the others.
constexpr DegreeSet kOwnWords{Degree::Recompute, Degree::Schedule, Degree::ContextKind};

void read_degrees(RowReader& row, RunRecord& run) {
  for (const DegreeRow& degree : degree_table()) {
    if (kOwnWords.contains(degree.degree)) continue;
    const std::string_view alias = key_of(degree.degree, {});
    const auto value = row.degree(row.text(degree.key).empty() ? alias : degree.key, degree.degree);
    if (value) run.degrees.pin(degree.degree, *value);
  }
}

/// Settings with a field of their own in the record; the others are read as flags are.
constexpr std::array kOwnFields{Setting::Hardware, Setting::Model, Setting::Framework,
                                Setting::Gpus,     Setting::Batch, Setting::SequenceLength};

void read_settings(const RowReader& row, RunRecord& run) {
  for (const SettingRow& setting : setting_table()) {
    const auto* own = std::ranges::find(kOwnFields, setting.setting);
    if (setting.column.empty() || own != kOwnFields.end()) continue;
    const std::string& cell = row.text(setting.column);
    if (cell.empty()) continue;
    const std::string problem = setting_problem(setting, cell);
    if (problem.empty()) setting.set(run.question, cell);
    if (!problem.empty() && run.wrong.empty()) {
      run.wrong = fmt::format("{}: {}", setting.column, problem);
    }
  }
}

/// The column of the loss alone: a word of `kernels` without "-loss".
void read_loss(const RowReader& row, RunRecord& run) {
  const std::string& cell = row.text("loss_kernel");
  if (cell.empty()) return;
  std::string& kernels = run.question.kernels.emplace(run.question.kernels.value_or(""));
  kernels += (kernels.empty() ? "" : " ") + cell + "-loss";
}

RunRecord read_run(const io::CsvTable& table, const io::CsvRow& cells,
                   const ModelFinder& find_model, TableProblems& problems) {
  RowReader row(table, cells, problems);
  RunRecord run;
  run.line = cells.line;
  run.id = problems.attempt([&] { return row.identifier(); });
  run.hardware = row.needed_text("hw");
  run.framework_assumed = !table.has("framework");
  run.framework = run.framework_assumed ? "megatron" : row.needed_text("framework");
  run.model = row.text("model");
  run.mlp = row.needed_text("mlp");
  run.recompute = row.text("recompute");
  read_sizes(row, run);
  run.global_batch = row.needed_count(batch_column(table));
  const auto stated = [&](std::string_view column) { return !row.text(column).empty(); };
  if (std::ranges::none_of(kSizeColumns, stated) && find_model && !run.model.empty()) {
    problems.attempt([&] {
      try {
        take_shipped(row, find_model, run);
      } catch (const InputError& error) {
        if (table.has("layers")) return;  // sizes of the row are unknown
        table.fail(cells, "model", error.what(),
                   error.hint() + "; or give its sizes: mlp, layers, hidden, heads, seq_len");
      }
    });
  }
  read_degrees(row, run);
  if (const auto time = row.positive("step_time_s")) run.step_time = Seconds(*time);
  if (const auto memory = row.positive("peak_mem_gib"))
    run.peak_memory = Bytes(*memory * kGibibyte);
  run.memory_kind =
      row.choice("mem_kind", kMemoryKinds, "it is allocated, reserved, torch-peak or nvidia-smi");
  run.memory_rank =
      row.choice("mem_rank", kMemoryRanks, "it is max (of all stages), first or last");
  read_settings(row, run);
  read_loss(row, run);
  run.outcome = row.choice("oom", kOutcomes, "it is 0, 1 or failed").value_or(Outcome::Measured);
  run.unknown = row.unknown();
  run.cells = table.cells(cells);
  return run;
}

/// All columns that are missing, in one message.
void require_all_columns(const io::CsvTable& table) {
  const auto lacks = [&](std::string_view column) {
    return !table.has(column) && !(column == kBatch.first && table.has(kBatch.second));
  };
  std::vector<std::string_view> missing;
  for (const std::string_view column : kRequired) {
    if (lacks(column)) missing.push_back(column);
  }
  if (!std::ranges::all_of(kSizeColumns, lacks)) {
    for (const std::string_view column : kSizeColumns) {
      if (lacks(column)) missing.push_back(column);
    }
    if (lacks("seq_len")) missing.push_back("seq_len");
  }
  if (missing.empty()) return;
  table.fail_header(
      fmt::format("the table has no column{} \"{}\"", missing.size() > 1 ? "s" : "",
                  fmt::join(missing, "\", \"")),
      "needed are hw, gpus, model (the name of a shipped one, or mlp, layers, hidden, heads and "
      "seq_len as well), global_batch, step_time_s, micro_batch where it is known and the "
      "degrees that are not 1 (tp, pp, ...)");
}

}  // namespace

std::optional<MemoryRank> parse_memory_rank(std::string_view word) {
  return value_of(word, kMemoryRanks);
}

std::string_view to_text(MemoryKind kind) {
  return io::word_of(kMemoryKinds, kind);
}

const std::string& RunRecord::cell(std::string_view column) const {
  static const std::string kUnknown;
  const auto found = cells.find(column);
  return found == cells.end() ? kUnknown : found->second;
}

std::vector<RunRecord> read_runs(const io::CsvTable& table, const ModelFinder& find_model,
                                 TableProblems& problems) {
  problems.attempt([&] { require_all_columns(table); });
  std::vector<RunRecord> runs;
  if (problems.any()) return runs;
  runs.reserve(table.rows().size());
  std::map<std::string, int> lines;
  for (const io::CsvRow& row : table.rows()) {
    runs.push_back(read_run(table, row, find_model, problems));
    const auto [first, fresh] = lines.emplace(runs.back().id, row.line);
    if (fresh || runs.back().id.empty()) continue;
    problems.attempt([&] {
      table.fail(row, "id",
                 fmt::format("line {} has the id \"{}\" too", first->second, first->first),
                 "give every row a name of its own");
    });
  }
  return runs;
}

std::vector<RunRecord> read_runs(const io::CsvTable& table, const ModelFinder& find_model) {
  TableProblems problems;
  std::vector<RunRecord> runs = read_runs(table, find_model, problems);
  problems.refuse_any();
  return runs;
}

std::vector<std::string> unread_columns(const io::CsvTable& table) {
  const auto is_in = [](const auto& list, const std::string& column) {
    return std::ranges::find(list, column) != list.end();
  };
  std::vector<std::string> unread;
  for (const std::string& column : table.header()) {
    const bool setting = std::ranges::any_of(
        setting_table(), [&](const SettingRow& row) { return row.column == column; });
    const bool degree = std::ranges::any_of(
        degree_table(), [&](const DegreeRow& row) { return row.key == column; });
    const bool read = setting || degree || is_in(kRequired, column) ||
                      is_in(kSizeColumns, column) || is_in(kOthers, column);
    if (!read) unread.push_back(column);
  }
  return unread;
}

}  // namespace plansearch
