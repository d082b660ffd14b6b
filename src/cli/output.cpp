// SPDX-License-Identifier: Apache-2.0
#include "cli/output.hpp"
#include "base/units.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/names.hpp"
#include "base/parallel.hpp"
#include "cli/parse.hpp"
#include "io/document/file.hpp"
#include "plansearch/error.hpp"
#include "report/text_table.hpp"

namespace plansearch::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kRed = "\x1b[1;31m";
constexpr std::string_view kCyan = "\x1b[36m";
constexpr std::string_view kReset = "\x1b[0m";

/// A terminal that is not said to be without colours: https://no-color.org and TERM=dumb.
bool has_colours(int descriptor) {
  const char* refused = std::getenv("NO_COLOR");
  const bool plain = (refused != nullptr && *refused != '\0') || is_dumb_terminal();
  return !plain && ::isatty(descriptor) == 1;
}

bool wants_colour(const Options& options, int descriptor) {
  if (options.caller != nullptr) return false;
  if (options.color == "always") return true;
  return options.color == "auto" && has_colours(descriptor);
}

[[noreturn]] void refuse(const std::string& file, std::string_view why) {
  throw InputError({file, 0, 0}, fmt::format("cannot write: {}", why),
                   "name a file in a directory that exists and may be written to");
}

void check_writable(const std::string& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::is_directory(status)) refuse(file, "is a directory");
  if (fs::exists(status)) {
    if (::access(file.c_str(), W_OK) != 0) refuse(file, std::strerror(errno));
    if (!fs::is_regular_file(status)) return;
  }
  const fs::path parent = fs::path(file).parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  if (::access(directory.c_str(), W_OK | X_OK) != 0) refuse(file, std::strerror(errno));
  if (!fs::is_directory(directory, error))
    refuse(file, fmt::format("{} is not a directory", directory));
}

bool is_rule(std::string_view line) {
  return line.starts_with('-') && line.find_first_not_of("- ") == std::string_view::npos;
}

/// Puts the line above each table rule in bold.
std::string with_bold_headers(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const bool header = is_rule(text.substr(0, text.find('\n')));
    result += header ? fmt::format("{}{}{}\n", kBold, line, kReset) : fmt::format("{}\n", line);
  }
  return result;
}

/// A reader that has closed the pipe is not an error.
void write_to_standard_output(std::string_view text) {
  if (!io::write_all(STDOUT_FILENO, text) && errno != EPIPE) {
    refuse("standard output", std::strerror(errno));
  }
}

constexpr int kFewestColumns = 40;

/// $COLUMNS, if it is a number.
std::optional<int> asked_columns() {
  const char* asked = std::getenv("COLUMNS");
  const auto columns = asked == nullptr ? std::nullopt : parse_as<int>(asked);
  if (!columns || *columns <= 0) return std::nullopt;
  return std::max(*columns, kFewestColumns);
}

}  // namespace

bool is_dumb_terminal() {
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && std::string_view(terminal) == "dumb";
}

int threads_of(const Options& options) {
  return options.threads > 0 ? options.threads : available_threads();
}

Format format_of(const Options& options) {
  if (options.format == "json") return Format::Json;
  if (options.format == "jsonl") return Format::JsonLines;
  if (options.format == "csv") return Format::Csv;
  return Format::Table;
}

std::optional<int> screen_columns() {
  if (const auto asked = asked_columns()) return asked;
  winsize window{};
  const bool terminal =
      ::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0;
  if (!terminal || window.ws_col == 0) return std::nullopt;
  return std::max<int>(window.ws_col, kFewestColumns);
}

int columns_of(const Options& options) {
  if (options.format == "markdown") return kMarkdown;
  return (options.out.empty() ? screen_columns() : asked_columns()).value_or(0);
}

Output::Output(const Options& options)
    : file_(options.out),
      caller_(options.caller),
      emphasis_(options.format == "table" && options.out.empty() &&
                wants_colour(options, STDOUT_FILENO)) {
  // Before anything is searched or measured.
  for (const std::string& file : {file_, options.page, options.trace}) {
    if (!file.empty()) check_writable(file);
  }
}

void Output::write(std::string_view text) const {
  if (!file_.empty()) {
    io::write_file(file_, text);
  } else if (caller_ != nullptr) {
    caller_->answer += text;
  } else if (emphasis_) {
    write_to_standard_output(with_bold_headers(text));
  } else {
    write_to_standard_output(text);
  }
}

void keep_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1) static_cast<void>(::open("/dev/null", O_RDONLY));
  }
}

void write_to_standard_error(std::string_view text) {
  static_cast<void>(io::write_all(STDERR_FILENO, text));
}

void print_error(std::string_view formatted, const Options& options) {
  if (options.caller != nullptr) {
    options.caller->remarks.emplace_back(formatted);
    return;
  }
  std::string text(formatted);
  if (wants_colour(options, STDERR_FILENO)) {
    const auto paint = [&](std::string_view word, std::string_view colour) {
      if (const auto at = text.find(word); at != std::string::npos) {
        text.replace(at, word.size(), fmt::format("{}{}{}", colour, word, kReset));
      }
    };
    paint("error:", kRed);
    paint("hint:", kCyan);
  }
  write_to_standard_error(text + "\n");
}

void print_note(std::string_view text, const Options& options) {
  if (options.caller != nullptr) {
    options.caller->remarks.push_back(printable(text));
  } else if (!options.quiet) {
    write_to_standard_error(printable(text) + "\n");
  }
}

}  // namespace plansearch::cli
