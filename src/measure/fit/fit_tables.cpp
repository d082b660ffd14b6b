// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/fit_tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "answer/diagnose.hpp"
#include "base/ranges.hpp"
#include "io/document/file.hpp"
#include "io/logs/training_log.hpp"
#include "measure/fit/nccl_log.hpp"
#include "plansearch/error.hpp"
#include "report/columns.hpp"

namespace plansearch {
namespace {

namespace fs = std::filesystem;

std::string csv_header(const io::CsvTable& table) {
  CsvLine line;
  for (const std::string& column : table.header()) line.add(column);
  return line.text();
}

/// The rows of one test as the table of collectives that it could have been.
KernelTable table_of(const io::NcclTest& test, const std::string& path, const Cluster& base) {
  std::string text = "hw,gpus,nodes,collective,bytes,time_us\n";
  std::vector<int> lines;
  for (const io::NcclTime& time : test.times) {
    CsvLine line;
    line.add(base.name);
    line.add(fmt::format("{}", test.ranks));
    line.add(fmt::format("{}", test.nodes));
    line.add(test.collective);
    line.add(fmt::format("{:.0f}", time.message.value()));
    line.add(fmt::format("{:.9g}", time.time.value() * 1e6));
    text += line.text();
    lines.push_back(time.line);
  }
  return {path, TableKind::Collective, io::CsvTable::parse(text, path), std::move(lines)};
}

bool is_base(const std::string& accelerator, const Cluster& base) {
  return accelerator == base.accelerator.name ||
         accelerator + " (changed)" == base.accelerator.name;
}

/// The accelerators that tables name must be that of the base, on one machine.
class MachineCheck {
 public:
  MachineCheck(const Cluster& base, const ShippedData& data) : base_(base), data_(data) {}

  void device(const std::string& name, FitTables& found) {
    if (const auto known = shipped_accelerator(name, data_)) {
      accelerators_.insert(*known);
    } else if (unknown_.insert(name).second && name != base_.accelerator.name) {
      found.remarks.push_back(fmt::format("no shipped accelerator is called \"{}\": taken to be {}",
                                          name, base_.accelerator.name));
    }
  }

  void cells(const KernelTable& table) {
    for (const char* column : {"gpu", "hw", "system"}) {
      if (!table.table.has(column)) continue;
      for (const io::CsvRow& row : table.table.rows()) cell(table, row, column);
    }
  }

  [[nodiscard]] std::optional<FitRefusal> contradiction() const {
    if (accelerators_.size() > 1) {
      return FitRefusal{
          fmt::format("the measurements mix accelerators: {}", fmt::join(accelerators_, ", ")),
          "fit a profile to those of one at a time"};
    }
    if (!accelerators_.empty() && !is_base(*accelerators_.begin(), base_)) {
      return FitRefusal{fmt::format("the measurements are on {}, --base {} has {}",
                                    *accelerators_.begin(), base_.name, base_.accelerator.name),
                        "name the profile of the machine that they are from with --base"};
    }
    if (machines_.size() > 1) {
      return FitRefusal{
          fmt::format("the measurements mix machines: {}", fmt::join(machines_, ", ")),
          "fit a profile to those of one at a time"};
    }
    return std::nullopt;
  }

 private:
  void cell(const KernelTable& table, const io::CsvRow& row, const char* column) {
    const std::string& name = table.table.text(row, column);
    if (name.empty() || !known_.insert(column + name).second) return;
    try {
      const fs::path beside = fs::path(table.file).parent_path() / name;
      std::error_code error;
      const std::string found = fs::is_regular_file(beside, error) ? beside.string() : name;
      const bool chip = std::string_view(column) == "gpu";
      if (chip && name == base_.accelerator.name) return;
      // As a driver calls it.
      const auto known = chip && found == name ? shipped_accelerator(name, data_) : std::nullopt;
      if (known) {
        accelerators_.insert(*known);
        return;
      }
      accelerators_.insert(chip ? data_.accelerator(found).name
                                : data_.cluster(found).accelerator.name);
      if (!chip) machines_.insert(data_.cluster(found).name);
    } catch (const InputError& error) {
      if (!error.where().file.empty()) throw;
      table.table.fail(row, column, error.what(), error.hint());
    }
  }

