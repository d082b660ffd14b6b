// SPDX-License-Identifier: Apache-2.0
// A sweep as a picture: step time over the number that its questions vary.
#pragma once

#include <string>
#include <vector>

#include "answer/sweep_files.hpp"

namespace plansearch {

/// InputError for pictures of other answers.
void check_sweep_plots(const std::vector<std::string>& plots);
/// Each "sweep=FILE" as --plot takes it. InputError where there is nothing to draw.
void write_sweep_plots(const std::vector<std::string>& plots, const AnswerTable& rows);

}  // namespace plansearch
