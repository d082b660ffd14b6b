// SPDX-License-Identifier: Apache-2.0
// What the columns of a measured run cannot say about its architecture
// (validation/architectures.yaml): published facts and stated assumptions, matched by columns and
// label, later entries first.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/model_description.hpp"
#include "studies/validate/run_record.hpp"
#include "studies/validate/schedule_words.hpp"

namespace plansearch {

struct ArchitectureEntry {
  std::string name;
  std::map<std::string, std::string> columns;  ///< column, value it must have
  std::vector<std::string> label_has;          ///< one of these must occur in the label
  std::vector<std::string> label_lacks;        ///< none of these may
  /// Shipped model whose remaining switches are taken when its sizes are the row's.
  std::optional<ModelDescription> like;
  /// Each replaces what the columns and earlier entries gave.
  std::vector<std::function<void(ModelDescription&)>> facts;
  bool unfused_only = false;  ///< its attention, whatever the column says
  std::string inexpressible;  ///< not empty: why no description fits
};

struct ArchitectureTable {
  std::int64_t default_vocab = 0;
  std::map<std::string, MemoryRank, std::less<>> memory_figures;  ///< by framework
  std::vector<ArchitectureEntry> entries;
  ScheduleWords schedules{};

  /// The worst stage where nothing is known of the framework.
  [[nodiscard]] MemoryRank memory_figure(std::string_view framework) const;
  /// Entries that hold for the row, first to last.
  [[nodiscard]] std::vector<const ArchitectureEntry*> matching(const RunRecord& run) const;
};

[[nodiscard]] ArchitectureTable read_architectures(const std::filesystem::path& path,
                                                   const ModelFinder& find_model);

}  // namespace plansearch
