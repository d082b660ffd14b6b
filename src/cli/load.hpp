// SPDX-License-Identifier: Apache-2.0
// From the command line and the files it names to a question the evaluator understands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/settings.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/report.hpp"

namespace plansearch::cli {

/// Everything but the number of GPUs, which the ladder varies.
struct Inputs {
  Problem problem;
  std::optional<int> gpus;  ///< as asked for with --gpus or --nodes
  std::vector<SettingReport> settings;
  std::string evidence;            ///< what the numbers rest on
  std::vector<std::string> notes;  ///< what the user should know beside the answer
};

/// Reads the files and settles every value: flag > plan > model > framework > profile > default.
[[nodiscard]] Inputs load_inputs(const AskedOptions& asked);

/// The same question for a number of GPUs.
[[nodiscard]] Problem with_gpus(const Inputs& inputs, int gpus);
[[nodiscard]] QuestionReport question_report(const Inputs& inputs, const Problem& problem);

}  // namespace plansearch::cli
