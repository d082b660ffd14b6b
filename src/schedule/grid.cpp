// SPDX-License-Identifier: Apache-2.0
// Computes:   timelines drawn as text, and read back.
// Source:     definitions in timeline.hpp.
// Assumes:    at most 26 chunks per device in a drawing.
// Units:      slots.
// Checked by: tests/unit/schedule/timeline_test.cpp
#include <algorithm>
#include <charconv>
#include <numeric>

#include "plansearch/error.hpp"
#include "schedule/timeline.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kPhases = "FBW";

std::string cell_text(const std::optional<ComputeStep>& cell, bool several_chunks) {
  if (!cell) return ".";
  std::string text(1, kPhases[static_cast<std::size_t>(cell->phase)]);
  text += std::to_string(cell->micro_batch);
  if (several_chunks) text += static_cast<char>('a' + cell->chunk);
  return text;
}

[[noreturn]] void refuse(std::size_t line, std::size_t column, const std::string& message) {
  throw InputError({"grid", static_cast<int>(line), static_cast<int>(column + 1)}, message,
                   "a row is 'stage 0 | F0 F1 . B0 B1'; a cell is '.', or F, B or W with a "
                   "micro-batch and, with several chunks, a letter");
}

std::optional<ComputeStep> parse_cell(std::string_view word, std::size_t line, std::size_t column) {
  if (word == ".") return std::nullopt;
  const std::size_t phase = kPhases.find(word.front());
  if (phase == std::string_view::npos) refuse(line, column, "not a cell: " + std::string(word));
  ComputeStep step{0, 0, static_cast<Phase>(phase)};
  const char* end = word.data() + word.size();
  const auto parsed = std::from_chars(word.data() + 1, end, step.micro_batch);
  const bool letter = end - parsed.ptr == 1 && *parsed.ptr >= 'a' && *parsed.ptr <= 'z';
  if (parsed.ec != std::errc{} || step.micro_batch < 0 || (parsed.ptr != end && !letter)) {
    refuse(line, column, "not a cell: " + std::string(word));
  }
  if (letter) step.chunk = *parsed.ptr - 'a';
  return step;
}

GridRow parse_row(std::string_view text, std::size_t line, std::size_t start) {
  GridRow row;
  std::size_t at = start;
  while (at < text.size()) {
    if (text[at] == ' ' || text[at] == '\r') {
      ++at;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" \r", at), text.size());
    row.push_back(parse_cell(text.substr(at, end - at), line, at));
    at = end;
  }
  return row;
}

}  // namespace

Ticks common_slot(const Timeline& timeline) {
  Ticks slot = 0;
  for (const TimelineEntry& entry : timeline.entries) {
    slot = std::gcd(slot, std::gcd(entry.start, entry.end));
  }
  return std::max<Ticks>(slot, 1);
}

Grid make_grid(const Timeline& timeline, Ticks slot) {
  const auto columns = static_cast<std::size_t>(timeline.makespan() / slot);
  Grid grid;
  grid.rows.assign(static_cast<std::size_t>(timeline.devices), GridRow(columns));
  for (const TimelineEntry& entry : timeline.entries) {
    PLANSEARCH_CHECK(entry.start % slot == 0 && entry.end % slot == 0);
    GridRow& row = grid.rows[static_cast<std::size_t>(entry.device)];
    for (Ticks i = entry.start / slot; i < entry.end / slot; ++i) {
      row[static_cast<std::size_t>(i)] = entry.step;
    }
  }
  return grid;
}

std::string to_text(const Grid& grid) {
  bool several_chunks = false;
  for (const GridRow& row : grid.rows) {
    for (const auto& cell : row) several_chunks = several_chunks || (cell && cell->chunk > 0);
  }
  std::size_t width = 1;
  for (const GridRow& row : grid.rows) {
    for (const auto& cell : row) width = std::max(width, cell_text(cell, several_chunks).size());
  }
  const std::size_t digits = std::to_string(std::max<std::size_t>(grid.rows.size(), 1) - 1).size();
  std::string text;
  for (std::size_t r = 0; r < grid.rows.size(); ++r) {
    const std::string number = std::to_string(r);
    std::string line = "stage " + number + std::string(digits - number.size(), ' ') + " |";
    for (const auto& cell : grid.rows[r]) {
      const std::string word = cell_text(cell, several_chunks);
      line += " " + word + std::string(width - word.size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Grid parse_grid(std::string_view text) {
  Grid grid;
  std::size_t line = 0;
  while (!text.empty()) {
    ++line;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.find_first_not_of(" \r") == std::string_view::npos) continue;
    const std::size_t bar = row.find('|');
    if (bar == std::string_view::npos) refuse(line, 0, "a row without '|'");
    grid.rows.push_back(parse_row(row, line, bar + 1));
  }
  return grid;
}

}  // namespace plansearch
