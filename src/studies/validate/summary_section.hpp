// SPDX-License-Identifier: Apache-2.0
// Tables about all groups of a summary, with and without the rows under suspicion.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/text_table.hpp"
#include "studies/validate/run_report.hpp"
#include "studies/validate/run_summary.hpp"

namespace plansearch {

/// A group of all rows, and the same group without the suspects where there are any.
struct GroupPair {
  const GroupSummary* all = nullptr;
  const GroupSummary* trusted = nullptr;
};

[[nodiscard]] std::vector<GroupPair> pair_up(const RunReport& report);

/// Adds cells at the end of a line.
void append(std::vector<std::string>& cells, std::vector<std::string> more);

/// Of a group: shortened where it is long.
[[nodiscard]] std::string group_name(const GroupSummary& group);

/// One table about all groups: titles and cells of one group, repeated for the trusted rows.
class Section {
 public:
  Section(const RunReport& report, const std::string& title, std::vector<std::string> columns);

  /// Cells of a group; no cells: the group has nothing to say here.
  template <typename Cells>
  void add(const GroupPair& pair, const Cells& cells_of) {
    add(pair, group_name(*pair.all), cells_of);
  }
  /// The same under another name.
  template <typename Cells>
  void add(const GroupPair& pair, const std::string& name, const Cells& cells_of) {
    std::vector<std::string> cells = cells_of(*pair.all);
    if (cells.empty()) return;
    add_line(
        pair.all->by, name, std::move(cells),
        pair.trusted == nullptr || !twice_ ? std::vector<std::string>{} : cells_of(*pair.trusted));
  }

  [[nodiscard]] std::string text(int columns) const {
    return any_ ? "\n" + table_.text(columns) : "";
  }

 private:
  [[nodiscard]] std::vector<TextColumn> titles(const std::string& title) const;
  void add_line(const std::string& by, const std::string& name, std::vector<std::string> cells,
                std::vector<std::string> trusted);
  void begin_group(const std::string& by);

  std::vector<std::string> columns_;
  bool twice_;
  TextTable table_;
  std::string by_;
  bool any_ = false;
};

}  // namespace plansearch
