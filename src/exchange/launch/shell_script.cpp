// SPDX-License-Identifier: Apache-2.0
#include "exchange/launch/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/ranges.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::importers {
namespace {

constexpr std::size_t kMostLetters = 1 << 25;  // of all words of the scripts, in letters
constexpr std::size_t kPart = 16;  // letters that take as much memory as a part of a word

enum class Runs { Yes, Maybe, No };

Runs both(Runs a, Runs b) {
  return std::max(a, b);
}
Runs if_true(const std::optional<bool>& test) {
  if (!test) return Runs::Maybe;
  return *test ? Runs::Yes : Runs::No;
}

/// if, case, while: what its present branch does, and what earlier ones leave.
struct Block {
  enum class Kind { If, Case, Loop } kind = Kind::If;
  Runs outside = Runs::Yes;
  Runs branch = Runs::Yes;
  bool taken = false;      ///< a branch ran for certain
  bool possible = false;   ///< a branch may have run
  bool condition = false;  ///< between if and then, while and do
  std::string subject{};   ///< of a case
  bool pattern = false;    ///< a pattern of a case is due
  // A loop over words:
  MarkedText variable{};
  std::vector<MarkedText> rest{};  ///< words that are still to come
  std::size_t body = 0;            ///< where its commands begin in the script
  std::size_t commands = 0;        ///< that stand before it
};

/// Enters a branch with the known result of its condition, after the branches before it.
void enter(Block& block, const std::optional<bool>& test) {
  Runs runs = block.taken ? Runs::No : if_true(test);
  if (runs == Runs::Yes && block.possible) runs = Runs::Maybe;
  if (runs == Runs::Yes) block.taken = true;
  if (runs == Runs::Maybe) block.possible = true;
  block.branch = runs;
}

class ScriptReader {
 public:
  ScriptReader(const MarkedText& script, const Variables& defined, const Variables& initial)
      : defined_(defined), words_(script, read_.variables) {
    read_.variables = defined;
    read_.variables.insert(initial.begin(), initial.end());
  }

  ReadScript read() {
    while (!words_.at_end()) {
      check_stop();
      statement();
    }
    return std::move(read_);
  }

 private:
  [[nodiscard]] Runs runs() const {
    if (blocks_.empty()) return list_;
    const Block& block = blocks_.back();  // `outside` is of all blocks around it
    const Runs all = both(list_, block.outside);
    return block.condition ? all : both(all, block.branch);
  }

  /// A word with its variables replaced, which are kept in memory from now on.
  ShellWord expanded(bool whole) {
    ShellWord word = words_.word(whole);
    expanded_ += word.letters + kPart * word.parts.size();
    if (expanded_ > kMostLetters) {
      throw InputError({}, "the words of the script come to more than 33 million letters",
                       "are its variables made of themselves?");
    }
    return word;
  }

  /// One simple command, or what separates two of them.
  void statement() {
    words_.skip_blanks();
    if (words_.at_end()) return;
    if (!blocks_.empty() && blocks_.back().pattern) return case_pattern();
    const char c = words_.peek();
    if (c == '\n') return end_of_line();
    if (c == ';' || c == '&' || c == '|') return separator(c);
    if (c == '(' || c == ')') {
      if (c == '(' && words_.peek(1) == '(') static_cast<void>(words_.rest_of_line());
      return words_.skip();
    }
    if (c == '<' || c == '>') return redirection();
    command();
  }

  void end_of_line() {
    words_.skip();
    list_ = Runs::Yes;
    for (const auto& [word, literal] : due_) take_document(word, literal);
    due_.clear();
  }

  void separator(char c) {
    const bool doubled = words_.peek(1) == c;
    words_.skip(doubled ? 2 : 1);
    if (c == ';') {
      list_ = Runs::Yes;
      if (doubled && !blocks_.empty() && blocks_.back().kind == Block::Kind::Case)
        blocks_.back().pattern = true;
    } else if (doubled) {
      // Commands other than tests are assumed to succeed.
      std::optional<bool> went = last_;
      if (went && c == '|') went = !*went;
      if (!in_condition()) list_ = both(list_, if_true(went));
      joined_ = c;
    }
  }

  [[nodiscard]] bool in_condition() const { return !blocks_.empty() && blocks_.back().condition; }

