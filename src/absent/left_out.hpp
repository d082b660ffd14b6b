// SPDX-License-Identifier: Apache-2.0
// Errors of parts that this build leaves out (-DPLANSEARCH_WITHOUT=...).
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "plansearch/error.hpp"

namespace plansearch {

/// The error of a question that a part of the program would answer: InputError with the command that builds it.
[[noreturn]] inline void refuse_left_out(std::string_view what, std::string_view wing) {
  throw InputError({}, fmt::format("{}: this build leaves out the part '{}'", what, wing),
                   "build it: cmake --preset release -DPLANSEARCH_WITHOUT= && cmake --build --preset release");
}

}  // namespace plansearch
