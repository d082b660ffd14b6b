// SPDX-License-Identifier: Apache-2.0
// A value that may come from several places, and the one it came from.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace plansearch {

/// The first place that has a value wins.
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

}  // namespace plansearch
