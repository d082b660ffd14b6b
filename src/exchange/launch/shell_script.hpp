// SPDX-License-Identifier: Apache-2.0
// Commands that a shell script would start, found without running anything: assignments and
// conditions are followed where their operands stand in the script, everything else is skipped.
// Words of a shell script and what its variables come to. Nothing is ever run: what only a command
// could tell stays unknown.
// Text of a shell script with the place of every letter in its file, and with marks for the parts
// that are unknown until the script runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/error.hpp"

namespace plansearch::importers {

/// Stands for the value of a variable or a command: kUnknown, its name, kEndOfName.
inline constexpr char kUnknown = '\x01';
inline constexpr char kEndOfName = '\x02';

struct MarkedText {
  std::string text;
  std::vector<std::uint32_t> at;  ///< by letter: its offset in the script

  void add(char letter, std::uint32_t offset) {
    text.push_back(letter);
    at.push_back(offset);
  }
  void add(std::string_view letters, std::uint32_t offset) {
    for (const char letter : letters) add(letter, offset);
  }
  void add(const MarkedText& other) {
    text += other.text;
    at.insert(at.end(), other.at.begin(), other.at.end());
  }
  void add_unknown(std::string_view name, std::uint32_t offset) {
    add(kUnknown, offset);
    add(name, offset);
    add(kEndOfName, offset);
  }
  [[nodiscard]] MarkedText part(std::size_t begin, std::size_t length) const;
  [[nodiscard]] bool empty() const { return text.empty(); }
  [[nodiscard]] std::uint32_t offset() const { return at.empty() ? 0 : at.front(); }
};

/// The first thing in it that is not known: "TP_SIZE", "$(hostname)".
[[nodiscard]] std::optional<std::string> unknown_in(std::string_view text);
/// The text as the script spells it.
[[nodiscard]] std::string spelled(std::string_view text);
/// The text with unset variables as empty; nothing if it contains a command's output.
[[nodiscard]] std::optional<std::string> without_unset(std::string_view text);

/// Scripts read as one, and places in them.
class Script {
 public:
  /// Control characters become '?'.
  void add(std::string_view text, std::string file);
  [[nodiscard]] const MarkedText& text() const { return text_; }
  [[nodiscard]] SourceLocation place(std::uint32_t offset) const;

 private:
  struct File {
    std::string name;
    std::uint32_t begin;
  };
  MarkedText text_;
  std::vector<File> files_;
  std::vector<std::uint32_t> lines_;  ///< where each begins
};

/// An array, or one value.
struct Variable {
  std::vector<MarkedText> values;
  bool array = false;
};
using Variables = std::map<std::string, Variable, std::less<>>;

/// A word before it is split.
struct ShellWord {
  std::vector<MarkedText> parts;  ///< what it expands to
  std::size_t letters = 0;        ///< of all parts
  bool quoted = false;            ///< some of it was quoted
};

/// Reads a script, or a part of one, from left to right.
class ShellWords {
 public:
  ShellWords(const MarkedText& source, const Variables& variables)
      : source_(source), variables_(variables), end_(source.text.size()) {}

  [[nodiscard]] bool at_end() const { return next_ >= end_; }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return next_ + ahead < end_ ? source_.text[next_ + ahead] : '\0';
  }
  [[nodiscard]] std::uint32_t offset() const {
    return at_end() ? (source_.at.empty() ? 0 : source_.at.back()) : source_.at[next_];
  }
  void skip(std::size_t letters = 1) { next_ += letters; }
  [[nodiscard]] std::size_t position() const { return next_; }
  void go_back_to(std::size_t position) { next_ = position; }
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
  std::size_t end_;
  int depth_ = 0;  ///< of default values in default values
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

/// A simple command that runs, or may run: its words with variables replaced.
struct ShellCommand {
  std::vector<MarkedText> words;
  bool certain = true;  ///< not behind an unknown condition
};

/// Text between << WORD and WORD; `literal`: variables in it stay as they are.
struct HereDocument {
  MarkedText text;
  bool literal = false;
};

struct ReadScript {
  std::vector<ShellCommand> commands;  ///< in the order of the script
  std::vector<MarkedText> arguments;   ///< of arrays and variables with flags or overrides
  std::vector<HereDocument> documents;
  std::vector<MarkedText> conditional;  ///< flags behind unknown conditions
  std::vector<std::string> sourced;     ///< other files it reads
  Variables variables;                  ///< as they are at the end
};

/// `defined`: variables that the user knows; assignments in the script do not change them.
/// `initial`: those that are set before it starts.
[[nodiscard]] ReadScript read_script(const MarkedText& script, const Variables& defined,
                                     const Variables& initial);

/// "*" and "?" of a shell.
[[nodiscard]] bool matches_pattern(std::string_view text, std::string_view pattern);
/// The result of a test in [ ]; nothing if it depends on files, commands or unknown values.
[[nodiscard]] std::optional<bool> test_result(const std::vector<std::string>& words);
/// The result of a test in brackets. Other commands succeed; as conditions they are unknown.
[[nodiscard]] std::optional<bool> command_result(std::vector<std::string> words, bool in_condition);
/// `before` && `last` or `before` || `last`, as `link` is '&' or '|'; any other: `last`.
[[nodiscard]] std::optional<bool> joined_result(const std::optional<bool>& before, char link,
                                                const std::optional<bool>& last);

}  // namespace plansearch::importers