  void redirection() {
    const bool in = words_.peek() == '<';
    if (in && words_.peek(1) == '<' && words_.peek(2) != '<') {
      words_.skip(2);
      if (words_.peek() == '-') words_.skip();
      words_.skip_blanks();
      const ShellWord word = words_.word(true);
      due_.emplace_back(word.parts.empty() ? "" : word.parts.front().text, word.quoted);
      return;
    }
    while (std::string_view("<>&|").find(words_.peek()) != std::string_view::npos &&
           !words_.at_end())
      words_.skip();
    words_.skip_blanks();
    if (words_.at_word()) static_cast<void>(words_.word(true));
  }

  void take_document(const std::string& end, bool literal) {
    HereDocument document{{}, literal};
    while (!words_.at_end()) {
      const MarkedText line = words_.rest_of_line();
      if (!words_.at_end()) words_.skip();
      const auto begin = line.text.find_first_not_of('\t');
      if (begin != std::string::npos && line.text.substr(begin) == end) break;
      document.text.add(line);
      document.text.add('\n', line.offset());
    }
    if (runs() == Runs::Yes) read_.documents.push_back(std::move(document));
  }

  void command() {
    ShellCommand found;
    found.certain = runs() == Runs::Yes;
    bool declares = false;
    for (;;) {
      words_.skip_blanks();
      const char c = words_.peek();
      if (words_.at_end() || c == '\n' || c == ';' || c == '|' || c == ')') break;
      if (c == '&') {
        if (words_.peek(1) != '>') break;
        words_.skip();
        continue;
      }
      if (c == '<' || c == '>') {
        redirection();
        continue;
      }
      if (c == '(') {
        words_.skip();
        continue;
      }
      if (found.words.empty() || declares) {
        if (const auto assigned = words_.assignment()) {
          assign(*assigned);
          continue;
        }
      }
      if (!found.words.empty() && found.words.front().text == ":") set_default();
      ShellWord word = expanded(false);
      const bool number = !word.quoted && word.parts.size() == 1 &&
                          (word.parts[0].text == "1" || word.parts[0].text == "2") &&
                          (words_.peek() == '>' || words_.peek() == '<');
      if (number) continue;  // of a stream
      if (found.words.empty() && !word.quoted && word.parts.size() == 1) {
        if (keyword(word.parts.front().text)) return;
        declares = is_declaration(word.parts.front().text);
      }
      for (MarkedText& part : word.parts) found.words.push_back(std::move(part));
    }
    if (found.words.empty()) {
      last_ = true;
      return;
    }
    finish(std::move(found));
  }

  /// The word that is next, "${NAME:=VALUE}", sets a variable that nothing has set.
  void set_default() {
    const std::string text = ShellWords(words_).rest_of_line().text;
    const std::size_t begin = text.find("${");
    const std::size_t equals = text.find(":=");
    if (begin > 1 || equals == std::string::npos) return;
    const std::string name = text.substr(begin + 2, equals - begin - 2);
    if (read_.variables.contains(name)) return;
    const ShellWord value = ShellWords(words_).word(true);
    if (value.parts.size() == 1) keep({name, false, words_.offset()}, {value.parts, false});
  }

  static bool is_declaration(std::string_view word) {
    constexpr std::array kWords{"export", "declare", "local", "readonly", "typeset", "env"};
    return contains(kWords, word);
  }

  void finish(ShellCommand found) {
    last_ = command_result(transformed(found.words, &MarkedText::text), in_condition());
    if (in_condition()) {
      condition_ = joined_result(condition_, std::exchange(joined_, '\0'), last_);
      return;
    }
    if (runs() == Runs::No) return;
    const std::string& name = found.words.front().text;
    if ((name == "." || name == "source") && found.words.size() > 1)
      read_.sourced.push_back(spelled(found.words[1].text));
    if (name == "let") return let(found.words);
    read_.commands.push_back(std::move(found));
  }

  /// let "NAME=EXPRESSION"
  void let(const std::vector<MarkedText>& words) {
    for (const MarkedText& word : words) {
      const std::size_t equals = word.text.find('=');
      const std::string name = word.text.substr(0, equals);
      if (equals == std::string::npos || defined_.contains(name)) continue;
      const auto value =
          arithmetic_value(std::string_view(word.text).substr(equals + 1), read_.variables);
      MarkedText text;
      if (value) text.add(std::to_string(*value), word.offset());
      if (!value) text.add_unknown(name, word.offset());
      keep({name, false, word.offset()}, {{std::move(text)}, false});
    }
  }

