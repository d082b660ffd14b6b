// SPDX-License-Identifier: Apache-2.0
// Benchmarks run at burst clocks; an accelerator's collectives on the widest switched node that
// ships.
#include "evidence/validate/kernel_validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/names.hpp"
#include "base/units.hpp"
#include "cost/collective/collective_cost.hpp"
#include "cost/kernels/compute_cost.hpp"
#include "evidence/validate/lookup.hpp"
#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

constexpr double kMicrosecond = 1e-6;
constexpr double kManyRanks = 1e6;

/// An empty cell is unknown, which is not an error of the table.
double positive(const io::CsvTable& table, const io::CsvRow& row, std::string_view column) {
  const auto value = table.number(row, column, 0.0);
  if (!value) throw refusal(fmt::format("column {} is empty", column));
  if (*value == 0.0) table.fail(row, column, fmt::format("column {} must be above zero", column));
  return *value;
}

class Predictor {
 public:
  Predictor(const io::CsvTable& table, const KernelProfiles& profiles)
      : table_(table),
        profiles_(profiles),
        accelerators_(profiles.accelerator),
        clusters_(profiles.cluster) {}

  Seconds matmul(const io::CsvRow& row) {
    const Accelerator& chip = *accelerators_.get(table_.text(row, "gpu"));
    const double batch = table_.has("batch") ? number(row, "batch") : 1.0;
    const MatmulShape shape{batch, number(row, "m"), number(row, "n"), number(row, "k")};
    const std::string& dtype = table_.text(row, "dtype");
    if (dtype == "fp8_block") return matmul_time(chip, block_kernel(chip), shape, Clock::Burst);
    const DataType type = type_of(dtype);
    return matmul_time(chip, type, shape, Clock::Burst, rows_of(type, shape));
  }

  Seconds stream(const io::CsvRow& row) {
    const Accelerator& chip = *accelerators_.get(table_.text(row, "gpu"));
    return stream_time(chip, Bytes(number(row, "bytes")), 1);
  }

  Seconds attention(const io::CsvRow& row) {
    const Accelerator& chip = *accelerators_.get(table_.text(row, "gpu"));
    const double length = number(row, "seq_len");
    const double size = number(row, "head_dim");
    const AttentionShape shape{number(row, "batch"),
                               number(row, "heads"),
                               number(row, "kv_heads"),
                               length,
                               length,
                               size,
                               size,
                               cell(row, "mask") == "full" ? 1.0 : 0.5};
    const bool forward = cell(row, "direction") != "backward";
    const std::string dtype = cell(row, "dtype");
    const DataType type = dtype.empty() ? DataType::Bf16 : type_of(dtype);
    const Pass pass = forward ? Pass::Forward : Pass::Backward;
    const AttentionCurve* curve = attention_curve(chip, cell(row, "kernel"), forward);
    return curve == nullptr ? attention_time(chip, type, shape, pass)
                            : attention_time(chip, *curve, type, shape, pass);
  }

  Seconds collective(const io::CsvRow& row) {
    const CommunicationKind kind = collective_kind(row);
    const std::string_view system = system_column();
    const double ranks = number(row, system.empty() ? "ranks" : "gpus");
    if (ranks > kManyRanks) throw refusal("more than a million ranks");
    const Cluster& cluster = system.empty() ? node_with(table_.text(row, "gpu"), ranks)
                                            : *clusters_.get(table_.text(row, system));
    const Bytes message(message_bytes(row));
    return collective_cost(cluster, kind, message,
                           {static_cast<int>(ranks), stride(row, cluster, ranks)})
        .time;
  }

  /// Some sources publish the bus bandwidth (nccl-tests) in place of the time.
  std::optional<Seconds> measured(const io::CsvRow& row, TableKind kind) {
    if (kind != TableKind::Collective || !table_.has("busbw_GBps") ||
        table_.number(row, "time_us", 0.0)) {
      return Seconds(number(row, "time_us") * kMicrosecond);
    }
    // Published figures may be ranges: only a plain number can be compared.
    const auto bus = parse_number(table_.text(row, "busbw_GBps"));
    if (!bus || *bus <= 0.0 || table_.text(row, "bytes").empty()) return std::nullopt;
    const double ranks = number(row, "gpus");
    const bool twice = collective_kind(row) == CommunicationKind::AllReduce;
    return Seconds(message_bytes(row) * (twice ? 2.0 : 1.0) * (ranks - 1.0) / ranks / (*bus * 1e9));
  }

 private:
  [[nodiscard]] double number(const io::CsvRow& row, std::string_view column) const {
    return positive(table_, row, column);
  }

