// SPDX-License-Identifier: Apache-2.0
// Answers of a sweep in files: the journal of a sweep that runs, and tables of those that are done.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "io/file.hpp"
#include "io/question_table.hpp"

namespace plansearch {

/// Rows as lines of JSON by the number of their question.
using AnswerTable = std::map<std::size_t, std::string>;

/// InputError for an ending that no writer has, with what to do instead.
void check_ending(const std::filesystem::path& out);

/// Calls `fn` with the place from 0 of every row and the row, on several threads. Throws Stopped.
void for_each_row(const AnswerTable& rows, int threads,
                  const std::function<void(std::size_t, const nlohmann::ordered_json&)>& fn);

/// CSV, JSON lines or an SQLite database, by the ending; in one step. Throws Stopped before it.
void write_answers(const std::filesystem::path& out, const AnswerTable& rows, int threads);

/// Adds the rows of a file of JSON lines. A last line that is cut short is left out. InputError for
/// a row of another question.
void read_answers(const std::filesystem::path& file,
                  const std::vector<io::TableQuestion>& questions, AnswerTable& rows);

/// Lines of JSON beside the file that is to be written, each on disk when it is appended.
class Journal {
 public:
  /// Goes on with what an earlier one has left; its rows are added to `rows`.
  Journal(const std::filesystem::path& out, const std::vector<io::TableQuestion>& questions,
          AnswerTable& rows);
  void append(const std::string& row);
  void remove();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  io::Descriptor file_;
};

/// Pictures of a sweep: step time over the number that its questions vary. InputError for others.
void check_sweep_plots(const std::vector<std::string>& plots);
/// Each "sweep=FILE" as --plot takes it. InputError where there is nothing to draw.
void write_sweep_plots(const std::vector<std::string>& plots, const AnswerTable& rows);

}  // namespace plansearch
