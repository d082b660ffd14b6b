// SPDX-License-Identifier: Apache-2.0
// Source: YAML 1.2, chapters 7 and 8, as far as data files use them. The library takes five times as long.
// Checked by: tests/unit/io/plain_yaml_test.cpp (equal to the library on every shipped file)
#include "io/document/plain_yaml.hpp"

#include <algorithm>
#include <array>

#include "base/ranges.hpp"

namespace plansearch::io {
namespace {

/// Something that this reader leaves to the library.
struct NotPlain {};

/// Longer keys are none.
constexpr std::size_t kLongestKey = 1000;

bool is_null(std::string_view text) {
  constexpr std::array<std::string_view, 4> kNull{"~", "null", "Null", "NULL"};
  return text.empty() || contains(kNull, text);
}

class PlainReader {
 public:
  PlainReader(std::string_view text, TreeBuilder& builder) : text_(text), builder_(builder) {}

  void read() {
    const auto odd = [](char c) { return c != '\n' && (c < ' ' || c > '~'); };
    if (std::any_of(text_.begin(), text_.end(), odd)) throw NotPlain();
    skip();
    if (at_end()) throw NotPlain();
    block();
    if (!at_end()) throw NotPlain();
  }

 private:
  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] char here(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n';
  }
  [[nodiscard]] std::size_t column() const { return at_ - line_begin_; }
  [[nodiscard]] static bool is_blank(char c) { return c == ' ' || c == '\n'; }

  /// Goes to the end of the line where nothing but a comment is left of it.
  void end_line() {
    while (here() == ' ') ++at_;
    const bool comment = here() == '#' && (column() == 0 || text_[at_ - 1] == ' ');
    if (here() != '\n' && !comment) throw NotPlain();
    at_ = std::min(text_.find('\n', at_), text_.size());
  }

  /// Goes to the next character that is neither blank nor part of a comment.
  void skip() {
    for (;;) {
      while (here() == ' ') ++at_;
      if (at_end() || (here() != '\n' && here() != '#')) break;
      end_line();
      if (at_end()) break;
      line_begin_ = ++at_;
      ++line_;
    }
    const std::string_view rest = text_.substr(std::min(at_, text_.size()));
    const bool marker = rest.starts_with("---") || rest.starts_with("...");
    if (column() == 0 && marker && !at_end()) throw NotPlain();
  }

  void open(RawKind kind) { builder_.open(line_, static_cast<int>(column()) + 1, kind); }

  [[nodiscard]] bool starts_item() const { return here() == '-' && is_blank(here(1)); }
  [[nodiscard]] bool starts_plain() const {
    constexpr std::string_view kSigns = ",[]{}#&*!|>'\"%@`?: ";
    return !at_end() && kSigns.find(here()) == std::string_view::npos && !starts_item();
  }

  /// The text in quotes that begins here.
  [[nodiscard]] std::string_view quoted() const {
    const std::size_t end = text_.find(here(), at_ + 1);
    if (end == std::string_view::npos) throw NotPlain();
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    const bool doubled = here() == '\'' && end + 1 < text_.size() && text_[end + 1] == '\'';
    if (doubled || inside.find_first_of("\\\n") != std::string_view::npos) throw NotPlain();
    return inside;
  }

  /// The scalar without quotes that begins here, with the blanks behind it.
  [[nodiscard]] std::string_view plain(bool in_flow) const {
    if (!starts_plain()) throw NotPlain();
    std::size_t end = at_;
    for (; end < text_.size() && text_[end] != '\n'; ++end) {
      const char c = text_[end];
      const char next = end + 1 < text_.size() ? text_[end + 1] : '\n';
      if (c == ':' && (is_blank(next) || (in_flow && contains(kFlow, next)))) break;
      if (c == '#' && text_[end - 1] == ' ') break;
      if (in_flow && c == '?') throw NotPlain();
      if (in_flow && contains(kFlow, c)) break;
    }
    return text_.substr(at_, end - at_);
  }
  static constexpr std::array<char, 5> kFlow{',', '[', ']', '{', '}'};

