// SPDX-License-Identifier: Apache-2.0
// The files that a fit reads, sorted by what they measure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evidence/evidence.hpp"
#include "io/tables/csv.hpp"
#include "measure/sample_file.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

/// Why nothing can be fitted; thrown.
struct FitRefusal {
  std::string reason;
  std::string remedy;
};

/// Matrix products, attention, passes over memory or collectives.
struct KernelTable {
  std::string file;
  TableKind kind = TableKind::Matmul;
  io::CsvTable table;
  std::vector<int> lines;  ///< of its rows in the file

  /// Only these rows, by index.
  [[nodiscard]] KernelTable subset(const std::vector<std::size_t>& rows) const;
  [[nodiscard]] std::string place(std::size_t row) const;
};

struct FitTables {
  std::vector<std::string> runs;  ///< paths
  std::vector<std::string> logs;  ///< paths of logs of training programs
  std::vector<KernelTable> kernels;
  std::vector<io::Sample> singles{};  ///< of probes without a table: launches, overlap
  std::vector<std::string> remarks;   ///< what could not be checked
  std::optional<FitRefusal> mixed;    ///< nothing may be fitted
};

/// Samples, CSV of runs, matrix products, attention, passes over memory or collectives, and logs of
/// nccl-tests. InputError for anything else and for what is wrong in a file.
[[nodiscard]] FitTables read_fit_tables(const std::vector<std::string>& paths, const Cluster& base,
                                        const ShippedData& data);

/// The accelerator that a driver calls by this name: drivers put words without digits in front
/// ("NVIDIA", "Tesla", "AMD Instinct").
[[nodiscard]] std::optional<std::string> shipped_accelerator(std::string name,
                                                             const ShippedData& data);

class KernelSample {
 public:
  /// Rows of tables of this kind that `belongs` chooses; those that cannot be predicted are added
  /// to `unused`.
  KernelSample(const std::vector<KernelTable>& tables, TableKind kind, const Cluster& base,
               const std::function<bool(const KernelRow&)>& belongs,
               std::vector<std::string>& unused);

  /// ln of the time of every row on this machine.
  [[nodiscard]] std::vector<double> predict(const Cluster& cluster) const;
  [[nodiscard]] const std::vector<double>& measured() const { return measured_; }
  /// Different times that the base predicts.
  [[nodiscard]] std::size_t sizes() const;
  /// Median of measured over predicted times, as the base predicts them.
  [[nodiscard]] double ratio() const;
  [[nodiscard]] std::string place(std::size_t row) const;
  [[nodiscard]] std::vector<std::string> files() const;

 private:
  void add(const KernelTable& table, const Cluster& base,
           const std::function<bool(const KernelRow&)>& belongs, std::vector<std::string>& unused);

  std::vector<KernelTable> tables_;
  std::vector<double> measured_;
  std::vector<double> predicted_;
};

/// One table per kind of sample that a fit uses. Samples without a time are left out.
[[nodiscard]] std::vector<KernelTable> tables_of(const io::SampleFile& samples,
                                                 const std::string& machine);

}  // namespace plansearch
