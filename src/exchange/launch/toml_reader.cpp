// SPDX-License-Identifier: Apache-2.0
// TOML 1.0 as far as configurations use it: tables, dotted keys, strings, numbers, arrays, inline
// tables. Dates are text.
#include <fmt/format.h>

#include "exchange/launch/read_configuration.hpp"

namespace plansearch::importers {
namespace {

class TomlReader {
 public:
  explicit TomlReader(const ConfigurationFile& file) : file_(file), text_(file.text) {}

  std::vector<FoundKey> read() {
    while (skip_to_entry()) {
      if (peek() == '[') {
        header();
      } else {
        entry(table_);
      }
      skip_blanks();
      if (next_ < text_.size() && peek() != '\n') fail("a new line is due");
    }
    return std::move(keys_);
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return next_ + ahead < text_.size() ? text_[next_ + ahead] : '\0';
  }
  [[nodiscard]] SourceLocation here() const {
    SourceLocation where{file_.name, 1, 1};
    for (std::size_t i = 0; i < next_ && i < text_.size(); ++i) {
      ++where.column;
      if (text_[i] == '\n') {
        ++where.line;
        where.column = 1;
      }
    }
    return where;
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(here(), fmt::format("not TOML: {}", message),
                     "scripts, JSON and YAML are read too");
  }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r') ++next_;
    if (peek() == '#') {
      while (next_ < text_.size() && peek() != '\n') ++next_;
    }
  }
  bool skip_to_entry() {
    do {
      skip_blanks();
    } while (peek() == '\n' && ++next_ != 0);
    return next_ < text_.size();
  }
  void take(char letter) {
    skip_blanks();
    if (peek() != letter) fail(fmt::format("'{}' is due", letter));
    ++next_;
  }

  void header() {
    const bool list = peek(1) == '[';
    next_ += list ? 2 : 1;
    table_ = path();
    take(']');
    if (list) take(']');
  }

  std::string path() {
    std::string name;
    for (;;) {
      skip_blanks();
      name += peek() == '"' || peek() == '\'' ? quoted().get<std::string>() : bare();
      skip_blanks();
      if (peek() != '.') return name;
      ++next_;
      name += '.';
    }
  }

  std::string bare() {
    const std::size_t begin = next_;
    const auto fits = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
             c == '_' || c == '-';
    };
    while (fits(peek())) ++next_;
    if (next_ == begin) fail("a key is due");
    return text_.substr(begin, next_ - begin);
  }

  void entry(const std::string& table) {
    FoundKey key;
    key.where = here();
    key.name = path();
    if (!table.empty()) key.name = table + "." + key.name;
    take('=');
    skip_blanks();
    if (peek() == '{') return inline_table(key.name);
    key.value = value();
    keys_.push_back(std::move(key));
  }

  void inline_table(const std::string& table) {
    if (++depth_ > 30) fail("tables are nested too deeply");
    ++next_;
    skip_blanks();
    while (peek() != '}') {
      entry(table);
      skip_blanks();
      if (peek() == ',')
        ++next_;
      else if (peek() != '}')
        fail("',' or '}' is due");
      skip_blanks();
    }
    ++next_;
    --depth_;
  }

  Value value() {
    skip_blanks();
    if (peek() == '"' || peek() == '\'') return quoted();
    if (peek() == '[') return array();
    const std::size_t begin = next_;
    while (next_ < text_.size() &&
           std::string_view(",]}#\n\r").find(peek()) == std::string_view::npos)
      ++next_;
    std::string word = text_.substr(begin, next_ - begin);
    while (!word.empty() && (word.back() == ' ' || word.back() == '\t')) word.pop_back();
    if (word.empty()) fail("a value is due");
    std::string digits = word;
    std::erase(digits, '_');
    const Value number = plain_value(digits);
    return number.is_number() ? number : plain_value(word);
  }

  Value array() {
    if (++depth_ > 30) fail("arrays are nested too deeply");
    ++next_;
    Value items = Value::array();
    while (skip_to_entry() && peek() != ']') {
      if (peek() == '{') fail("tables in arrays are not read");
      items.push_back(value());
      if (!skip_to_entry()) break;
      if (peek() == ',')
        ++next_;
      else if (peek() != ']')
        fail("',' or ']' is due");
    }
    take(']');
    --depth_;
    return items;
  }

  Value quoted() {
    const char quote = peek();
    const bool block = peek(1) == quote && peek(2) == quote;
    const std::string end(block ? 3 : 1, quote);
    next_ += end.size();
    std::string result;
    while (text_.compare(next_, end.size(), end) != 0) {
      if (next_ >= text_.size() || (!block && peek() == '\n')) fail("a string does not end");
      if (quote == '"' && peek() == '\\' && next_ + 1 < text_.size()) {
        const char escaped = peek(1);
        result += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
        next_ += 2;
        continue;
      }
      result += peek();
      ++next_;
    }
    next_ += end.size();
    return Value(result);
  }

  const ConfigurationFile& file_;
  const std::string& text_;
  std::size_t next_ = 0;
  int depth_ = 0;
  std::string table_;
  std::vector<FoundKey> keys_;
};

}  // namespace

std::vector<FoundKey> keys_of_toml(const ConfigurationFile& file) {
  return TomlReader(file).read();
}

}  // namespace plansearch::importers
