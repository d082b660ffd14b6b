// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/fit_tables.hpp"

#include <fmt/format.h>

#include <array>

#include "report/columns.hpp"

namespace plansearch {
namespace {

/// A column, and the cell of a sample that it holds.
struct ColumnRow {
  std::string_view column;
  std::string_view cell;
  std::string_view otherwise = "1";
};
constexpr std::array kMatmul{ColumnRow{"dtype", "dtype"}, ColumnRow{"batch", "batch"},
                             ColumnRow{"m", "m"}, ColumnRow{"n", "n"}, ColumnRow{"k", "k"}};
constexpr std::array kAttention{
    ColumnRow{"kernel", "kernel", ""},   ColumnRow{"direction", "direction", "forward"},
    ColumnRow{"mask", "mask", "causal"}, ColumnRow{"dtype", "dtype", "bf16"},
    ColumnRow{"batch", "batch"},         ColumnRow{"seq_len", "seq_len"},
    ColumnRow{"heads", "heads"},         ColumnRow{"kv_heads", "kv_heads"},
    ColumnRow{"head_dim", "head_dim"}};
constexpr std::array kStream{ColumnRow{"pass", "pass"}, ColumnRow{"bytes", "bytes"}};
constexpr std::array kCollective{ColumnRow{"gpus", "ranks"}, ColumnRow{"nodes", "nodes"},
                                 ColumnRow{"collective", "collective"},
                                 ColumnRow{"bytes", "bytes"}};

struct KindRow {
  std::string_view probe;
  TableKind kind;
  std::string_view machine;  ///< the column that names it
  std::span<const ColumnRow> columns;
};
const std::array kKinds{KindRow{"gemm", TableKind::Matmul, "gpu", kMatmul},
                        KindRow{"batched_gemm", TableKind::Matmul, "gpu", kMatmul},
                        KindRow{"attention", TableKind::Attention, "gpu", kAttention},
                        KindRow{"stream", TableKind::Stream, "gpu", kStream},
                        KindRow{"collective", TableKind::Collective, "hw", kCollective}};

/// Prices are of all groups at once, and of kinds that plans use.
bool is_priced(const io::Sample& sample) {
  return io::word_in(sample.cells, "groups") != "one" &&
         io::word_in(sample.cells, "collective") != "broadcast";
}

KernelTable table_of(const io::SampleFile& samples, const std::string& machine,
                     const KindRow& kind) {
  std::vector<int> lines;
  CsvLine header;
  header.add(std::string(kind.machine));
  for (const ColumnRow& column : kind.columns) header.add(std::string(column.column));
  header.add("time_us");
  std::string text = header.text();
  // Tables that are played back are of the kernels that the accelerator is known by.
  const bool own_kernel = samples.machine.backend != "replay";
  for (const io::Sample& sample : samples.samples) {
    if (sample.probe != kind.probe || !sample.time_us || !is_priced(sample)) continue;
    CsvLine line;
    line.add(machine);
    for (const ColumnRow& column : kind.columns) {
      const auto cell = sample.cells.find(column.cell);
      if (cell != sample.cells.end()) {
        line.add(cell->second);
      } else {
        line.add(
            std::string(own_kernel && column.cell == "kernel" ? "measured" : column.otherwise));
      }
    }
    line.add(fmt::format("{:.9g}", *sample.time_us));
    text += line.text();
    lines.push_back(sample.line);
  }
  return {samples.file, kind.kind, io::CsvTable::parse(text, samples.file), std::move(lines)};
}

}  // namespace

std::vector<KernelTable> tables_of(const io::SampleFile& samples, const std::string& machine) {
  std::vector<KernelTable> tables;
  for (const KindRow& kind : kKinds) {
    KernelTable table = table_of(samples, machine, kind);
    if (!table.lines.empty()) tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace plansearch
