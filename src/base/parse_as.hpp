// SPDX-License-Identifier: Apache-2.0
// A whole text as one number.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace plansearch {

/// Nothing where there is anything else in the text, or where the type is too small.
template <typename Number>
[[nodiscard]] std::optional<Number> parse_as(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace plansearch
