// SPDX-License-Identifier: Apache-2.0
// The effective configuration and who decided each part of it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/options.hpp"
#include "plansearch/report.hpp"

namespace plansearch::cli {

/// Options of which a plan document filled in what the user left open.
struct AskedOptions {
  Options options;
  std::set<std::string> from_plan;  ///< keys ("batch", "tp", ...)
  /// What the plan document says the content of "hardware" and "model" hashed to.
  std::map<std::string, std::string> content_hashes;

  /// Who set a key that is present: the flag or the plan document.
  [[nodiscard]] std::string origin(const std::string& key) const {
    return from_plan.contains(key) ? "plan" : "flag";
  }
};

/// A value that may come from several places; the first that has one wins.
template <typename T>
class Chosen {
 public:
  Chosen& or_else(const std::optional<T>& candidate, std::string origin) {
    if (!value_ && candidate) {
      value_ = candidate;
      origin_ = std::move(origin);
    }
    return *this;
  }
  [[nodiscard]] const T& value() const { return value_.value(); }
  [[nodiscard]] bool has_value() const { return value_.has_value(); }
  [[nodiscard]] const std::string& origin() const { return origin_; }

 private:
  std::optional<T> value_;
  std::string origin_;
};

}  // namespace plansearch::cli
