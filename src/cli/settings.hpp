// SPDX-License-Identifier: Apache-2.0
// The effective configuration and who decided each part of it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "cli/options.hpp"
#include "io/plan_stages_document.hpp"

namespace plansearch::cli {

/// Options of which a plan document filled in what the user left open.
struct AskedOptions {
  Options options;
  std::set<std::string> from_plan;  ///< keys ("batch", "tp", ...)
  /// What the plan document says the content of "hardware" and "model" hashed to.
  std::map<std::string, std::string> content_hashes;
  std::optional<io::StagesDocument> stages{};  ///< of a plan document that spells them out
};

}  // namespace plansearch::cli
