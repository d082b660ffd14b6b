// SPDX-License-Identifier: Apache-2.0
// The wing `evidence`: predictions against measured runs, published figures, and the speed of this build.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include "answer/make_report.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "cli/command_row.hpp"
#include "cli/commands.hpp"
#include "cli/option_kinds.hpp"
#include "cli/output.hpp"
#include "evidence/bench/bench.hpp"
#include "evidence/reproduce/reproduce.hpp"
#include "evidence/validate/kernel_validation.hpp"
#include "evidence/validate/run_summary.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/usual_software.hpp"

namespace plansearch::cli {
namespace {

struct ValidateOptions {
  std::string table;                  ///< CSV of measured runs, kernels or collectives
  std::vector<std::string> group_by;  ///< columns; empty: those of the kind of table
  std::string suspects;               ///< CSV (id, why) of rows to report apart
  double min_mfu = 0.0;               ///< slower steps are left out of step-time errors
};

void add_validate(CLI::App& app, Options& shared, ValidateOptions& o) {
  app.add_option("table", o.table, "CSV of measured runs, kernels or collectives")->required();
  app.add_option("--by", o.group_by, "summarise by these columns")->delimiter(',');
  add_setting(app, shared, Setting::Site);
  add_set(app, shared);
  add_typed(app, "FILE", "--suspect", o.suspects, "CSV (id, why) of rows to report apart");
  add_typed(app, "SHARE", "--min-mfu", o.min_mfu, "leave slower steps out of step-time errors")
      ->check([](const std::string& text) {
        const auto value = parse_number(text);
        if (value && *value >= 0.0 && *value <= 1.0) return std::string();
        return fmt::format("'{}' is not a number from 0 to 1", text);
      });
}

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
    return transformed(data_.clusters(), [&](const ShippedFile& shipped) {
      return data_.cluster(shipped.path.string());
    });
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

/// A row of an unknown machine is inexpressible, and its reason says so; a file that is not there is
/// a mistake in the table.
template <typename T>
void require_files(const io::CsvTable& table, std::string_view column,
                   const std::function<T(std::string_view)>& find) {
  if (!table.has(column)) return;
  std::set<std::string> seen{""};
  for (const io::CsvRow& row : table.rows()) {
    const std::string& name = table.text(row, column);
    if (!seen.insert(name).second) continue;
    try {
      (void)find(name);
    } catch (const InputError& error) {
      const bool in_file = error.where().line > 0;  // found, and wrong inside
      if (in_file) throw;
      if (is_path(name) || !error.where().file.empty()) {
        table.fail(row, column, fmt::format("\"{}\": {}", name, error.what()),
                   "a path is relative to the folder of the table");
      }
    }
  }
}

std::set<std::string> read_ids(const std::string& path) {
  const io::CsvTable table = io::CsvTable::read(path);
  std::set<std::string> ids;
  for (const io::CsvRow& row : table.rows()) ids.insert(table.text(row, "id"));
  return ids;
}

std::string validate_runs(const io::CsvTable& table, const Options& o, const ValidateOptions& own,
                          const ShippedData& data) {
  const TableProfiles profiles(data, own.table);
  const ProfileFinder finder{[&](std::string_view name) { return profiles.cluster(name); },
                             [&](std::string_view name) { return profiles.framework(name); },
                             data.sites(),
                             o.site.value_or(""),
                             switch_priors(data),
                             chip_software(data)};
  TableProblems problems;
  const std::vector<RunRecord> runs = read_runs(
      table, [&](std::string_view name) { return data.model(name).description; }, problems);
  for (const std::string& columns : own.group_by) require_columns(table, columns);
  problems.attempt([&] { require_files(table, "hw", finder.cluster); });
  problems.attempt([&] { require_files(table, "framework", finder.framework); });
  problems.refuse_any();
  const std::vector<PredictedRun> rows =
      predict_runs(runs, shipped_architectures(data), finder, threads_of(o));
  RunReport report{.runs = rows, .unread = unread_columns(table), .min_mfu = own.min_mfu};
  RunSelection selection{.min_mfu = own.min_mfu};
  // Few rows are shown one by one; groups of them say little.
  if (format_of(o) == Format::Table && runs.size() <= kFewRows) selection.by.clear();
  if (!own.group_by.empty()) selection.by = own.group_by;
  report.sets.push_back({"all", summarise_runs(rows, selection)});
  if (!own.suspects.empty()) {
    report.suspects = selection.excluded = read_ids(own.suspects);
    report.sets.push_back({"without_suspects", summarise_runs(rows, selection)});
  }
  return render_runs(report, format_of(o), columns_of(o));
}

std::string validate_kernels(const io::CsvTable& table, TableKind kind, const Options& o,
                             const ValidateOptions& own, const ShippedData& data) {
  for (const std::string& columns : own.group_by) require_kernel_columns(table, columns);
  const TableProfiles profiles(data, own.table);
  auto rows = predict_kernels(table, kind,
                              {[&](std::string_view name) { return profiles.accelerator(name); },
                               [&](std::string_view name) { return profiles.cluster(name); },
                               [&] { return profiles.clusters(); }});
  return render_kernels(report_kernels(kind, std::move(rows), own.group_by), format_of(o),
                        columns_of(o));
}

std::string validate_table(const Options& o, const ValidateOptions& own, const ShippedData& data) {
  const io::CsvTable table = io::CsvTable::read(own.table);
  const TableKind kind = recognise_table(table);
  if (table.rows().empty()) {
    table.fail_header("the table has a header but no rows", "add one line per measurement");
  }
  return kind == TableKind::Runs ? validate_runs(table, o, own, data)
                                 : validate_kernels(table, kind, o, own, data);
}

int run_validate(const Options& o, const ValidateOptions& own) {
  const Output output(o);  // checked before anything is predicted
  output.write(validate_table(o, own, shipped_data().changed(o.set.value_or(""))));
  return kExitOk;
}

void add_reproduce(CLI::App& app, Options& shared, std::string& paper) {
  Choices names;
  for (const ReproducedSeed& seed : reproduced_seeds()) names.emplace_back(seed.name);
  restrict_to(app.add_option("seed", paper, "a paper (default: all)"), names);
  add_set(app, shared);
}

int run_reproduce(const Options& o, const std::string& seed) {
  const Output output(o);  // checked before anything is predicted
  output.write(reproduce(seed, {shipped_data().changed(o.set.value_or("")), threads_of(o)},
                         format_of(o), columns_of(o)));
  return kExitOk;
}

int run_bench(const Options& o) {
  const Output output(o);  // checked before anything is measured
  output.write(render_bench(plansearch::run_bench(threads_of(o)), format_of(o)));
  return kExitOk;
}

void add_nothing(CLI::App& /*app*/, Options& /*shared*/) {}

}  // namespace

std::span<const CommandRow> evidence_commands() {
  static constexpr std::array kRows{
      CommandRow{"validate", "predict every measured row of a table and report errors",
                 Shares::Output, bind_own<ValidateOptions, run_validate, add_validate>},
      CommandRow{"reproduce", "published figures of a paper beside those of this program",
                 Shares::Output, bind_own<std::string, run_reproduce, add_reproduce>},
      CommandRow{"bench", "evaluations per second and the search signature", Shares::Output,
                 bind_command<run_bench, add_nothing>}};
  return kRows;
}

}  // namespace plansearch::cli