  const Cluster& base_;
  const ShippedData& data_;
  std::set<std::string> accelerators_;
  std::set<std::string> machines_;
  std::set<std::string> known_;
  std::set<std::string> unknown_;
};

std::vector<int> lines_of(const io::CsvTable& table) {
  return transformed(table.rows(), &io::CsvRow::line);
}

void read_csv(const std::string& path, std::string_view text, FitTables& found,
              MachineCheck& check) {
  io::CsvTable table = io::CsvTable::parse(text, path);
  const TableKind kind = recognise_table(table);
  if (kind == TableKind::Concurrency) {
    table.fail_header(fmt::format("a fit does not read tables of {}", to_text(kind)),
                      "it reads samples, runs, matrix products, attention, passes over memory, "
                      "collectives and logs of nccl-tests; "
                      "`plansearch validate` shows the error of this one");
  }
  if (table.rows().empty()) {
    table.fail_header("the table has a header but no rows", "add one line per measurement");
  }
  if (kind == TableKind::Runs) {
    found.runs.push_back(path);
    return;
  }
  std::vector<int> lines = lines_of(table);
  found.kernels.push_back({path, kind, std::move(table), std::move(lines)});
  check.cells(found.kernels.back());
}

KernelProfiles only(const Cluster& cluster) {
  return {[&](std::string_view) { return cluster.accelerator; },
          [&](std::string_view) { return cluster; }, [&] { return std::vector<Cluster>{cluster}; }};
}

void read_samples(const std::string& path, std::string_view text, const Cluster& base,
                  FitTables& found, MachineCheck& check) {
  const io::SampleFile samples = io::parse_samples(text, path);
  check.device(samples.machine.name, found);
  for (KernelTable& table : tables_of(samples, base.name))
    found.kernels.push_back(std::move(table));
  for (const io::Sample& sample : samples.samples) {
    if (sample.probe == "overlap" || sample.probe == "launch") found.singles.push_back(sample);
  }
  const auto failed =
      std::ranges::count_if(samples.samples, [](const io::Sample& s) { return !s.failed.empty(); });
  if (failed > 0) {
    found.remarks.push_back(fmt::format("{}: {} points could not be measured", path, failed));
  }
}

/// By its lines, whatever its size; a first line with the column of step times is that of a table.
bool is_log_of_training(const std::string& path) {
  static const io::LogFormats formats = log_formats(shipped_data());
  bool first = true;
  bool is_table = false;
  bool is_log = false;
  io::for_each_piece(path, [&](std::string_view piece) {
    if (std::exchange(first, false)) {
      const std::string_view line = piece.substr(0, piece.find('\n'));
      is_table = line.find("step_time_s") != line.npos || line.find(",model,") != line.npos ||
                 io::is_sample_file(piece);
    }
    is_log = is_log || (!is_table && io::is_training_log(piece, formats));
  });
  return is_log;
}

}  // namespace

std::optional<std::string> shipped_accelerator(std::string name, const ShippedData& data) {
  while (!name.empty()) {
    try {
      return data.accelerator(name).name;
    } catch (const InputError& error) {
      if (!error.where().file.empty()) throw;
    }
    const std::size_t space = name.find(' ');
    const std::string_view first = std::string_view(name).substr(0, space);
    if (space == std::string::npos || first.find_first_of("0123456789") != first.npos) break;
    name.erase(0, space + 1);
  }
  return std::nullopt;
}

KernelTable KernelTable::subset(const std::vector<std::size_t>& rows) const {
  std::string text = csv_header(table);
  std::vector<int> kept;
  for (const std::size_t row : rows) {
    CsvLine line;
    for (const io::CsvCell& cell : table.rows()[row].cells) line.add(cell.text);
    text += line.text();
    kept.push_back(lines[row]);
  }
  return {file, kind, io::CsvTable::parse(text, file), std::move(kept)};
}

std::string KernelTable::place(std::size_t row) const {
  return fmt::format("{} line {}", fs::path(file).filename().string(), lines[row]);
}

FitTables read_fit_tables(const std::vector<std::string>& paths, const Cluster& base,
                          const ShippedData& data) {
  FitTables found;
  MachineCheck check(base, data);
  for (const std::string& path : paths) {
    if (is_log_of_training(path)) {
      found.logs.push_back(path);
      continue;
    }
    const std::string text = io::read_file(path, io::kLargestSampleFile);
    if (io::is_sample_file(text)) {
      read_samples(path, text, base, found, check);
      continue;
    }
    if (!io::is_nccl_log(text)) {
      read_csv(path, text, found, check);
      continue;
    }
    for (const io::NcclTest& test : io::parse_nccl_log(text, path)) {
      check.device(test.device, found);
      found.kernels.push_back(table_of(test, path, base));
    }
  }
  found.mixed = check.contradiction();
  return found;
}

KernelSample::KernelSample(const std::vector<KernelTable>& tables, TableKind kind,
                           const Cluster& base,
                           const std::function<bool(const KernelRow&)>& belongs,
                           std::vector<std::string>& unused) {
  for (const KernelTable& table : tables) {
    if (table.kind == kind) add(table, base, belongs, unused);
  }
}

void KernelSample::add(const KernelTable& table, const Cluster& base,
                       const std::function<bool(const KernelRow&)>& belongs,
                       std::vector<std::string>& unused) {
  const auto rows = predict_kernels(table.table, table.kind, only(base));
  std::vector<std::size_t> kept;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!belongs(rows[row])) continue;
    if (rows[row].measured && rows[row].predicted) {
      kept.push_back(row);
      measured_.push_back(std::log(rows[row].measured->value()));
      predicted_.push_back(std::log(rows[row].predicted->value()));
    } else {
      unused.push_back(fmt::format("{}: {}", table.place(row), rows[row].reason));
    }
  }
  if (!kept.empty()) tables_.push_back(table.subset(kept));
}

std::vector<double> KernelSample::predict(const Cluster& cluster) const {
  std::vector<double> logs;
  for (const KernelTable& table : tables_) {
    for (const KernelRow& row : predict_kernels(table.table, table.kind, only(cluster))) {
      logs.push_back(std::log(row.predicted.value().value()));
    }
  }
  return logs;
}

std::string KernelSample::place(std::size_t row) const {
  std::size_t at = row;
  for (const KernelTable& table : tables_) {
    if (at < table.lines.size()) return table.place(at);
    at -= table.lines.size();
  }
  return {};
}

std::vector<std::string> KernelSample::files() const {
  std::vector<std::string> names;
  for (const KernelTable& table : tables_) {
    if (names.empty() || names.back() != table.file) names.push_back(table.file);
  }
  return names;
}

std::size_t KernelSample::sizes() const {
  return std::set<double>(predicted_.begin(), predicted_.end()).size();
}

double KernelSample::ratio() const {
  std::vector<double> logs;
  for (std::size_t row = 0; row < measured_.size(); ++row) {
    logs.push_back(measured_[row] - predicted_[row]);
  }
  return std::exp(median(std::move(logs)));
}

}  // namespace plansearch
