// SPDX-License-Identifier: Apache-2.0
// Whether a list has a value.
#pragma once

#include <algorithm>
#include <iterator>

namespace plansearch {

template <typename List, typename Value>
[[nodiscard]] constexpr bool contains(const List& list, const Value& value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

}  // namespace plansearch
