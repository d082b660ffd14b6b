// SPDX-License-Identifier: Apache-2.0
// Property tests draw as many cases as they name; PLANSEARCH_TEST_ROUNDS=0.1 draws a tenth, for builds with sanitizers.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace plansearch::test {

/// The number of cases to draw, at least one.
inline int rounds(int full) {
  static const double share = [] {
    const char* text = std::getenv("PLANSEARCH_TEST_ROUNDS");
    return text == nullptr ? 1.0 : std::atof(text);
  }();
  return std::max(1, static_cast<int>(full * share));
}

}  // namespace plansearch::test
