// SPDX-License-Identifier: Apache-2.0
// A sweep as a picture: step time over the number that its questions vary.
#pragma once

#include <string>
#include <vector>

#include "answer/sweep_files.hpp"

namespace plansearch {

/// Each "NAME=FILE" as --plot takes it. InputError for pictures of other answers, and for a sweep
/// with nothing to draw.
void write_sweep_plots(const std::vector<std::string>& plots, const AnswerTable& rows);

}  // namespace plansearch