  /// A variable that the user defines takes additions only: NAME="$NAME ...".
  void assign(const ShellWords::Assignment& assigned) {
    Variable value;
    const std::string line = ShellWords(words_).rest_of_line().text;
    const auto has = [&](std::string_view before, std::string_view behind) {
      return line.find(fmt::format("{}{}{}", before, assigned.name, behind)) != std::string::npos;
    };
    const bool extends = assigned.append || has("$", " ") || has("${", "} ");
    if (extends) read_.variables.try_emplace(assigned.name, Variable{{MarkedText{}}, false});
    if (words_.peek() == '(') {
      words_.skip();
      value.array = true;
      while (!words_.at_end() && words_.peek() != ')') {
        words_.skip_blanks();
        if (words_.peek() == ')') break;
        if (!words_.at_word()) {
          words_.skip();
          continue;
        }
        for (MarkedText& part : expanded(false).parts) value.values.push_back(std::move(part));
      }
      words_.skip();
    } else {
      const ShellWord word = words_.at_word() ? expanded(true) : ShellWord{};
      MarkedText all;
      for (const MarkedText& part : word.parts) all.add(part);
      value.values.push_back(std::move(all));
    }
    last_ = true;
    const bool defined = defined_.contains(assigned.name);
    if (defined ? extends && runs() == Runs::Yes : runs() != Runs::No)
      keep(assigned, std::move(value));
  }

  void keep(const ShellWords::Assignment& assigned, Variable value) {
    const bool certain = runs() == Runs::Yes;
    const bool flags = std::ranges::any_of(value.values, [&](const MarkedText& text) {
      return text.text.find(value.array ? "=" : "--") != std::string::npos ||
             text.text.find("--") != std::string::npos;
    });
    auto& list = certain ? read_.arguments : read_.conditional;
    if (flags) list.insert(list.end(), value.values.begin(), value.values.end());
    Variable& variable = read_.variables[assigned.name];
    if (!certain) {
      // Additions under a condition are listed, values under one are not known.
      if (assigned.append && variable.array) return;
      const bool same = variable.values.size() == 1 && value.values.size() == 1 &&
                        variable.values[0].text == value.values[0].text;
      if (same) return;
      MarkedText unknown;
      unknown.add_unknown(assigned.name, assigned.offset);
      variable = {{unknown}, false};
      return;
    }
    if (!assigned.append) {
      variable = std::move(value);
      return;
    }
    if (variable.array || value.array) {
      variable.array = true;
      for (MarkedText& text : value.values) variable.values.push_back(std::move(text));
      return;
    }
    if (variable.values.empty()) variable.values.emplace_back();
    variable.values.front().add(value.values.front());
    if (variable.values.front().text.size() > (1U << 20U))
      throw InputError({}, "a variable of the script grows beyond a million letters");
  }

  /// Words of the grammar. Whether `word` was one.
  bool keyword(const std::string& word) {
    if (word == "if" || word == "while" || word == "until") {
      open(word == "if" ? Block::Kind::If : Block::Kind::Loop);
      blocks_.back().condition = true;
      until_ = word == "until";
    } else if (word == "then" || (word == "do" && in_condition())) {
      if (in_condition()) {
        blocks_.back().condition = false;
        if (until_ && condition_) condition_ = !*condition_;
        until_ = false;
        enter(blocks_.back(), condition_);
        // How often a loop runs is not known.
        if (blocks_.back().kind == Block::Kind::Loop && blocks_.back().branch == Runs::Yes)
          blocks_.back().branch = Runs::Maybe;
      }
    } else if (word == "elif") {
      if (!blocks_.empty()) blocks_.back().condition = true;
      condition_ = false;
      joined_ = '\0';
    } else if (word == "else") {
      if (!blocks_.empty()) enter(blocks_.back(), true);
    } else if (word == "fi" || word == "done" || word == "esac") {
      if (!blocks_.empty() && !goes_round()) blocks_.pop_back();
    } else if (word == "case") {
      open_case();
    } else if (word == "for" || word == "select") {
      loop_over();
    } else if (word != "do" && word != "{" && word != "}" && word != "function" && word != "time") {
      return false;
    }
    list_ = word == "then" || word == "else" || word == "do" ? Runs::Yes : list_;
    return true;
  }

  void open(Block::Kind kind) {
    Block block;
    block.kind = kind;
    block.outside = runs();
    blocks_.push_back(block);
    condition_ = false;
    joined_ = '\0';
  }

