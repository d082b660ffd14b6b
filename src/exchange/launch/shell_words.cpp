// SPDX-License-Identifier: Apache-2.0
#include "exchange/launch/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plansearch::importers {
namespace {

constexpr std::size_t kMostText = 1 << 20;  // of one word
constexpr int kDeepest = 100;
constexpr std::string_view kBlanks = " \t\n";

/// Letters of the placeholder of an unknown value at `at`, with its two marks; 1 for other text.
std::size_t letters_of(std::string_view text, std::size_t at) {
  if (text[at] != kUnknown) return 1;
  const auto end = text.find(kEndOfName, at);
  return (end == std::string_view::npos ? text.size() : end + 1) - at;
}

bool starts_name(char c) {
  return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool in_name(char c) {
  return starts_name(c) || is_digit(c);
}
bool ends_word(char c) {
  return std::string_view(" \t\n;&|()<>").find(c) != std::string_view::npos || c == '\0';
}

MarkedText one_letter(char letter, std::uint32_t offset) {
  MarkedText text;
  text.add(letter, offset);
  return text;
}

}  // namespace

std::optional<MarkedText> variable_text(const Variables& variables, std::string_view name) {
  const auto found = variables.find(name);
  if (found == variables.end()) return std::nullopt;
  return found->second.values.empty() ? MarkedText{} : found->second.values.front();
}

void ShellWords::skip_blanks() {
  for (;;) {
    if (peek() == ' ' || peek() == '\t') {
      skip();
    } else if (peek() == '\\' && peek(1) == '\n') {
      skip(2);
    } else if (peek() == '#') {  // asked for where a word could start
      static_cast<void>(rest_of_line());
    } else {
      return;
    }
  }
}

MarkedText ShellWords::rest_of_line() {
  const std::size_t begin = next_;
  next_ = std::min(source_.text.find('\n', begin), end_);
  return source_.part(begin, next_ - begin);
}

std::optional<ShellWords::Assignment> ShellWords::assignment() {
  if (!starts_name(peek())) return std::nullopt;
  std::size_t end = 0;
  while (in_name(peek(end))) ++end;
  const bool append = peek(end) == '+' && peek(end + 1) == '=';
  if (!append && peek(end) != '=') return std::nullopt;
  Assignment found{source_.text.substr(next_, end), append, offset()};
  skip(end + (append ? 2 : 1));
  return found;
}

bool ShellWords::at_word() const {
  return !at_end() && !ends_word(peek());
}

void ShellWords::put(ShellWord& word, const MarkedText& value, bool split) {
  if (word.parts.empty()) word.parts.emplace_back();
  word.letters += value.text.size();
  if (word.letters > kMostText) {
    throw InputError({}, "a variable of the script grows beyond a million letters",
                     "is it made of itself?");
  }
  if (!split) {
    word.parts.back().add(value);
    return;
  }
  for (std::size_t i = 0; i < value.text.size();) {
    const std::size_t letters = letters_of(value.text, i);
    const bool blank = letters == 1 && kBlanks.find(value.text[i]) != std::string_view::npos;
    if (!blank) {
      word.parts.back().add(value.part(i, letters));
    } else if (!word.parts.back().empty()) {
      word.parts.emplace_back();
    }
    i += letters;
  }
}

ShellWord ShellWords::word(bool whole) {
  ShellWord word;
  while (!at_end() && !ends_word(peek())) {
    const char c = peek();
    if (c == '\\') {
      if (peek(1) != '\n' && next_ + 1 < end_) put(word, source_.part(next_ + 1, 1), false);
      skip(2);
    } else if (c == '\'') {
      word.quoted = true;
      const auto end = std::min(source_.text.find('\'', next_ + 1), end_);
      put(word, source_.part(next_ + 1, end - next_ - 1), false);
      next_ = end + 1;
    } else if (c == '"') {
      word.quoted = true;
      double_quoted(word, whole);
    } else if (c == '$') {
      dollar(word, false, whole);
    } else if (c == '`') {
      command(word, 1, '`', '`');
    } else {
      letter(word);
    }
  }
  next_ = std::min(next_, end_);
  if (word.quoted && word.parts.empty()) word.parts.emplace_back();
  // Splitting leaves no empty part after the last blank.
  while (!word.quoted && !word.parts.empty() && word.parts.back().empty()) word.parts.pop_back();
  return word;
}

void ShellWords::letter(ShellWord& word) {
  const std::size_t letters = letters_of(source_.text, next_);
  put(word, source_.part(next_, letters), false);
  skip(letters);
}

void ShellWords::double_quoted(ShellWord& word, bool whole) {
  skip();
  quoted(word, whole, '"');
  skip();
}

MarkedText ShellWords::document() {
  ShellWord word;
  quoted(word, true, '\0');
  return word.parts.front();
}

void ShellWords::quoted(ShellWord& word, bool whole, char end) {
  if (word.parts.empty()) word.parts.emplace_back();
  while (!at_end() && peek() != end) {
    const char c = peek();
    if (c == '\\' && std::string_view("$`\"\\\n").find(peek(1)) != std::string_view::npos &&
        next_ + 1 < end_) {
      if (peek(1) != '\n') put(word, source_.part(next_ + 1, 1), false);
      skip(2);
    } else if (c == '$') {
      dollar(word, true, whole);
    } else if (c == '`') {
      command(word, 1, '`', '`');
    } else {
      letter(word);
    }
  }
}

/// Skips a command whose output is unknown; `opening` letters start it.
namespace {

/// The operands of the command expr, in which '*' is quoted.
std::optional<std::int64_t> value_of_expr(std::string text, const Variables& variables) {
  std::erase_if(text, [](char c) { return c == '\\' || c == '\'' || c == '"'; });
  return arithmetic_value(text, variables);
}

}  // namespace

void ShellWords::command(ShellWord& word, std::size_t opening, char open, char close) {
  const std::uint32_t where = offset();
  const std::size_t begin = next_;
  skip(opening);
  int depth = 1;
  while (!at_end()) {
    if (peek() == '\\') {
      skip(2);
      continue;
    }
    if (peek() == close) --depth;
    if (peek() == open && open != close) ++depth;
    skip();
    if (depth == 0) break;
  }
  next_ = std::min(next_, end_);
  MarkedText result;
  std::string spelling = source_.text.substr(begin, next_ - begin);
  const std::string inside = spelling.substr(opening, spelling.size() - opening - 1);
  if (const auto sum = inside.starts_with("expr ") ? value_of_expr(inside.substr(5), variables_)
                                                   : std::nullopt) {
    result.add(std::to_string(*sum), where);
    return put(word, result, false);
  }
  std::erase_if(spelling, [](char c) { return c == kUnknown || c == kEndOfName; });
  result.add_unknown(spelling, where);
  put(word, result, false);
}

void ShellWords::arithmetic(ShellWord& word) {
  const std::uint32_t where = offset();
  const std::size_t begin = next_ + 3;
  std::size_t end = begin;
  for (int depth = 0; end < end_; ++end) {  // "$(((a + b)))" too
    const char c = source_.text[end];
    if (c == '(') ++depth;
    if (c == ')' && depth-- == 0) break;
  }
  if (end + 2 > end_ || source_.text.compare(end, 2, "))") != 0) return command(word, 2, '(', ')');
  const auto value =
      arithmetic_value(std::string_view(source_.text).substr(begin, end - begin), variables_);
  if (!value) return command(word, 2, '(', ')');
  next_ = end + 2;
  MarkedText text;
  text.add(std::to_string(*value), where);
  put(word, text, false);
}

void ShellWords::dollar(ShellWord& word, bool quoted, bool whole) {
  const std::uint32_t where = offset();
  if (peek(1) == '(' && peek(2) == '(') return arithmetic(word);
  if (peek(1) == '(') return command(word, 2, '(', ')');
  if (peek(1) == '{') return braces(word, quoted, whole);
  if (starts_name(peek(1))) {
    std::size_t end = 1;
    while (in_name(peek(end))) ++end;
    const std::string name = source_.text.substr(next_ + 1, end - 1);
    skip(end);
    return put_variable(word, name, {}, quoted, whole, where);
  }
  if (is_digit(peek(1)) || peek(1) == '@' || peek(1) == '*' || peek(1) == '#' || peek(1) == '?') {
    const std::string name(1, peek(1));
    skip(2);
    return put_variable(word, name, {}, quoted, whole, where);
  }
  put(word, source_.part(next_, 1), false);
  skip();
}

/// ${NAME}, ${NAME:-default}, ${NAME[@]}; what else stands in braces is unknown.
void ShellWords::braces(ShellWord& word, bool quoted, bool whole) {
  const std::uint32_t where = offset();
  std::size_t end = 2;
  for (int depth = 1; next_ + end < end_; ++end) {
    if (peek(end) == '{') ++depth;
    if (peek(end) == '}' && --depth == 0) break;
  }
  const std::size_t rest = std::min(next_ + 2, end_);
  const auto inside = std::string_view(source_.text).substr(rest, std::min(end - 2, end_ - rest));
  next_ = std::min(next_ + end + 1, end_);
  std::size_t length = 0;
  if (!inside.empty() && std::string_view("@*").find(inside.front()) != std::string_view::npos)
    length = 1;
  while (length < inside.size() && in_name(inside[length])) ++length;
  const std::string name(inside.substr(0, length));
  const std::string_view behind = inside.substr(length);
  const bool default_value = behind.starts_with(":-") || behind.starts_with(":=") ||
                             (behind.starts_with("-") && !name.empty());
  if (default_value) {
    const auto value = variable_text(variables_, name);
    if (value && !value->empty()) return put_variable(word, name, {}, quoted, whole, where);
    const std::size_t skipped = length + (behind.front() == ':' ? 2 : 1);
    if (depth_ == kDeepest) {
      throw InputError({},
                       fmt::format("default values of variables stand more than {} deep in "
                                   "default values",
                                   kDeepest),
                       "write them into variables of their own");
    }
    ShellWords inner = *this;  // in place: a copy of every level would be quadratic
    inner.next_ = rest + skipped;
    inner.end_ = rest + inside.size();
    ++inner.depth_;
    while (!inner.at_end()) {
      const ShellWord part = inner.word(true);
      for (const MarkedText& one : part.parts) put(word, one, !quoted && !whole);
      if (!inner.at_end() && !inner.at_word()) {
        put(word, source_.part(inner.next_, 1), !quoted && !whole);
        inner.skip();
      }
    }
    return;
  }
  put_variable(word, name.empty() ? std::string(inside) : name, behind, quoted, whole, where);
}

void ShellWords::put_variable(ShellWord& word, const std::string& name, std::string_view rest,
                              bool quoted, bool whole, std::uint32_t offset) {
  const auto found = variables_.find(name);
  const bool all = rest == "[@]" || rest == "[*]";
  const bool plain = rest.empty() || all || rest.starts_with(":?") || rest.starts_with("?");
  const bool element = !all && rest.starts_with('[') && rest.ends_with(']');
  if (element && found != variables_.end()) {
    const auto index = arithmetic_value(rest.substr(1, rest.size() - 2), variables_);
    const std::vector<MarkedText>& values = found->second.values;
    if (index && *index >= 0 && static_cast<std::size_t>(*index) < values.size())
      return put(word, values[static_cast<std::size_t>(*index)], !quoted && !whole);
  }
  if (found == variables_.end() || !plain) {
    MarkedText unknown;
    std::string spelling = plain ? name : name + std::string(rest);
    std::erase_if(spelling, [](char c) { return c == kUnknown || c == kEndOfName; });
    if (name == "#") return put(word, one_letter('0', offset), false);  // started without any
    unknown.add_unknown(spelling, offset);
    return put(word, unknown, false);
  }
  const Variable& variable = found->second;
  if (!all || !variable.array) {
    if (!variable.values.empty()) put(word, variable.values.front(), !quoted && !whole);
    return;
  }
  for (std::size_t i = 0; i < variable.values.size(); ++i) {
    if (i > 0 && !whole) word.parts.emplace_back();
    if (i > 0 && whole) put(word, one_letter(' ', offset), false);
    put(word, variable.values[i], !quoted && !whole);
  }
}

std::vector<MarkedText> split_again(const MarkedText& text, const Variables& variables) {
  std::vector<MarkedText> words;
  ShellWords reader(text, variables);
  while (!reader.at_end()) {
    reader.skip_blanks();
    if (!reader.at_word()) {
      reader.skip();
      continue;
    }
    for (MarkedText& part : reader.word(false).parts) words.push_back(std::move(part));
  }
  return words;
}

}  // namespace plansearch::importers
