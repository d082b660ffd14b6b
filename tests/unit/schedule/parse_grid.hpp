// SPDX-License-Identifier: Apache-2.0
// Timelines written as text, as to_text draws them.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "plansearch/error.hpp"
#include "schedule/program/timeline.hpp"

namespace plansearch::testing {

[[noreturn]] inline void refuse(std::size_t line, std::size_t column, const std::string& message) {
  throw InputError({"grid", static_cast<int>(line), static_cast<int>(column + 1)}, message,
                   "a row is 'stage 0 | F0 F1 . B0 B1'; a cell is '.', or F, B or W with a "
                   "micro-batch and, with several chunks, a letter");
}

inline std::optional<ComputeStep> parse_cell(std::string_view word, std::size_t line,
                                             std::size_t column) {
  if (word == ".") return std::nullopt;
  const std::size_t phase = std::string_view("FBW").find(word.front());
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

inline GridRow parse_row(std::string_view text, std::size_t line, std::size_t start) {
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

/// Throws InputError at the line and column of what is not a grid.
inline Grid parse_grid(std::string_view text) {
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

}  // namespace plansearch::testing
