// SPDX-License-Identifier: Apache-2.0
// Fields of a curve that may be like another.
#pragma once

#include <string_view>

#include "io/profile_parts.hpp"

namespace plansearch::io {

/// Whether a curve that is like no other must say it.
enum class Need { Required, Optional };

/// Reads into a curve that begins as the one it is like, or as its defaults.
class CurveReader {
 public:
  CurveReader(const Node& node, bool is_like_another) : node_(node), based_(is_like_another) {}

  void time(std::string_view key, Seconds& field, Need need = Need::Required) const {
    field = time_or(node_, key, fallback(field, need));
  }
  void rate(std::string_view key, Bandwidth& field) const {
    field = bandwidth_or(node_, key, fallback(field, Need::Required));
  }
  void number(std::string_view key, double& field, double low, double high,
              Need need = Need::Required) const {
    field = number_or(node_, key, fallback(field, need), low, high);
  }
  void residual(std::optional<Residual>& field) const { field = read_residual(node_, field); }

 protected:
  template <typename Q>
  [[nodiscard]] const Q* fallback(const Q& field, Need need) const {
    return based_ || need == Need::Optional ? &field : nullptr;
  }
  const Node& node_;
  bool based_;
};

}  // namespace plansearch::io
