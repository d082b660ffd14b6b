// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plansearch/shipped_data.hpp"

namespace plansearch {

/// The shipped frameworks of which it holds, as flags.
template <typename Holds>
std::vector<std::string> run_by(Holds holds) {
  std::vector<std::string> names;
  const ShippedData data = shipped_data();
  for (const ShippedFile& file : data.frameworks()) {
    if (holds(data.framework(file.name))) names.push_back("--framework " + file.name);
  }
  return names;
}

}  // namespace plansearch
