// SPDX-License-Identifier: Apache-2.0
// Trials of plans on the machine itself: which are worth most, and what their results say of all.
#pragma once

#include <filesystem>
#include <string>

#include "answer/export_question.hpp"
#include "plansearch/report.hpp"

namespace plansearch {

/// A folder of trials: plans.json, the answer of a search; trials.csv, one row a trial, of which the
/// user fills in `measured`; and for each a launch script, with the log of its run beside it.
struct TuneRequest {
  std::filesystem::path folder;
  ExportOptions scripts;      ///< target and launcher
  std::size_t trials = 1;     ///< new ones at most
  bool if_worthwhile = true;  ///< none where one saves next to nothing
  Format format = Format::Table;
  int columns = 0;
  std::string version;
};

/// Reads the folder, writes the scripts of the trials that teach most, and reports what is known.
/// InputError for a folder without plans, a table that another plan file belongs to, and texts that
/// are neither a pace nor "oom".
[[nodiscard]] std::string advance_trials(const TuneRequest& request);

}  // namespace plansearch
