// SPDX-License-Identifier: Apache-2.0
// What a page looks like, and the little it does: sorting and filtering tables.
#pragma once

#include <string_view>

namespace plansearch::page {

extern const std::string_view kStyle;
extern const std::string_view kScript;

}  // namespace plansearch::page
