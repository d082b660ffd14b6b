// SPDX-License-Identifier: Apache-2.0
// One number in a line of a log, by the words around it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plansearch::io {

/// Literal text with one number, in braces with its unit: "elapsed time per iteration (ms): {ms} |".
/// A blank stands for any number of blanks, '~' for those and dots; '^' in front for the start of the line, blanks aside. A number may
/// have groups of digits (5,762), or end in K, M, G, T or P ("11.5K") where the text after it does not
/// begin so. {clock} is hours, minutes and seconds ("1:02:03"). Text without braces is found or not.
class LinePattern {
 public:
  /// Nothing where the text has no words to find it by, or braces that do not close.
  [[nodiscard]] static std::optional<LinePattern> read(std::string_view text);

  /// The first number between these words; 1 for a text without a number.
  [[nodiscard]] std::optional<double> find(std::string_view line) const;
  [[nodiscard]] const std::string& unit() const { return unit_; }

 private:
  [[nodiscard]] std::optional<double> number_at(std::string_view rest) const;

  std::string before_;
  std::string after_;
  std::string unit_;
  bool at_start_ = false;
  bool number_ = true;
};

/// Several times as fast as string_view::find on long lines.
[[nodiscard]] bool has_word(std::string_view line, std::string_view word);

/// The line without colours of a terminal ("\x1b[31m").
[[nodiscard]] std::string without_colours(std::string_view line);

}  // namespace plansearch::io
