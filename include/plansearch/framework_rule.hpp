// SPDX-License-Identifier: Apache-2.0
// One legality rule of a framework file.
#pragma once

#include <string>

namespace plansearch {

/// Which feature or combination a framework refuses, with its own words.
struct FrameworkRule {
  std::string name;  ///< key of the closed rule vocabulary, see docs/frameworks.md
  double limit = 0.0;
  std::string message;
  bool operator==(const FrameworkRule&) const = default;
};

}  // namespace plansearch
