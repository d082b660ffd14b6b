// SPDX-License-Identifier: Apache-2.0
// Flat rows as a table of an SQLite database, where this build has its library.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace plansearch::io {

/// InputError, with what to do, where this build has no SQLite.
void require_database(const std::filesystem::path& path);

/// A new database in the place of what is there, with one table. Columns are the keys of the first
/// row; whole numbers, numbers and texts keep their type, lists become texts ("1/2"). The same rows
/// give the same bytes. InputError where it cannot be written.
void write_database(const std::filesystem::path& path, const std::string& table,
                    const std::vector<nlohmann::ordered_json>& rows);

}  // namespace plansearch::io
