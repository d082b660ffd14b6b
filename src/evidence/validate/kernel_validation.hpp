// SPDX-License-Identifier: Apache-2.0
// Predictions for tables of measured kernels and collectives.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evidence/validate/error_summary.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/quantity.hpp"
#include "plansearch/report.hpp"

namespace plansearch {

enum class TableKind : std::uint8_t { Runs, Matmul, Attention, Collective, Concurrency, Stream };
[[nodiscard]] std::string_view to_text(TableKind kind);
/// Columns, joined by '+', whose values its report groups rows by unless others are asked for.
[[nodiscard]] std::vector<std::string> default_groups(TableKind kind);

/// Told by the header; InputError when it is none of the known tables.
[[nodiscard]] TableKind recognise_table(const io::CsvTable& table);

/// Finds what the rows name; throws InputError for unknown names.
struct KernelProfiles {
  std::function<Accelerator(std::string_view)> accelerator;
  std::function<Cluster(std::string_view)> cluster;
  std::function<std::vector<Cluster>()> clusters;  ///< every shipped one, by name
};

struct KernelRow {
  int line = 0;
  std::optional<Seconds> measured;  ///< absent where the source gives neither time nor bandwidth
  std::optional<Seconds> predicted;
  std::string reason;  ///< why nothing is predicted or compared
  std::map<std::string, std::string, std::less<>> cells;
};

/// One a row of the table, as `fill` completes it; what it refuses is the row's reason.
[[nodiscard]] std::vector<KernelRow> kernel_rows(
    const io::CsvTable& table, const std::function<void(const io::CsvRow&, KernelRow&)>& fill);

/// InputError for missing columns and malformed cells.
[[nodiscard]] std::vector<KernelRow> predict_kernels(const io::CsvTable& table, TableKind kind,
                                                     const KernelProfiles& profiles);

struct KernelGroup {
  std::string by;
  std::string value;
  std::size_t inexpressible = 0;
  ErrorSummary errors;
};

struct KernelReport {
  TableKind kind = TableKind::Matmul;
  std::vector<KernelRow> rows;
  std::vector<KernelGroup> groups;
};

/// InputError when neither the table nor its kind has one of the columns joined by '+'.
void require_kernel_columns(const io::CsvTable& table, const std::string& columns);

/// All rows, then groups by column (several joined by '+'); empty `by`: those of the kind of table.
[[nodiscard]] KernelReport report_kernels(TableKind kind, std::vector<KernelRow> rows,
                                          const std::vector<std::string>& by);

[[nodiscard]] std::string render_kernels(const KernelReport& report, Format format,
                                         int columns = 0);

/// Combinations from their parts measured alone in the same table, which are not predicted
/// themselves. InputError for missing columns and malformed cells.
[[nodiscard]] std::vector<KernelRow> predict_concurrent(const io::CsvTable& table,
                                                        const KernelProfiles& profiles);

}  // namespace plansearch
