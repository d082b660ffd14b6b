// SPDX-License-Identifier: Apache-2.0
// Many questions in one file: a CSV with a question in every row, or YAML with a grid
// (docs/sweep.md). Keys are those of settings and degrees, as in plan files and flags.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plansearch/error.hpp"
#include "plansearch/problem_request.hpp"

namespace plansearch::io {

/// One question of the file, with one value for every key.
struct TableQuestion {
  ProblemRequest request;
  std::string plan;      ///< plan document or result.json#RANK; empty: none
  bool predict = false;  ///< one given plan, not a search
  std::string text;      ///< "gpus=64 batch=512", as the file says it
  SourceLocation where;
};

/// Every combination of the values of every row, the first key outermost, at most a million. Keys
/// and values are checked here; whether there is such a file, and a plan, when the question is
/// asked. InputError with the place of what is wrong.
[[nodiscard]] std::vector<TableQuestion> read_questions(const std::filesystem::path& path);

}  // namespace plansearch::io
