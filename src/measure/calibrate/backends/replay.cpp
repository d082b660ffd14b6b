// SPDX-License-Identifier: Apache-2.0
// Tables as `validate` reads them, of one machine, in the place of a device.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/names.hpp"
#include "evidence/evidence.hpp"
#include "io/tables/csv.hpp"
#include "measure/calibrate/backend.hpp"
#include "plansearch/error.hpp"

namespace plansearch::calibrate {
namespace {

struct CellRow {
  std::string_view cell;
  std::string_view otherwise{};  ///< empty: the row is left out
  /// Hold it, the first that a table has; none: the column of its name.
  std::array<std::string_view, 2> columns{};
};
constexpr std::array kGemm{CellRow{"dtype", "bf16"}, CellRow{"m"}, CellRow{"n"}, CellRow{"k"}};
constexpr std::array kAttention{CellRow{"direction", "forward"},
                                CellRow{"mask", "causal"},
                                CellRow{"dtype", "bf16"},
                                CellRow{"batch"},
                                CellRow{"seq_len"},
                                CellRow{"heads"},
                                CellRow{"kv_heads"},
                                CellRow{"head_dim"}};
constexpr std::array kStream{CellRow{"pass"}, CellRow{"bytes"}};
constexpr std::array kCollective{CellRow{"collective"}, CellRow{"ranks", "", {"ranks", "gpus"}},
                                 CellRow{"nodes", "1"},
                                 CellRow{"bytes", "", {"message_bytes", "bytes"}}};

struct ReplayKind {
  TableKind table;
  std::string_view probe;
  std::span<const CellRow> cells;
};
const std::array kReplayKinds{ReplayKind{TableKind::Matmul, "gemm", kGemm},
                              ReplayKind{TableKind::Attention, "attention", kAttention},
                              ReplayKind{TableKind::Stream, "stream", kStream},
                              ReplayKind{TableKind::Collective, "collective", kCollective}};

std::string cell_of(const io::CsvTable& table, const io::CsvRow& row, const CellRow& cell) {
  const std::array own{cell.cell, std::string_view()};
  for (const std::string_view column : cell.columns.front().empty() ? own : cell.columns) {
    if (column.empty() || !table.has(column)) continue;
    std::string text = table.text(row, column);
    if (cell.cell == "collective") {
      for (char& letter : text) letter = letter == '-' ? '_' : letter;
    }
    if (!text.empty()) return text;
  }
  return std::string(cell.otherwise);
}

class ReplayBackend final : public Backend {
 public:
  ReplayBackend(const BackendOptions& options, const ShippedData& data) {
    data_ = &data;
    for (const std::string& path : options.tables) read(path, options.truth);
    if (machines_.empty() || times_.empty()) {
      throw InputError({options.tables.front(), 0, 0},
                       options.truth.empty()
                           ? "no row of the tables has a time"
                           : fmt::format("no row of the tables is of {}", options.truth),
                       "name the machine of the rows with --truth");
    }
    if (machines_.size() > 1) {
      throw InputError(
          {options.tables.front(), 0, 0},
          fmt::format("the tables hold several machines: {}", fmt::join(machines_, ", ")),
          "name one with --truth");
    }
    describe(*machines_.begin(), data);
  }

  [[nodiscard]] io::SampledMachine machine() const override { return machine_; }
  [[nodiscard]] double flop_rate() const override { return 1e15; }
  [[nodiscard]] double byte_rate() const override { return 1e12; }
  [[nodiscard]] std::vector<std::string> formats() const override { return {}; }

  [[nodiscard]] std::optional<std::string> lacks(const Probe& probe) const override {
    if (points_.contains(probe.name)) return std::nullopt;
    return "no table holds such times";
  }
  [[nodiscard]] std::optional<std::vector<Point>> recorded(const Probe& probe) const override {
    const auto found = points_.find(probe.name);
    return found == points_.end() ? std::vector<Point>() : found->second;
  }
  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    const auto time = times_.find(point.key());
    if (time == times_.end()) throw Unmeasurable{"no table holds this point"};
    return trial_of([time = time->second](int calls) { return time * calls; });
  }

 private:
  void read(const std::string& path, const std::string& wanted) {
    const io::CsvTable table = io::CsvTable::read(path);
    const TableKind kind = recognise_table(table);
    for (const ReplayKind& row : kReplayKinds) {
      if (row.table != kind) continue;
      for (const io::CsvRow& line : table.rows()) read_row(table, line, row, wanted);
      return;
    }
    table.fail_header(fmt::format("a table of {} is not replayed", plansearch::to_text(kind)),
                      "matrix products, attention, passes over memory and collectives are");
  }

  void read_row(const io::CsvTable& table, const io::CsvRow& line, const ReplayKind& kind,
                const std::string& wanted) {
    constexpr double kMicrosecond = 1e-6;
    std::string name;
    for (const char* column : {"gpu", "hw", "system"}) {
      if (name.empty() && table.has(column)) name = table.text(line, column);
    }
    if (!wanted.empty() && known_name(name) != known_name(wanted)) return;
    const auto time = table.number(line, "time_us", 0.0);
    if (!time || *time <= 0.0) return;
    Point point{kind.probe, {}};
    for (const CellRow& cell : kind.cells) {
      std::string text = cell_of(table, line, cell);
      if (text.empty()) return;
      point.cells[std::string(cell.cell)] = std::move(text);
    }
    machines_.insert(known_name(name));
    if (!times_.emplace(point.key(), *time * kMicrosecond).second) return;  // the first is kept
    points_[std::string(kind.probe)].push_back(std::move(point));
  }

  /// Name of the shipped accelerator or cluster where there is one: tables write names in many
  /// ways.
  std::string known_name(const std::string& name) {
    const auto [found, fresh] = known_.emplace(name, canonical_name(name));
    if (!fresh) return found->second;
    try {
      found->second = data_->accelerator(name).name;
    } catch (const InputError&) {
      try {
        found->second = data_->cluster(name).name;
      } catch (const InputError&) {  // its own name is all there is
      }
    }
    return found->second;
  }

  /// As the shipped profile of that name describes it.
  void describe(const std::string& name, const ShippedData& data) {
    machine_.backend = "replay";
    machine_.name = name;
    Accelerator chip;
    try {
      chip = data.accelerator(name);
    } catch (const InputError&) {
      const Cluster cluster = data.cluster(name);
      machine_.accelerators = cluster.accelerators_per_node;
      chip = cluster.accelerator;
    }
    for (const Point& point : points_["collective"]) {
      if (point.number("nodes") > 1.0) continue;
      machine_.accelerators =
          std::max(machine_.accelerators, static_cast<int>(point.number("ranks")));
    }
    if (points_["collective"].empty()) points_.erase("collective");
    machine_.name = chip.name;
    machine_.multiprocessors = chip.multiprocessors;
    machine_.memory_bytes = chip.memory.value();
    machine_.cache_bytes = chip.l2_cache.value();
  }

  const ShippedData* data_ = nullptr;  ///< while tables are read
  std::map<std::string, std::string> known_;
  std::map<std::string, double> times_;
  std::map<std::string, std::vector<Point>, std::less<>> points_;
  std::set<std::string> machines_;
  io::SampledMachine machine_;
};

}  // namespace

std::unique_ptr<Backend> make_replay(const BackendOptions& options, const ShippedData& data) {
  if (options.tables.empty()) {
    throw InputError({}, "there is nothing to replay", "name tables with --table");
  }
  return std::make_unique<ReplayBackend>(options, data);
}

}  // namespace plansearch::calibrate
