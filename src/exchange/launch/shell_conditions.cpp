// SPDX-License-Identifier: Apache-2.0
// Arithmetic and tests of a shell, as far as their operands are known.

#include <algorithm>
#include <iterator>

#include "base/units.hpp"
#include "exchange/launch/shell_script.hpp"

namespace plansearch::importers {
namespace {

/// Recursive descent: sums of products of numbers, names and brackets.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const Variables& variables)
      : text_(text), variables_(variables) {}

  std::optional<std::int64_t> value() {
    const auto sum = this->sum();
    skip_blanks();
    return next_ == text_.size() ? sum : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (next_ < text_.size() && (text_[next_] == ' ' || text_[next_] == '\n')) ++next_;
  }
  bool take(char letter) {
    skip_blanks();
    if (next_ >= text_.size() || text_[next_] != letter) return false;
    ++next_;
    return true;
  }
  std::optional<std::int64_t> sum() {
    auto left = product();
    while (left) {
      const bool plus = take('+');
      if (!plus && !take('-')) break;
      const auto right = product();
      std::int64_t result = 0;
      if (!right || (plus ? __builtin_add_overflow(*left, *right, &result)
                          : __builtin_sub_overflow(*left, *right, &result)))
        return std::nullopt;
      left = result;
    }
    return left;
  }
  std::optional<std::int64_t> product() {
    auto left = power();
    while (left) {
      const char operation = take('*') ? '*' : take('/') ? '/' : take('%') ? '%' : '\0';
      if (operation == '\0') break;
      const auto right = power();
      std::int64_t result = 0;
      if (!right || (operation == '*' && __builtin_mul_overflow(*left, *right, &result)))
        return std::nullopt;
      if (operation != '*') {
        if (*right <= 0) return std::nullopt;
        result = operation == '/' ? *left / *right : *left % *right;
      }
      left = result;
    }
    return left;
  }
  std::optional<std::int64_t> power() {
    const auto base = atom();
    skip_blanks();
    if (!base || !text_.substr(next_).starts_with("**")) return base;
    next_ += 2;
    const auto exponent = power();
    if (!exponent || *exponent < 0 || *exponent > 64) return std::nullopt;
    std::int64_t result = 1;
    for (std::int64_t i = 0; i < *exponent; ++i)
      if (__builtin_mul_overflow(result, *base, &result)) return std::nullopt;
    return result;
  }
  std::optional<std::int64_t> atom() {
    if (++depth_ > 200) return std::nullopt;
    if (take('(')) {
      const auto inner = sum();
      return take(')') ? inner : std::nullopt;
    }
    if (take('-')) {
      const auto negative = atom();
      return negative ? std::optional(-*negative) : std::nullopt;
    }
    static_cast<void>(take('$'));
    const bool braces = take('{');
    const std::size_t begin = next_;
    while (next_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[next_])) != 0 || text_[next_] == '_'))
      ++next_;
    const std::string_view word = text_.substr(begin, next_ - begin);
    if (braces && !take('}')) return std::nullopt;
    if (const auto number = parse_as<std::int64_t>(word)) return number;
    const auto variable = variable_text(variables_, word);
    return variable ? parse_as<std::int64_t>(variable->text) : std::nullopt;
  }

  std::string_view text_;
  const Variables& variables_;
  std::size_t next_ = 0;
  int depth_ = 0;
};

std::optional<bool> compared(const std::string& operation, const std::string& left,
                             const std::string& right) {
  if (operation == "=" || operation == "==") return matches_pattern(left, right);
  if (operation == "!=") return !matches_pattern(left, right);
  const auto a = parse_as<std::int64_t>(left), b = parse_as<std::int64_t>(right);
  if (!a || !b) return std::nullopt;
  if (operation == "-eq") return *a == *b;
  if (operation == "-ne") return *a != *b;
  if (operation == "-lt") return *a < *b;
  if (operation == "-le") return *a <= *b;
  if (operation == "-gt") return *a > *b;
  if (operation == "-ge") return *a >= *b;
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> arithmetic_value(std::string_view expression,
                                             const Variables& variables) {
  return Arithmetic(expression, variables).value();
}

bool matches_pattern(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*') {
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (pattern.size() == 1) return true;
      if (pattern[1] != '*' && matches_pattern(text.substr(i), pattern.substr(1))) return true;
      if (pattern[1] == '*') return matches_pattern(text, pattern.substr(1));
    }
    return false;
  }
  return !text.empty() && (pattern.front() == '?' || pattern.front() == text.front()) &&
         matches_pattern(text.substr(1), pattern.substr(1));
}

std::optional<bool> test_result(const std::vector<std::string>& words) {
  if (words.empty()) return false;
  if (words.front() == "!") {
    const auto inner = test_result({words.begin() + 1, words.end()});
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  for (const std::string& word : words) {
    if (word == "&&" || word == "||" || word == "-a" || word == "-o") return std::nullopt;
  }
  std::vector<std::string> known;
  for (const std::string& word : words) {
    const auto text = without_unset(word);
    if (!text) return std::nullopt;
    known.push_back(*text);
  }
  if (known.size() == 1) return !known[0].empty();
  if (known.size() == 2 && known[0] == "-z") return known[1].empty();
  if (known.size() == 2 && known[0] == "-n") return !known[1].empty();
  if (known.size() == 3) return compared(known[1], known[0], known[2]);
  return std::nullopt;
}

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
    const bool variable = std::ranges::all_of(name, [](char c) {
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
  lines_.push_back(begin);
  std::uint32_t offset = begin;
  for (char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if ((code < 0x20 && letter != '\n' && letter != '\t') || code == 0x7f) letter = '?';
    if (code == '\r') letter = ' ';
    text_.add(letter, offset++);
    if (letter == '\n') lines_.push_back(offset);
  }
  text_.add('\n', offset);
}

SourceLocation Script::place(std::uint32_t offset) const {
  if (files_.empty()) return {};
  const auto file = std::ranges::upper_bound(files_, offset, {}, &File::begin);
  const File& own = file == files_.begin() ? *file : *std::prev(file);
  const auto line_at = [&](std::uint32_t at) { return std::ranges::upper_bound(lines_, at); };
  const auto line = line_at(offset);
  return {own.name, static_cast<int>(line - line_at(own.begin)) + 1,
          static_cast<int>(offset - *std::prev(line)) + 1};
}

std::optional<bool> command_result(std::vector<std::string> words, bool in_condition) {
  const bool negated = words.front() == "!" && words.size() > 1;
  if (negated) words.erase(words.begin());
  const bool bracket = words.front() == "[" || words.front() == "[[";
  if (!bracket && words.front() != "test")
    return in_condition && words.front() != "true" ? std::nullopt : std::optional(true);
  words.erase(words.begin());
  if (bracket && !words.empty()) words.pop_back();
  const auto result = test_result(words);
  return result && negated ? std::optional(!*result) : result;
}

std::optional<bool> joined_result(const std::optional<bool>& before, char link,
                                  const std::optional<bool>& last) {
  if (link != '&' && link != '|') return last;
  const bool decides = link == '|';
  if (before == decides || last == decides) return decides;
  return before && last ? last : std::nullopt;
}

}  // namespace plansearch::importers
