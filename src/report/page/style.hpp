// SPDX-License-Identifier: Apache-2.0
// What a page looks like, and the little it does: sorting and filtering tables.
#pragma once

#include <string_view>

namespace plansearch::page {

extern const std::string_view kStyle;
extern const std::string_view kScript;

// Of pictures: the margin that names take, and how many colours the style has.
inline constexpr double kLeft = 90.0;
inline constexpr int kColours = 12;

}  // namespace plansearch::page
