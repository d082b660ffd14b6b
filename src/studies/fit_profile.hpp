// SPDX-License-Identifier: Apache-2.0
// A hardware profile with a site of its own, from a few measured runs.
#pragma once

#include <string>
#include <vector>

#include "plansearch/shipped_data.hpp"

namespace plansearch {

struct FitRequest {
  std::vector<std::string> tables;  ///< CSV of measured runs
  std::string base;                 ///< profile that is like the machine
  std::string out;                  ///< the profile to write; its stem is its name
  int threads = 1;
};

struct FitAnswer {
  std::string report;   ///< what was seen and what follows, for people
  std::string profile;  ///< the text of the new profile; empty: refused, `report` says why
};

/// InputError for anything wrong in a file, and for an output that is one of the inputs.
[[nodiscard]] FitAnswer fit_profile(const FitRequest& request, const ShippedData& data);

}  // namespace plansearch
