// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/summary_section.hpp"

#include <algorithm>

#include "studies/validate/summary_text.hpp"

namespace plansearch {

std::vector<GroupPair> pair_up(const RunReport& report) {
  std::vector<GroupPair> pairs;
  const std::vector<GroupSummary>& groups = report.sets.front().groups;
  for (const GroupSummary& group : groups) pairs.push_back({&group, nullptr});
  if (report.sets.size() < 2) return pairs;
  for (const GroupSummary& group : report.sets[1].groups) {
    const auto same = std::find_if(pairs.begin(), pairs.end(), [&](const GroupPair& pair) {
      return pair.all->by == group.by && pair.all->value == group.value;
    });
    if (same != pairs.end()) same->trusted = &group;
  }
  return pairs;
}

void append(std::vector<std::string>& cells, std::vector<std::string> more) {
  for (std::string& cell : more) cells.push_back(std::move(cell));
}

std::string group_name(const GroupSummary& group) {
  return group.by == "all" ? "all" : "  " + shortened(group.value);
}

Section::Section(const RunReport& report, const std::string& title,
                 std::vector<std::string> columns)
    : columns_(std::move(columns)), twice_(report.sets.size() > 1), table_(titles(title)) {}

std::vector<TextColumn> Section::titles(const std::string& title) const {
  std::vector<TextColumn> all{{title, Align::Left}};
  for (const std::string& column : columns_) all.push_back({column});
  if (!twice_) return all;
  for (const std::string& column : columns_) all.push_back({column + "*"});
  return all;
}

void Section::add_line(const std::string& by, const std::string& name,
                       std::vector<std::string> cells, std::vector<std::string> trusted) {
  begin_group(by);
  std::vector<std::string> line{name};
  append(line, std::move(cells));
  if (twice_) {
    if (trusted.empty()) trusted.assign(columns_.size(), "-");
    append(line, std::move(trusted));
  }
  table_.add_row({line.begin(), line.end()});
  any_ = true;
}

void Section::begin_group(const std::string& by) {
  if (by == by_ || by == "all") return;
  by_ = by;
  std::vector<Cell> line(1 + columns_.size() * (twice_ ? 2 : 1), "");
  line.front() = "by " + by;
  table_.add_row(std::move(line));
}

}  // namespace plansearch
