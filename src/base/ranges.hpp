// SPDX-License-Identifier: Apache-2.0
// Whether a list has a value; what a function makes of each value of a list.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <type_traits>
#include <vector>

namespace plansearch {

template <typename List, typename Value>
[[nodiscard]] constexpr bool contains(const List& list, const Value& value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

/// The results of `function`, or the members that it points to, as values of type `Result`.
template <typename Result = void, typename List, typename Function>
[[nodiscard]] auto transformed(const List& list, Function function) {
  using Own = std::invoke_result_t<Function, decltype(*std::begin(list))>;
  std::vector<std::conditional_t<std::is_void_v<Result>, std::remove_cvref_t<Own>, Result>> results;
  results.reserve(static_cast<std::size_t>(std::distance(std::begin(list), std::end(list))));
  for (const auto& value : list) results.emplace_back(std::invoke(function, value));
  return results;
}

}  // namespace plansearch
