// SPDX-License-Identifier: Apache-2.0
#include "exchange/launch/marked_text.hpp"

#include <algorithm>

namespace plansearch::importers {

MarkedText MarkedText::part(std::size_t begin, std::size_t length) const {
  MarkedText result;
  result.text = text.substr(begin, length);
  const auto first = at.begin() + static_cast<std::ptrdiff_t>(begin);
  result.at.assign(first, first + static_cast<std::ptrdiff_t>(result.text.size()));
  return result;
}

std::optional<std::string> unknown_in(std::string_view text) {
  const auto begin = text.find(kUnknown);
  if (begin == std::string_view::npos) return std::nullopt;
  const auto end = text.find(kEndOfName, begin);
  return std::string(text.substr(begin + 1, end - begin - 1));
}

std::string spelled(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kUnknown) {
      const bool command = i + 1 < text.size() && (text[i + 1] == '$' || text[i + 1] == '`');
      if (!command) result += '$';
    } else if (text[i] != kEndOfName) {
      result += text[i];
    }
  }
  return result;
}

std::optional<std::string> without_unset(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != kUnknown) {
      result += text[i];
      continue;
    }
    const auto end = std::min(text.find(kEndOfName, i), text.size() - 1);
    const std::string_view name = text.substr(i + 1, end - i - 1);
    const bool variable = std::all_of(name.begin(), name.end(), [](char c) {
      return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    });
    if (!variable) return std::nullopt;
    i = end;
  }
  return result;
}

void Script::add(std::string_view text, std::string file) {
  const auto begin = static_cast<std::uint32_t>(text_.text.size());
  files_.push_back({std::move(file), begin});
  std::uint32_t offset = begin;
  for (char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if ((code < 0x20 && letter != '\n' && letter != '\t') || code == 0x7f) letter = '?';
    if (code == '\r') letter = ' ';
    text_.add(letter, offset++);
  }
  text_.add('\n', offset);
}

SourceLocation Script::place(std::uint32_t offset) const {
  SourceLocation place;
  std::uint32_t begin = 0;
  for (const File& file : files_) {
    if (file.begin > offset) break;
    place.file = file.name;
    begin = file.begin;
  }
  place.line = place.column = 1;
  for (std::uint32_t i = begin; i < offset && i < text_.text.size(); ++i) {
    ++place.column;
    if (text_.text[i] == '\n') {
      ++place.line;
      place.column = 1;
    }
  }
  return place;
}

}  // namespace plansearch::importers
