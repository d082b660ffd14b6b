// SPDX-License-Identifier: Apache-2.0
#include "io/logs/line_pattern.hpp"
#include "base/units.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/names.hpp"

namespace plansearch::io {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kLeaders = " .";

/// Without `words` at its front, which may have blanks and leaders.
std::optional<std::string_view> after_words(std::string_view text, std::string_view words) {
  for (const char c : words) {
    if (c == ' ' || c == '~') {
      text.remove_prefix(
          std::min(text.find_first_not_of(c == ' ' ? kBlanks : kLeaders), text.size()));
    } else if (text.empty() || text.front() != c) {
      return std::nullopt;
    } else {
      text.remove_prefix(1);
    }
  }
  return text;
}

/// The place of a word from `from` on.
std::size_t find_words(std::string_view line, std::string_view word, std::size_t from) {
  if (from >= line.size()) return std::string_view::npos;
  const void* found = ::memmem(line.data() + from, line.size() - from, word.data(), word.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - line.data());
}

/// A decimal number at the front of the text, which it is taken from.
std::optional<double> take_number(std::string_view& text) {
  std::string_view token = text.substr(0, text.find_first_not_of("0123456789.,eE+-"));
  token = token.substr(0, token.find_last_not_of(',') + 1);
  const std::string digits = without_grouping(token);
  double value = 0.0;
  const char* end = digits.data() + digits.size();
  const auto [read, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(token.size() - static_cast<std::size_t>(end - read));
  return value;
}

/// "1:02:03" or "02:03" in seconds.
std::optional<double> take_clock(std::string_view& text) {
  double seconds = 0.0;
  for (;;) {
    const auto part = take_number(text);
    if (!part) return std::nullopt;
    seconds = seconds * 60.0 + *part;
    if (text.empty() || text.front() != ':') return seconds;
    text.remove_prefix(1);
  }
}

/// The factor of a thousand that a number ends in; 1 without one.
double take_thousands(std::string_view& text) {
  constexpr std::string_view kLetters = "KMGTP";
  const std::size_t power = text.empty() ? std::string_view::npos : kLetters.find(text.front());
  const bool ends = text.size() < 2 || std::isalnum(static_cast<unsigned char>(text[1])) == 0;
  if (power == std::string_view::npos || !ends) return 1.0;
  text.remove_prefix(1);
  return std::pow(1000.0, static_cast<double>(power + 1));
}

}  // namespace

std::optional<LinePattern> LinePattern::read(std::string_view text) {
  LinePattern pattern;
  pattern.at_start_ = text.starts_with('^');
  if (pattern.at_start_) text.remove_prefix(1);
  const std::size_t open = text.find('{');
  pattern.number_ = open != std::string_view::npos;
  pattern.before_ = trimmed(text.substr(0, open));
  if (pattern.number_) {
    const std::size_t close = text.find('}', open);
    if (close == std::string_view::npos) return std::nullopt;
    pattern.unit_ = text.substr(open + 1, close - open - 1);
    pattern.after_ = text.substr(close + 1);
  }
  if (pattern.before_.empty() && !pattern.at_start_) return std::nullopt;
  return pattern;
}

std::optional<double> LinePattern::number_at(std::string_view rest) const {
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  const auto value = unit_ == "clock" ? take_clock(rest) : take_number(rest);
  if (!value) return std::nullopt;
  if (after_words(rest, after_)) return *value;
  const double factor = take_thousands(rest);
  if (factor == 1.0 || !after_words(rest, after_)) return std::nullopt;
  return *value * factor;
}

std::optional<double> LinePattern::find(std::string_view line) const {
  const std::string_view first = std::string_view(before_).substr(0, before_.find(' '));
  std::size_t at = at_start_ ? line.find_first_not_of(kBlanks) : find_words(line, first, 0);
  while (at != std::string_view::npos) {
    if (const auto rest = after_words(line.substr(at), before_)) {
      if (!number_) return 1.0;
      if (const auto value = number_at(*rest)) return value;
    }
    if (at_start_) break;
    at = find_words(line, first, at + 1);
  }
  return std::nullopt;
}

bool has_word(std::string_view line, std::string_view word) {
  return find_words(line, word, 0) != std::string_view::npos;
}

std::string without_colours(std::string_view line) {
  std::string text;
  text.reserve(line.size());
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\x1b' && at + 1 < line.size() && line[at + 1] == '[') {
      const std::size_t end = line.find_first_not_of("0123456789;?", at + 2);
      if (end == std::string_view::npos) break;
      at = end;
    } else {
      text += line[at];
    }
  }
  return text;
}

}  // namespace plansearch::io
