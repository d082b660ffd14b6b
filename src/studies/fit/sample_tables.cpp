// SPDX-License-Identifier: Apache-2.0
#include "studies/fit/sample_tables.hpp"

#include <fmt/format.h>

#include <array>

#include "report/csv_text.hpp"

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
                        KindRow{"stream", TableKind::Stream, "gpu", kStream},
                        KindRow{"collective", TableKind::Collective, "hw", kCollective}};

KernelTable table_of(const io::SampleFile& samples, const std::string& machine,
                     const KindRow& kind) {
  std::vector<int> lines;
  CsvLine header;
  header.add(std::string(kind.machine));
  for (const ColumnRow& column : kind.columns) header.add(std::string(column.column));
  header.add("time_us");
  std::string text = header.text();
  for (const io::Sample& sample : samples.samples) {
    if (sample.probe != kind.probe || !sample.time_us) continue;
    CsvLine line;
    line.add(machine);
    for (const ColumnRow& column : kind.columns) {
      const auto cell = sample.cells.find(column.cell);
      line.add(cell == sample.cells.end() ? std::string(column.otherwise) : cell->second);
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