  /// Takes a scalar of this line; of a key the colon too.
  void take_scalar(bool in_flow, bool key) {
    const std::size_t begin = column();
    const bool in_quotes = here() == '"' || here() == '\'';
    std::string_view text = in_quotes ? quoted() : plain(in_flow);
    at_ += text.size() + (in_quotes ? 2 : 0);
    if (!in_quotes) text = text.substr(0, text.find_last_not_of(' ') + 1);
    if (key && (here() != ':' || !is_blank(here(1)) || text.size() > kLongestKey)) throw NotPlain();
    const bool null = !in_quotes && is_null(text);
    if (null && key) throw NotPlain();
    const RawKind kind = null ? RawKind::Null : in_quotes ? RawKind::Quoted : RawKind::Plain;
    builder_.scalar(line_, static_cast<int>(begin) + 1, kind, std::string(null ? "" : text));
    if (key) ++at_;
  }

  [[nodiscard]] bool starts_key() const {
    if (here() == '[' || here() == '{') return false;
    const bool in_quotes = here() == '"' || here() == '\'';
    const std::size_t size = in_quotes ? quoted().size() + 2 : plain(false).size();
    return here(size) == ':';
  }

  /// A list or map in brackets, or a scalar.
  void flow(bool in_flow) {
    if (here() == '[') return flow_list();
    if (here() == '{') return flow_map();
    take_scalar(in_flow, false);
  }

  /// Whether another entry follows; else the bracket is closed.
  [[nodiscard]] bool goes_on(char bracket) {
    skip();
    const char found = here();
    if (at_end() || (found != ',' && found != bracket)) throw NotPlain();
    ++at_;
    if (found == ',') skip();
    return found == ',';
  }

  void flow_list() {
    open(RawKind::List);
    ++at_;
    skip();
    if (here() == ']') {
      ++at_;
    } else {
      do flow(true);
      while (goes_on(']'));
    }
    builder_.close();
  }

  void flow_map() {
    open(RawKind::Map);
    ++at_;
    skip();
    if (here() == '}') {
      ++at_;
    } else {
      do {
        take_scalar(true, true);
        skip();
        flow(true);
      } while (goes_on('}'));
    }
    builder_.close();
  }

  /// A map, a list or a value that begins here, up to the next line with something on it.
  void block() {
    if (starts_item()) return block_list();
    if (starts_key()) return block_map();
    flow(false);
    end_line();
    skip();
  }

  /// The value of a key or an item in column `indent`. A list may begin below its key.
  void value(std::size_t indent, bool of_key) {
    const int line = line_;
    skip();
    if (at_end()) throw NotPlain();
    const bool below = line_ > line;
    const bool list = of_key && below && column() == indent && starts_item();
    if (below && column() <= indent && !list) throw NotPlain();
    if (of_key && !below) {  // nothing but a scalar or brackets may follow on the line
      if (starts_item() || starts_key()) throw NotPlain();
      flow(false);
      end_line();
      return skip();
    }
    block();
  }

  void block_list() {
    const std::size_t indent = column();
    open(RawKind::List);
    do {
      ++at_;
      value(indent, false);
    } while (!at_end() && column() == indent && starts_item());
    builder_.close();
    if (!at_end() && column() > indent) throw NotPlain();
  }

  void block_map() {
    const std::size_t indent = column();
    open(RawKind::Map);
    do {
      take_scalar(false, true);
      value(indent, true);
    } while (!at_end() && column() == indent && !starts_item());
    builder_.close();
    if (!at_end() && column() > indent) throw NotPlain();
  }

  std::string_view text_;
  TreeBuilder& builder_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  int line_ = 1;
};

}  // namespace

std::optional<RawValue> parse_plain_yaml(std::string_view text,
                                         std::shared_ptr<const std::string> file,
                                         const ParseLimits& limits) {
  try {
    TreeBuilder builder(std::move(file), limits);
    PlainReader(text, builder).read();
    return builder.take();
  } catch (const NotPlain&) {
    return std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace plansearch::io
