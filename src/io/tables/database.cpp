// SPDX-License-Identifier: Apache-2.0
#include "io/tables/database.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <system_error>

#include "plansearch/error.hpp"

#ifdef PLANSEARCH_SQLITE
#include <sqlite3.h>
#endif

namespace plansearch::io {
namespace {

namespace fs = std::filesystem;

#ifdef PLANSEARCH_SQLITE
using Json = nlohmann::ordered_json;

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

}  // namespace

void require_database(const fs::path& path) {
#ifdef PLANSEARCH_SQLITE
  static_cast<void>(path);
#else
  throw InputError({path.string(), 0, 0}, "this build has no SQLite",
                   "write .csv, or build with libsqlite3-dev installed; sqlite3 x.db \".import "
                   "--csv x.csv answers\" makes one of the other");
#endif
}

void write_database(const fs::path& path, const std::string& table,
                    const std::vector<nlohmann::ordered_json>& rows) {
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

}  // namespace plansearch::io
