// SPDX-License-Identifier: Apache-2.0
#include "answer/sweep_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/parallel.hpp"
#include "plansearch/error.hpp"
#include "report/columns.hpp"

#ifdef PLANSEARCH_SQLITE
#include <sqlite3.h>
#endif

namespace plansearch {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kLargest = std::size_t{4} << 30U;

#ifdef PLANSEARCH_SQLITE
std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const Json& item : value) parts.push_back(text_of(item));
  return fmt::format("{}", fmt::join(parts, "/"));
}

/// A connection that closes itself; every failure is an InputError at the file.
class Database {
 public:
  explicit Database(const fs::path& path) : path_(path) {
    sqlite3* raw = nullptr;
    const int code = sqlite3_open(path.c_str(), &raw);
    handle_.reset(raw);
    check(code);
  }
  void run(const std::string& sql) {
    check(sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr));
  }
  /// One row after the other into the statement's places.
  void insert(const std::string& sql, const std::vector<Json>& rows,
              const std::vector<std::string>& columns) {
    sqlite3_stmt* raw = nullptr;
    check(sqlite3_prepare_v2(handle_.get(), sql.c_str(), -1, &raw, nullptr));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw, sqlite3_finalize);
    for (const Json& row : rows) {
      for (std::size_t c = 0; c < columns.size(); ++c)
        bind(raw, static_cast<int>(c) + 1, row.at(columns[c]));
      const int code = sqlite3_step(raw);
      if (code != SQLITE_DONE) check(code);
      check(sqlite3_reset(raw));
    }
  }

 private:
  void bind(sqlite3_stmt* statement, int place, const Json& value) {
    if (value.is_null()) return check(sqlite3_bind_null(statement, place));
    if (value.is_boolean())
      return check(sqlite3_bind_int(statement, place, value.get<bool>() ? 1 : 0));
    if (value.is_number_integer())
      return check(sqlite3_bind_int64(statement, place, value.get<std::int64_t>()));
    if (value.is_number()) return check(sqlite3_bind_double(statement, place, value.get<double>()));
    const std::string text = text_of(value);
    check(sqlite3_bind_text(statement, place, text.c_str(), static_cast<int>(text.size()),
                            SQLITE_TRANSIENT));
  }
  void check(int code) const {
    if (code == SQLITE_OK) return;
    throw InputError(
        {path_.string(), 0, 0},
        fmt::format("SQLite: {}", handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code)));
  }

  fs::path path_;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> handle_{nullptr, sqlite3_close};
};
#endif

/// InputError, with what to do, where this build has no SQLite.
void require_database(const fs::path& path) {
#ifdef PLANSEARCH_SQLITE
  static_cast<void>(path);
#else
  throw InputError({path.string(), 0, 0}, "this build has no SQLite",
                   "write .csv, or build with libsqlite3-dev installed; sqlite3 x.db \".import "
                   "--csv x.csv answers\" makes one of the other");
#endif
}

/// A new database in the place of what is there, with one table. Columns are the keys of the first
/// row; whole numbers, numbers and texts keep their type, lists become texts ("1/2"). The same rows
/// give the same bytes. InputError where it cannot be written.
void write_database(const fs::path& path, const std::string& table, const std::vector<Json>& rows) {
  require_database(path);
#ifdef PLANSEARCH_SQLITE
  const fs::path fresh = path.string() + ".new";
  std::error_code error;
  fs::remove(fresh, error);
  {
    Database database(fresh);
    std::vector<std::string> columns, names, places;
    if (!rows.empty()) {
      for (const auto& item : rows.front().items()) columns.push_back(item.key());
    }
    for (const std::string& column : columns) {
      names.push_back(quoted(column));
      places.emplace_back("?");
    }
    database.run("BEGIN");
    database.run(fmt::format("CREATE TABLE {} ({})", quoted(table), fmt::join(names, ", ")));
    database.insert(
        fmt::format("INSERT INTO {} VALUES ({})", quoted(table), fmt::join(places, ", ")), rows,
        columns);
    database.run("COMMIT");
  }
  fs::rename(fresh, path, error);
  if (error) throw InputError({path.string(), 0, 0}, "cannot write: " + error.message());
#else
  static_cast<void>(table);
  static_cast<void>(rows);
#endif
}

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
    require_database(out);
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
    write_database(out, "answers", values);
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