  /// Words that are known are gone through one by one, as long as there are few.
  void loop_over() {
    constexpr std::size_t kMostRounds = 256;
    words_.skip_blanks();
    const ShellWord name = words_.at_word() ? words_.word(true) : ShellWord{};
    open(Block::Kind::Loop);
    Block& block = blocks_.back();
    block.branch = Runs::Maybe;
    std::vector<MarkedText> list;
    while (!words_.at_end() && words_.peek() != '\n' && words_.peek() != ';') {
      if (!words_.at_word()) {
        words_.skip();
        continue;
      }
      for (MarkedText& part : expanded(false).parts) list.push_back(std::move(part));
    }
    if (name.parts.size() != 1 || defined_.contains(name.parts[0].text)) return;
    block.variable = name.parts[0];
    block.body = words_.position();
    block.commands = read_.commands.size();
    const bool known =
        !list.empty() && list.front().text == "in" &&
        std::ranges::none_of(list, [](const MarkedText& word) {
          return unknown_in(word.text) || word.text.find_first_of("*?[{") != std::string::npos;
        });
    rounds_ += list.size();
    if (!known || block.outside != Runs::Yes || rounds_ > kMostRounds) return forget(block);
    block.branch = Runs::Yes;
    block.rest.assign(std::make_move_iterator(list.begin() + 1),
                      std::make_move_iterator(list.end()));
    static_cast<void>(goes_round());
  }

  /// Which word the variable of a loop holds is not known.
  void forget(Block& block) {
    MarkedText unknown;
    unknown.add_unknown(block.variable.text, block.variable.offset());
    read_.variables[block.variable.text] = {{unknown}, false};
    block.branch = Runs::Maybe;
    block.rest.clear();
  }

  /// Takes the next word of a loop and goes back to its first command; false: there is none. A loop
  /// that starts programs is a series of runs: no word of it is that of the plan.
  bool goes_round() {
    Block& block = blocks_.back();
    if (block.branch != Runs::Yes || block.kind != Block::Kind::Loop) return false;
    if (!block.rest.empty()) {
      read_.variables[block.variable.text] = {{std::move(block.rest.front())}, false};
      block.rest.erase(block.rest.begin());
    } else {
      const auto first = read_.commands.begin() + static_cast<std::ptrdiff_t>(block.commands);
      const bool starts = std::any_of(first, read_.commands.end(), [](const ShellCommand& one) {
        return std::ranges::any_of(
            one.words, [](const MarkedText& word) { return word.text.starts_with('-'); });
      });
      if (!starts) return false;
      read_.commands.erase(first, read_.commands.end());
      forget(block);
    }
    words_.go_back_to(block.body);
    return true;
  }

  void open_case() {
    words_.skip_blanks();
    const ShellWord subject = words_.at_word() ? words_.word(true) : ShellWord{};
    open(Block::Kind::Case);
    blocks_.back().subject = subject.parts.empty() ? "" : subject.parts.front().text;
    blocks_.back().pattern = true;
    words_.skip_blanks();
    if (words_.at_word()) static_cast<void>(words_.word(true));  // in
  }

  void case_pattern() {
    Block& block = blocks_.back();
    bool matched = false;
    bool unknown = false;  ///< whether a pattern matches
    while (!words_.at_end() && words_.peek() != ')') {
      words_.skip_blanks();
      if (!words_.at_word()) {
        if (words_.peek() != ')') words_.skip();
        continue;
      }
      const ShellWord word = words_.word(true);
      const std::string pattern = word.parts.empty() ? "" : word.parts.front().text;
      if (pattern == "esac") {
        blocks_.pop_back();
        return;
      }
      const auto subject = without_unset(block.subject);
      if (pattern == "*" || (subject && matches_pattern(*subject, pattern)))
        matched = true;
      else if (!subject)
        unknown = true;
    }
    words_.skip();
    block.pattern = false;
    enter(block, matched || !unknown ? std::optional(matched) : std::nullopt);
  }

  const Variables& defined_;
  ReadScript read_;
  std::size_t expanded_ = 0;  ///< letters of all words
  ShellWords words_;
  std::vector<Block> blocks_;
  std::vector<std::pair<std::string, bool>> due_;  ///< documents that start with the next line
  Runs list_ = Runs::Yes;                          ///< of the commands joined so far
  std::optional<bool> last_ = true;                ///< how the last command went
  std::optional<bool> condition_ = false;
  char joined_ = '\0';
  bool until_ = false;
  std::size_t rounds_ = 0;  ///< of loops over known words
};

}  // namespace

ReadScript read_script(const MarkedText& script, const Variables& defined,
                       const Variables& initial) {
  return ScriptReader(script, defined, initial).read();
}

}  // namespace plansearch::importers
