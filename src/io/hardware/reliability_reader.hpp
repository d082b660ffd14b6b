// SPDX-License-Identifier: Apache-2.0
// Published interruptions of jobs (plansearch/reliability/v1).
#pragma once

#include <filesystem>

#include "evaluate/answer/goodput.hpp"

namespace plansearch::io {

/// InputError for anything wrong, with its place.
[[nodiscard]] Reliability read_reliability(const std::filesystem::path& path);

}  // namespace plansearch::io