  /// Empty where the table has no such column.
  [[nodiscard]] std::string cell(const io::CsvRow& row, std::string_view column) const {
    return table_.has(column) ? table_.text(row, column) : std::string();
  }

  static DataType type_of(const std::string& dtype) {
    const auto type = parse_data_type(dtype);
    if (!type) throw refusal(fmt::format("dtype \"{}\" is unknown", dtype));
    return *type;
  }

  /// Curve of the kernel that the row names, else of the one that only runs forward, else of the
  /// first that can train; null: there is none.
  [[nodiscard]] static const AttentionCurve* attention_curve(const Accelerator& chip,
                                                             const std::string& name,
                                                             bool forward) {
    const auto& kernels = chip.kernels.attention;
    const AttentionKernel* kernel = chip.kernels.find_attention(name.empty() ? "serving" : name);
    if (kernel == nullptr && name.empty()) {
      if (kernels.empty()) return nullptr;
      const auto trains = std::ranges::find_if(
          kernels, [](const AttentionKernel& one) { return one.backward.has_value(); });
      kernel = trains == kernels.end() ? &kernels.front() : &*trains;
    }
    if (kernel == nullptr || (!forward && !kernel->backward)) {
      throw refusal(fmt::format("{} has no {} of attention kernel \"{}\"", chip.name,
                                forward ? "forward" : "backward", name));
    }
    return forward ? &kernel->forward : &*kernel->backward;
  }

  /// The column that names a cluster; tables of one node name the accelerator instead.
  [[nodiscard]] std::string_view system_column() const {
    for (const std::string_view column : {"hw", "system"}) {
      if (table_.has(column)) return column;
    }
    return {};
  }

  [[nodiscard]] double message_bytes(const io::CsvRow& row) const {
    const std::string_view column = table_.has("message_bytes") ? "message_bytes" : "bytes";
    if (table_.text(row, column).empty()) throw refusal("the message size is unknown");
    return number(row, column);
  }

  /// Ranks spread over more nodes than they would fill.
  [[nodiscard]] int stride(const io::CsvRow& row, const Cluster& cluster, double ranks) const {
    if (!table_.has("nodes")) return 1;
    const double nodes = table_.number(row, "nodes", 1.0).value_or(1.0);
    if (nodes <= 1.0) return 1;
    return static_cast<int>(std::max(1.0, cluster.accelerators_per_node * nodes / ranks));
  }

  [[nodiscard]] static MatmulKernel block_kernel(const Accelerator& chip) {
    const auto peak = chip.peak[static_cast<std::size_t>(DataType::Fp8)];
    if (!peak || !chip.kernels.matmul_fp8_block) {
      throw refusal(fmt::format("{} has no fp8_block rate", chip.name));
    }
    // A four-byte scale for every 128 elements.
    return {*chip.kernels.matmul_fp8_block, *peak, Bytes(1.0 + 4.0 / 128.0)};
  }

  [[nodiscard]] CommunicationKind collective_kind(const io::CsvRow& row) const {
    std::string name = canonical_name(table_.text(row, "collective"));
    name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
    if (name == "allreduce") return CommunicationKind::AllReduce;
    if (name == "allgather") return CommunicationKind::AllGather;
    if (name == "reducescatter") return CommunicationKind::ReduceScatter;
    if (name == "alltoall") return CommunicationKind::AllToAll;
    if (name == "sendrecv" || name == "sendreceive" || name == "p2p") {
      return CommunicationKind::SendReceive;
    }
    throw refusal(fmt::format("collective \"{}\" is unknown", table_.text(row, "collective")));
  }

  /// A shipped cluster whose fast links join `ranks` accelerators of the kind; switches first.
  const Cluster& node_with(const std::string& gpu, double ranks) {
    const std::string chip = accelerators_.get(gpu)->name;
    if (shipped_.empty()) shipped_ = profiles_.clusters();
    const Cluster* best = nullptr;
    for (const Cluster& cluster : shipped_) {
      if (cluster.accelerator.name != chip || cluster.accelerators_per_node < ranks) continue;
      const bool switched = cluster.tiers.front().kind == TierKind::Switch;
      if (best == nullptr || (switched && best->tiers.front().kind != TierKind::Switch)) {
        best = &cluster;
      }
    }
    if (best == nullptr) throw refusal(fmt::format("no node of {} x {}", ranks, chip));
    return *best;
  }

  const io::CsvTable& table_;
  const KernelProfiles& profiles_;
  Lookup<Accelerator> accelerators_;
  Lookup<Cluster> clusters_;
  std::vector<Cluster> shipped_;
};

