// SPDX-License-Identifier: Apache-2.0
// A JSON reader (RFC 8259) that keeps the place of every value; nlohmann-json does not. Strict but
// for NaN, Infinity and -Infinity, which Python writes into config.json: they are texts that no
// number accepts.

#include "io/document/raw_value.hpp"

namespace plansearch::io {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class JsonReader {
 public:
  JsonReader(std::string_view text, TreeBuilder& builder) : text_(text), builder_(builder) {}

  void document() {
    value();
    skip_space();
    if (position_ < text_.size()) fail("text after the end of the value");
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    if (position_ >= text_.size()) {
      builder_.fail(line_, column(), "not valid JSON: the file ends too early",
                    "is the file truncated?");
    }
    builder_.fail(line_, column(), "not valid JSON: " + message,
                  "python3 -m json.tool FILE checks it too");
  }
  [[nodiscard]] int column() const { return static_cast<int>(position_ - line_start_) + 1; }
  [[nodiscard]] char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  void skip_space() {
    for (; position_ < text_.size(); ++position_) {
      const char c = text_[position_];
      if (c == '\n') {
        ++line_;
        line_start_ = position_ + 1;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  void value() {
    skip_space();
    const char c = peek();
    if (c == '{') return object();
    if (c == '[') return array();
    const int at = column();
    if (c == '"') return builder_.scalar(line_, at, RawKind::Quoted, string());
    const bool infinite = text_.substr(position_, 2) == "-I";
    if ((c == '-' && !infinite) || is_digit(c))
      return builder_.scalar(line_, at, RawKind::Plain, number());
    word();
  }

  void word() {
    for (const std::string_view name : {"true", "false", "null", "NaN", "Infinity", "-Infinity"}) {
      if (text_.substr(position_, name.size()) != name) continue;
      const RawKind kind = name == "null" ? RawKind::Null : RawKind::Plain;
      builder_.scalar(line_, column(), kind, kind == RawKind::Null ? "" : std::string(name));
      position_ += name.size();
      return;
    }
    fail("expected a value");
  }

  void object() {
    builder_.open(line_, column(), RawKind::Map);
    ++position_;
    skip_space();
    if (peek() == '}') return end();
    for (;;) {
      skip_space();
      if (peek() != '"') fail("expected a key in double quotes");
      const int at = column();
      builder_.scalar(line_, at, RawKind::Quoted, string());
      skip_space();
      if (peek() != ':') fail("expected ':' after the key");
      ++position_;
      value();
      skip_space();
      if (peek() == '}') return end();
      if (peek() != ',') fail("expected ',' or '}'");
      ++position_;
    }
  }

  void array() {
    builder_.open(line_, column(), RawKind::List);
    ++position_;
    skip_space();
    if (peek() == ']') return end();
    for (;;) {
      value();
      skip_space();
      if (peek() == ']') return end();
      if (peek() != ',') fail("expected ',' or ']'");
      ++position_;
    }
  }

  void end() {
    ++position_;
    builder_.close();
  }

  void digits() {
    if (!is_digit(peek())) fail("expected a digit");
    while (is_digit(peek())) ++position_;
  }

  std::string number() {
    const std::size_t start = position_;
    if (peek() == '-') ++position_;
    if (peek() == '0') {
      ++position_;
    } else {
      digits();
    }
    if (peek() == '.') {
      ++position_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++position_;
      if (peek() == '+' || peek() == '-') ++position_;
      digits();
    }
    return std::string(text_.substr(start, position_ - start));
  }

  std::string string() {
    std::string out;
    ++position_;
    for (;;) {
      if (position_ >= text_.size()) fail("unfinished text");
      const char c = text_[position_];
      if (static_cast<unsigned char>(c) < 0x20) fail("control character inside a text");
      ++position_;
      if (c == '"') return out;
      if (c == '\\') {
        escape(out);
      } else {
        out += c;
      }
    }
  }

  void escape(std::string& out) {
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeaning = "\"\\/\b\f\n\r\t";
    const char c = peek();
    if (c == 'u') {
      ++position_;
      return append_utf8(out, code_point());
    }
    const std::size_t which = c == '\0' ? std::string_view::npos : kLetters.find(c);
    if (which == std::string_view::npos) fail("unknown escape in a text");
    out += kMeaning[which];
    ++position_;
  }

  unsigned hex4() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i, ++position_) {
      const char c = peek();
      const bool lower = c >= 'a' && c <= 'f';
      const bool upper = c >= 'A' && c <= 'F';
      if (!is_digit(c) && !lower && !upper) fail("expected four hexadecimal digits");
      code = code * 16 + static_cast<unsigned>(is_digit(c) ? c - '0'
                                               : lower     ? c - 'a' + 10
                                                           : c - 'A' + 10);
    }
    return code;
  }

  unsigned code_point() {
    const unsigned high = hex4();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || text_.substr(position_, 2) != "\\u") fail("half of a surrogate pair");
    position_ += 2;
    const unsigned low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10U) + (low - 0xDC00);
  }

  static void append_utf8(std::string& out, unsigned code) {
    const auto add = [&](unsigned byte) { out += static_cast<char>(byte); };
    if (code < 0x80) return add(code);
    if (code < 0x800) {
      add(0xC0U | (code >> 6U));
    } else if (code < 0x10000) {
      add(0xE0U | (code >> 12U));
      add(0x80U | ((code >> 6U) & 0x3FU));
    } else {
      add(0xF0U | (code >> 18U));
      add(0x80U | ((code >> 12U) & 0x3FU));
      add(0x80U | ((code >> 6U) & 0x3FU));
    }
    add(0x80U | (code & 0x3FU));
  }

  std::string_view text_;
  TreeBuilder& builder_;
  std::size_t position_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace

RawValue parse_json(std::string_view text, std::shared_ptr<const std::string> file,
                    const ParseLimits& limits) {
  TreeBuilder builder(std::move(file), limits);
  JsonReader(text, builder).document();
  return builder.take();
}

}  // namespace plansearch::io
