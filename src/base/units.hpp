// SPDX-License-Identifier: Apache-2.0
// Quantities as text: "80 GiB", "25 GB/s", "400 Gbit/s", "4.2 us", "312 TFLOP/s"; numbers as people
// and programs write them.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "plansearch/quantity.hpp"

namespace plansearch {

/// Electrical power and money: quantities no formula mixes with the others.
struct Watts {
  double value = 0.0;
  bool operator==(const Watts&) const = default;
};
struct UsdPerHour {
  double value = 0.0;
  bool operator==(const UsdPerHour&) const = default;
};

/// Nothing where there is anything else in the text, or where the type is too small.
template <typename Number>
[[nodiscard]] std::optional<Number> parse_as(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

/// Parses text into a quantity; nullopt when the number or unit is malformed or missing, when the
/// unit has another dimension, or when it is neither 0 nor 1e-30 .. 1e30. Negatives parse (callers
/// decide what is legal). For Seconds, Bytes, Bandwidth, FlopRate, Watts and UsdPerHour.
template <typename Q>
[[nodiscard]] std::optional<Q> parse_quantity(std::string_view text);

/// The whole text as one number ("1e-3", "-2"), 0 or 1e-30 .. 1e30; nullopt for anything else.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

/// "4096", "1e6", "8,192", and in powers of 1,024 "128k" and "4M" (lengths and batches are meant
/// so). nullopt for other texts, for fractions, and for numbers that 63 bits do not hold.
[[nodiscard]] std::optional<std::int64_t> parse_count(std::string_view text);

/// "1,000" as "1000", where commas part groups of three digits; other texts as they are.
[[nodiscard]] std::string without_grouping(std::string_view text);

/// An example of the expected quantity, for error messages: "a time such as 4.2 us".
template <typename Q>
[[nodiscard]] std::string_view expected_unit();

/// Three significant digits and the best prefix: "18.4 ms", "61.2 GiB", "312 TFLOP/s".
[[nodiscard]] std::string to_text(Seconds value);
[[nodiscard]] std::string to_text(Bytes value);
[[nodiscard]] std::string to_text(Bandwidth value);
[[nodiscard]] std::string to_text(FlopRate value);

}  // namespace plansearch