/// A kind of table: its word, default groups, and the function that times a row of one kernel or
/// collective.
struct KindRow {
  TableKind kind;
  std::string_view word;
  std::string_view groups;
  Seconds (Predictor::*time)(const io::CsvRow& row) = nullptr;
};
constexpr KindRow kKinds[] = {
    {TableKind::Runs, "runs", ""},
    {TableKind::Matmul, "matmul", "gpu+dtype dtype+shape gpu+dtype+shape", &Predictor::matmul},
    {TableKind::Attention, "attention", "gpu gpu+head_dim", &Predictor::attention},
    {TableKind::Collective, "collective", "gpu hw system collective+ranks gpu+collective+ranks",
     &Predictor::collective},
    {TableKind::Concurrency, "concurrency", "gpu parts gpu+parts"},
    {TableKind::Stream, "stream", "gpu gpu+pass", &Predictor::stream}};

const KindRow& row_of(TableKind kind) {
  const auto* found = std::ranges::find(kKinds, kind, &KindRow::kind);
  PLANSEARCH_CHECK(found != std::end(kKinds));
  return *found;
}

/// Shapes of training steps apart from the small ones of token generation.
std::string shape_class(const io::CsvTable& table, const io::CsvRow& row) {
  const bool large = positive(table, row, "m") >= 1024 && positive(table, row, "n") >= 512 &&
                     positive(table, row, "k") >= 512;
  return large ? "m >= 1024, n and k >= 512" : "smaller";
}

}  // namespace

std::string_view to_text(TableKind kind) {
  return row_of(kind).word;
}

std::vector<std::string> default_groups(TableKind kind) {
  return words_of(row_of(kind).groups, " ");
}

TableKind recognise_table(const io::CsvTable& table) {
  if (table.has("layers") || table.has("step_time_s") || table.has("framework")) {
    return TableKind::Runs;
  }
  if (table.has("gpu_to_gpu_mb")) return TableKind::Concurrency;
  if (table.has("pass")) return TableKind::Stream;
  if (table.has("collective")) return TableKind::Collective;
  if (table.has("head_dim") || table.has("kv_heads")) return TableKind::Attention;
  if (table.has("dtype") || (table.has("m") && table.has("k"))) return TableKind::Matmul;
  // A table of runs that still lacks columns: its reader names all of them.
  if (table.has("gpus") || table.has("model") || table.has("hw")) return TableKind::Runs;
  const std::string& first = table.header().front();
  if (table.header().size() == 1 && first.find_first_of(";\t|") != std::string::npos) {
    const char separator = first[first.find_first_of(";\t|")];
    table.fail_header(
        fmt::format("columns are separated by {}, not by commas",
                    separator == '\t' ? std::string("tabs") : fmt::format("\"{}\"", separator)),
        "save the table as comma-separated values");
  }
  table.fail_header(
      "the header is that of no table known here",
      "runs have hw, gpus, model, batch, micro_batch, step_time_s; matmuls gpu, dtype, m, n, k, "
      "time_us; attention gpu, "
      "batch, seq_len, heads, kv_heads, head_dim, time_us; collectives gpu, collective, ranks, "
      "message_bytes, time_us; passes over memory gpu, pass, bytes, time_us; kernels and copies at "
      "once gpu, nodes, intra_group, inter_group, m, "
      "n, "
      "k, gpu_to_gpu_mb, cpu_to_gpu_mb, gpu_to_cpu_mb, time_ms");
}

std::vector<KernelRow> kernel_rows(const io::CsvTable& table,
                                   const std::function<void(const io::CsvRow&, KernelRow&)>& fill) {
  std::vector<KernelRow> rows;
  rows.reserve(table.rows().size());
  for (const io::CsvRow& cells : table.rows()) {
    check_stop();
    KernelRow row;
    row.line = cells.line;
    row.cells = table.cells(cells);
    try {
      fill(cells, row);
    } catch (const InputError& error) {
      if (!is_of_row(error)) throw;  // a malformed cell, not a missing rate
      row.reason = error.what();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<KernelRow> predict_kernels(const io::CsvTable& table, TableKind kind,
                                       const KernelProfiles& profiles) {
  if (kind == TableKind::Concurrency) return predict_concurrent(table, profiles);
  Predictor predictor(table, profiles);
  return kernel_rows(table, [&](const io::CsvRow& cells, KernelRow& row) {
    if (kind == TableKind::Matmul) row.cells["shape"] = shape_class(table, cells);
    row.measured = predictor.measured(cells, kind);
    row.predicted = (predictor.*row_of(kind).time)(cells);
    if (!row.measured) row.reason = "neither time nor bus bandwidth is published";
  });
}

}  // namespace plansearch
