// SPDX-License-Identifier: Apache-2.0
// Facts about the architecture of a measured run that its columns cannot hold
// (validation/architectures.yaml): published facts and stated assumptions, matched by columns and
// label, later entries first.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evidence/validate/run_record.hpp"
#include "io/document/document.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/schedule_id.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

struct ArchitectureEntry {
  std::string name;
  std::map<std::string, std::vector<std::string>> columns;  ///< column, values it may have
  std::vector<std::string> text_has;     ///< ... in the label, the source or the schedule
  std::vector<std::string> label_has;    ///< one of these must occur in the label
  std::vector<std::string> label_lacks;  ///< none of these may
  /// Shipped model whose remaining switches are taken when its sizes are the row's.
  std::optional<ModelDescription> like;
  /// Each replaces what the columns and earlier entries gave.
  std::vector<std::function<void(ModelDescription&)>> facts;
  bool unfused_only = false;  ///< its attention, whatever the column says
  /// Values of columns that the row leaves empty: settings as flags write them, degrees.
  std::vector<std::pair<const SettingRow*, std::string>> settings;
  bool replaces = false;  ///< the settings hold whatever the row says: its table has them wrong
  PinnedDegrees degrees;
  std::map<std::string, std::string, std::less<>> others{};  ///< of kOtherColumns
  std::string inexpressible;                                 ///< not empty: why no description fits
};

/// Columns of runs that entries may fill besides settings and degrees: the framework as it was then
/// (the name of a shipped one), layers of every chunk (run_prediction.hpp), whether forwards run
/// beside backwards, whose memory was read.
inline constexpr std::array<std::string_view, 4> kOtherColumns{"release", "stage_layers",
                                                               "expert_overlap", "mem_rank"};

/// Names of pipeline orders in tables of runs (`schedules:`).
struct ScheduleWords {
  std::map<std::string, ScheduleId, std::less<>> orders;  ///< by words, in lower case
  std::set<std::string, std::less<>> remarks;             ///< parts that change no order

  /// Text in brackets is a remark, parts behind commas and semicolons have to be known ones.
  [[nodiscard]] std::optional<ScheduleId> find(std::string_view text) const;
};

[[nodiscard]] ScheduleWords read_schedule_words(const io::Node& node);

struct ArchitectureTable {
  std::int64_t default_vocab = 0;
  std::map<std::string, MemoryRank, std::less<>> memory_figures;  ///< by framework
  std::vector<ArchitectureEntry> entries;
  ScheduleWords schedules{};

  /// The worst stage where nothing is known of the framework.
  [[nodiscard]] MemoryRank memory_figure(std::string_view framework) const;
  /// The row's cell of one of kOtherColumns, else what the last entry that holds says of it.
  [[nodiscard]] std::string cell(const RunRecord& run, const std::string& column) const;
  /// Entries that hold for the row, first to last.
  [[nodiscard]] std::vector<const ArchitectureEntry*> matching(const RunRecord& run) const;
};

[[nodiscard]] ArchitectureTable read_architectures(const std::filesystem::path& path,
                                                   const ModelFinder& find_model);

/// validation/architectures.yaml of the shipped data.
[[nodiscard]] ArchitectureTable shipped_architectures(const ShippedData& data);

}  // namespace plansearch
