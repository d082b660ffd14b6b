// SPDX-License-Identifier: Apache-2.0
// The plans of an answer, a row each, and what the short names mean.
#pragma once

#include <string>

#include "plansearch/report.hpp"

namespace plansearch {

[[nodiscard]] std::string ranking_table(const SearchReport& report, int columns);

}  // namespace plansearch
