// SPDX-License-Identifier: Apache-2.0
#include "answer/sweep_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/parallel.hpp"
#include "io/tables/database.hpp"
#include "plansearch/error.hpp"
#include "report/columns.hpp"

namespace plansearch {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kLargest = std::size_t{4} << 30U;

bool is_database(const fs::path& path) {
  return path.extension() == ".sqlite" || path.extension() == ".db";
}

/// The number of a row whose question is that of the file; InputError for another question.
std::size_t checked_number(const Json& row, const std::vector<io::TableQuestion>& questions,
                           const SourceLocation& where) {
  const auto number = row.find("question");
  const auto asked = row.find("asked");
  const bool whole = number != row.end() && number->is_number_unsigned() && asked != row.end() &&
                     asked->is_string();
  if (!whole) throw InputError(where, "this is not an answer of a sweep");
  const auto index = number->get<std::size_t>();
  if (index < 1 || index > questions.size() || questions[index - 1].text != *asked) {
    throw InputError(
        where, fmt::format("answers another question {}: {}", index, asked->get<std::string>()),
        "answers go with the file of questions that they were made from; remove this "
        "file to begin anew");
  }
  return index;
}

std::string csv_of(const AnswerTable& rows, int threads) {
  std::vector<std::string> lines(rows.size());
  for_each_row(rows, threads, [&](std::size_t i, const Json& row) {
    lines[i] = i == 0 ? csv_header(row) + csv_line(row) : csv_line(row);
  });
  return fmt::format("{}", fmt::join(lines, ""));
}

std::string lines_of(const AnswerTable& rows) {
  std::string text;
  for (const auto& [number, line] : rows) text += line + "\n";
  return text;
}

/// The journal open at its end; what it holds is added to `rows`.
io::Descriptor taken_up(const fs::path& path, const std::vector<io::TableQuestion>& questions,
                        AnswerTable& rows) {
  std::error_code error;
  if (fs::exists(path, error)) {
    AnswerTable known;
    read_answers(path, questions, known);
    io::write_file(path, lines_of(known));  // without a line that was cut short
    rows.merge(known);
  }
  constexpr int kMode = 0666;
  io::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode));
  if (!file.valid())
    throw InputError({path.string(), 0, 0}, fmt::format("cannot write: {}", std::strerror(errno)));
  return file;
}

}  // namespace

void check_ending(const fs::path& out) {
  const fs::path ending = out.extension();
  if (ending == ".csv" || ending == ".jsonl") return;
  if (is_database(out)) {
    io::require_database(out);
    return;
  }
  if (ending == ".parquet") {
    throw InputError({out.string(), 0, 0}, "this program writes no Parquet",
                     "write .csv, and convert it: pandas.read_csv(\"x.csv\").to_parquet(...)");
  }
  throw InputError({out.string(), 0, 0}, "answers of a sweep go to .csv, .jsonl, .sqlite or .db",
                   "end the name of --out so");
}

void for_each_row(const AnswerTable& rows, int threads,
                  const std::function<void(std::size_t, const Json&)>& fn) {
  std::vector<const std::string*> lines;
  for (const auto& [number, line] : rows) lines.push_back(&line);
  parallel_for(lines.size(), threads, [&](std::size_t i) { fn(i, Json::parse(*lines[i])); });
}

void write_answers(const fs::path& out, const AnswerTable& rows, int threads) {
  if (is_database(out)) {
    std::vector<Json> values;
    for (const auto& [number, line] : rows) values.push_back(Json::parse(line));
    io::write_database(out, "answers", values);
    return;
  }
  if (out.extension() == ".csv") {
    io::write_file(out, csv_of(rows, threads));
    return;
  }
  io::write_file(out, lines_of(rows));
}

void read_answers(const fs::path& file, const std::vector<io::TableQuestion>& questions,
                  AnswerTable& rows) {
  const std::string text = io::read_file(file, kLargest);
  int line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) return;  // a writer was killed in the middle of it
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const SourceLocation where{file.string(), ++line_number, 1};
    const Json row = Json::parse(line, nullptr, false);
    if (!row.is_object()) throw InputError(where, "this line is not an answer of a sweep");
    rows[checked_number(row, questions, where)] = line;
  }
}

Journal::Journal(const fs::path& out, const std::vector<io::TableQuestion>& questions,
                 AnswerTable& rows)
    : path_(out.string() + ".part"), file_(taken_up(path_, questions, rows)) {}

void Journal::append(const std::string& row) {
  if (io::write_all(file_.get(), row + "\n")) return;
  throw InputError({path_.string(), 0, 0}, fmt::format("cannot write: {}", std::strerror(errno)));
}

void Journal::remove() {
  std::error_code error;
  fs::remove(path_, error);
}

}  // namespace plansearch
