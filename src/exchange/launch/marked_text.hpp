// SPDX-License-Identifier: Apache-2.0
// Text of a shell script with the place of every letter in its file, and with marks for the parts
// that are unknown until the script runs.
#pragma once

#include <cstdint>
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
};

}  // namespace plansearch::importers
