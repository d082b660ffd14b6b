// SPDX-License-Identifier: Apache-2.0
// Optional fields of a map: what the map leaves out keeps its value.
#pragma once

#include <functional>
#include <string_view>
#include <type_traits>

#include "io/profile_parts.hpp"

namespace plansearch::io {

class Fields {
 public:
  /// With a log: of what was given.
  explicit Fields(const Node& map, FieldLog* log = nullptr) : map_(map), log_(log) {}

  /// `read`: a function of the node or one of its members, such as &Node::boolean; or a list of
  /// choices.
  template <typename T, typename Read>
  void take(std::string_view key, T& field, const Read& read) const {
    if constexpr (std::is_invocable_v<const Read&, const Node&>) {
      with(key, [&](const Node& node) { field = std::invoke(read, node); });
    } else {
      using Row = std::remove_cvref_t<decltype(*std::begin(read))>;
      with(key, [&](const Node& node) { field = node.choice(std::span<const Row>(read)); });
    }
  }
  template <typename Read>
  void with(std::string_view key, const Read& read) const {
    const auto node = map_.find(key);
    if (!node) return;
    std::invoke(read, *node);
    if (log_ != nullptr) log_->given(std::string(key));
  }

 private:
  const Node& map_;
  FieldLog* log_;
};

}  // namespace plansearch::io
