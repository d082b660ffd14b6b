// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/validate_table.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "answer/unstated.hpp"
#include "evidence/validate/kernel_validation.hpp"
#include "evidence/validate/run_report.hpp"
#include "io/tables/csv.hpp"

namespace plansearch {
namespace {

namespace fs = std::filesystem;

/// The profiles that rows of a table name: files relative to its folder, else shipped ones.
class TableProfiles {
 public:
  TableProfiles(const ShippedData& data, const fs::path& table)
      : data_(data), folder_(table.parent_path()) {}

  [[nodiscard]] Cluster cluster(std::string_view name) const { return data_.cluster(file(name)); }
  [[nodiscard]] Framework framework(std::string_view name) const {
    return data_.framework(file(name));
  }
  [[nodiscard]] Accelerator accelerator(std::string_view name) const {
    return data_.accelerator(file(name));
  }
  [[nodiscard]] std::vector<Cluster> clusters() const {
    std::vector<Cluster> clusters;
    for (const ShippedFile& shipped : data_.clusters()) {
      clusters.push_back(data_.cluster(shipped.path.string()));
    }
    return clusters;
  }

 private:
  [[nodiscard]] std::string file(std::string_view name) const {
    const fs::path path = folder_ / name;
    std::error_code error;
    return fs::is_regular_file(path, error) ? path.string() : std::string(name);
  }

  const ShippedData& data_;
  fs::path folder_;
};

/// A name that only a file can have.
bool is_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".yaml") ||
         name.ends_with(".yml");
}

/// A row of an unknown machine is inexpressible; a file that is not there, or a table without any
/// known machine, is a mistake in the table.
template <typename T>
void require_some_known(const io::CsvTable& table, std::string_view column,
                        const std::function<T(std::string_view)>& find) {
  if (!table.has(column)) return;
  std::optional<std::pair<const io::CsvRow*, InputError>> first;
  bool any = false;
  std::set<std::string> seen{""};
  for (const io::CsvRow& row : table.rows()) {
    const std::string& name = table.text(row, column);
    if (!seen.insert(name).second) continue;
    try {
      (void)find(name);
      any = true;
    } catch (const InputError& error) {
      const bool in_file = error.where().line > 0;  // found, and wrong inside
      if (in_file) throw;
      if (is_path(name) || !error.where().file.empty()) {
        table.fail(row, column, fmt::format("\"{}\": {}", name, error.what()),
                   "a path is relative to the folder of the table");
      }
      if (!first) first.emplace(&row, error);
    }
  }
  if (!any && first) {
    const auto& [row, error] = *first;
    const std::string listing = column == "hw" ? "hw" : "frameworks";
    const std::string hint = error.hint().empty() ? "" : error.hint() + "; ";
    table.fail(
        *row, column, error.what(),
        fmt::format("{}no row names a known {}: see `plansearch list {}`", hint, column, listing));
  }
}

std::set<std::string> read_ids(const std::string& path) {
  const io::CsvTable table = io::CsvTable::read(path);
  std::set<std::string> ids;
  for (const io::CsvRow& row : table.rows()) ids.insert(table.text(row, "id"));
  return ids;
}

std::string validate_runs(const io::CsvTable& table, const ValidationRequest& request,
                          const ShippedData& data) {
  const TableProfiles profiles(data, request.table);
  const ProfileFinder finder{[&](std::string_view name) { return profiles.cluster(name); },
                             [&](std::string_view name) { return profiles.framework(name); },
                             data.sites(), request.site, switch_priors(data)};
  TableProblems problems;
  const std::vector<RunRecord> runs = read_runs(
      table, [&](std::string_view name) { return data.model(name).description; }, problems);
  for (const std::string& columns : request.group_by) require_columns(table, columns);
  problems.attempt([&] { require_some_known(table, "hw", finder.cluster); });
  problems.attempt([&] { require_some_known(table, "framework", finder.framework); });
  problems.refuse_any();
  const std::vector<PredictedRun> rows =
      predict_runs(runs, shipped_architectures(data), finder, request.threads);
  RunReport report{.runs = rows, .unread = unread_columns(table), .min_mfu = request.min_mfu};
  RunSelection selection{.min_mfu = request.min_mfu};
  // Few rows are shown one by one; groups of them say little.
  if (request.format == Format::Table && runs.size() <= kFewRows) selection.by.clear();
  if (!request.group_by.empty()) selection.by = request.group_by;
  report.sets.push_back({"all", summarise_runs(rows, selection)});
  if (!request.suspects.empty()) {
    report.suspects = selection.excluded = read_ids(request.suspects);
    report.sets.push_back({"without_suspects", summarise_runs(rows, selection)});
  }
  return render_runs(report, request.format, request.columns);
}

std::string validate_kernels(const io::CsvTable& table, TableKind kind,
                             const ValidationRequest& request, const ShippedData& data) {
  for (const std::string& columns : request.group_by) require_kernel_columns(table, columns);
  const TableProfiles profiles(data, request.table);
  auto rows = predict_kernels(table, kind,
                              {[&](std::string_view name) { return profiles.accelerator(name); },
                               [&](std::string_view name) { return profiles.cluster(name); },
                               [&] { return profiles.clusters(); }});
  return render_kernels(report_kernels(kind, std::move(rows), request.group_by), request.format,
                        request.columns);
}

}  // namespace

std::string validate_table(const ValidationRequest& request, const ShippedData& data) {
  const io::CsvTable table = io::CsvTable::read(request.table);
  const TableKind kind = recognise_table(table);
  if (table.rows().empty()) {
    table.fail_header("the table has a header but no rows", "add one line per measurement");
  }
  return kind == TableKind::Runs ? validate_runs(table, request, data)
                                 : validate_kernels(table, kind, request, data);
}

}  // namespace plansearch
