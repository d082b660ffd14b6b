// SPDX-License-Identifier: Apache-2.0
// The line that says what the numbers of an answer rest on.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace plansearch {

/// Of "profile NAME (7 measured, ...)" and the like.
[[nodiscard]] inline std::string evidence_text(const std::vector<std::string>& files) {
  return fmt::format("these numbers rest on: {}", fmt::join(files, "; "));
}

}  // namespace plansearch
