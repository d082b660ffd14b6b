// SPDX-License-Identifier: Apache-2.0
// Where the answer goes. Standard output carries data only; everything else goes to standard error.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/options.hpp"
#include "plansearch/report.hpp"

namespace plansearch::cli {

[[nodiscard]] Format format_of(const Options& options);
/// --threads, or those of the machine.
[[nodiscard]] int threads_of(const Options& options);

/// $COLUMNS, else what a terminal at standard output has; none for files and pipes.
[[nodiscard]] std::optional<int> screen_columns();

/// Characters to a line of the answer: $COLUMNS, else those of the terminal; 0 (any number) into
/// files and pipes.
[[nodiscard]] int columns_of(const Options& options);

/// $TERM of a terminal that knows no escape sequences.
[[nodiscard]] bool is_dumb_terminal();

/// Checks on construction that --out can be written, so that no search runs for nothing.
class Output {
 public:
  explicit Output(const Options& options);
  /// Writes the whole answer: a file in one step, or standard output. Throws InputError.
  void write(std::string_view text) const;

 private:
  std::string file_;
  Caller* caller_;
  bool emphasis_ = false;  ///< table headers in bold
};

/// Descriptors 0 to 2 that are closed become unwritable ones, so that no file we open gets such a
/// number and messages in it.
void keep_standard_descriptors();

/// A standard error that cannot be written is left alone: there is nowhere to say so.
void write_to_standard_error(std::string_view text);

/// "error: ..." and "hint: ..." on standard error, in colour on a terminal.
void print_error(std::string_view formatted, const Options& options);
/// A remark on standard error, unless --quiet.
void print_note(std::string_view text, const Options& options);

}  // namespace plansearch::cli
