// SPDX-License-Identifier: Apache-2.0
// Words of a shell script and what its variables come to. Nothing is ever run: what only a command
// could tell stays unknown.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/launch/marked_text.hpp"

namespace plansearch::importers {

/// An array, or one value.
struct Variable {
  std::vector<MarkedText> values;
  bool array = false;
};
using Variables = std::map<std::string, Variable, std::less<>>;

/// A word before it is split.
struct ShellWord {
  std::vector<MarkedText> parts;  ///< what it expands to
  bool quoted = false;            ///< some of it was quoted
};

/// Reads a script, or a part of one, from left to right.
class ShellWords {
 public:
  ShellWords(const MarkedText& source, const Variables& variables)
      : source_(source), variables_(variables) {}

  [[nodiscard]] bool at_end() const { return next_ >= source_.text.size(); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return next_ + ahead < source_.text.size() ? source_.text[next_ + ahead] : '\0';
  }
  [[nodiscard]] std::uint32_t offset() const {
    return at_end() ? (source_.at.empty() ? 0 : source_.at.back()) : source_.at[next_];
  }
  void skip(std::size_t letters = 1) { next_ += letters; }
  /// Blanks, line continuations and comments.
  void skip_blanks();
  /// The text to the end of the line, the end excluded.
  [[nodiscard]] MarkedText rest_of_line();

  /// Whether an assignment starts here: its name, "=" or "+=", read. Nothing is read otherwise.
  struct Assignment {
    std::string name;
    bool append = false;
    std::uint32_t offset = 0;
  };
  [[nodiscard]] std::optional<Assignment> assignment();

  /// The next word with its variables replaced. Unquoted ones are split at blanks unless
  /// `whole`, as in assignments.
  [[nodiscard]] ShellWord word(bool whole);
  /// All that is left, as between double quotes.
  [[nodiscard]] MarkedText document();
  /// Whether a word can start here.
  [[nodiscard]] bool at_word() const;

 private:
  void dollar(ShellWord& word, bool quoted, bool whole);
  void braces(ShellWord& word, bool quoted, bool whole);
  void arithmetic(ShellWord& word);
  void command(ShellWord& word, std::size_t opening, char open, char close);
  void double_quoted(ShellWord& word, bool whole);
  void quoted(ShellWord& word, bool whole, char end);
  void letter(ShellWord& word);
  void put(ShellWord& word, const MarkedText& value, bool split);
  void put_variable(ShellWord& word, const std::string& name, std::string_view rest, bool quoted,
                    bool whole, std::uint32_t offset);

  const MarkedText& source_;
  const Variables& variables_;
  std::size_t next_ = 0;
};

/// The value of an arithmetic expression over whole numbers and variables.
[[nodiscard]] std::optional<std::int64_t> arithmetic_value(std::string_view expression,
                                                           const Variables& variables);

/// One variable as text; absent where nothing sets it.
[[nodiscard]] std::optional<MarkedText> variable_text(const Variables& variables,
                                                      std::string_view name);

/// Words of a text that a shell would split once more ("bash -c").
[[nodiscard]] std::vector<MarkedText> split_again(const MarkedText& text,
                                                  const Variables& variables);

}  // namespace plansearch::importers
