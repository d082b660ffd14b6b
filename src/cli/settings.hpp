// SPDX-License-Identifier: Apache-2.0
// The effective configuration and who decided each part of it.
#pragma once

#include <map>
#include <set>
#include <string>

#include "cli/options.hpp"

namespace plansearch::cli {

/// Options of which a plan document filled in what the user left open.
struct AskedOptions {
  Options options;
  std::set<std::string> from_plan;  ///< keys ("batch", "tp", ...)
  /// What the plan document says the content of "hardware" and "model" hashed to.
  std::map<std::string, std::string> content_hashes;
};

}  // namespace plansearch::cli
