// SPDX-License-Identifier: Apache-2.0
#include "question/number_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "base/names.hpp"
#include "base/units.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kRange = "..";
constexpr std::size_t kMost = 64;

/// A number that an int holds; the commands judge it themselves, with the question at hand.
std::variant<std::int64_t, std::string> read_number(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end) {
    return fmt::format("'{}' is not a whole number", text);
  }
  const bool fits = error == std::errc() && value >= std::numeric_limits<int>::min() &&
                    value <= std::numeric_limits<int>::max();
  if (!fits) return fmt::format("{} is far too large", text);
  return value;
}

std::vector<std::int64_t> powers_of_two(std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> powers;
  for (std::int64_t power = 1; power <= high; power *= 2) {
    if (power >= low) powers.push_back(power);
  }
  return powers;
}

}  // namespace

std::variant<std::vector<std::int64_t>, std::string> read_numbers(std::string_view text) {
  std::vector<std::int64_t> numbers;
  const std::size_t range = text.find(kRange);
  const bool is_range = range != std::string_view::npos;
  for (const std::string& part : split(is_range ? text.substr(0, range) : text, ",")) {
    auto number = read_number(part);
    if (auto* problem = std::get_if<std::string>(&number)) return std::move(*problem);
    numbers.push_back(std::get<std::int64_t>(number));
  }
  if (is_range) {
    auto high = read_number(text.substr(range + kRange.size()));
    if (auto* problem = std::get_if<std::string>(&high)) return std::move(*problem);
    if (numbers.size() > 1) return fmt::format("'{}' is neither a list nor a range", text);
    numbers = powers_of_two(numbers.front(), std::get<std::int64_t>(high));
    if (numbers.empty()) return fmt::format("no power of two is in {}", text);
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.size() > kMost) return fmt::format("more than {} values", kMost);
  return numbers;
}

std::variant<double, std::string> read_large_count(std::string_view text) {
  constexpr double kLargest = 1e18;
  std::string_view digits = text;
  double factor = 1.0;
  constexpr std::pair<char, double> kSuffixes[] = {{'k', 1e3}, {'K', 1e3}, {'M', 1e6},
                                                   {'B', 1e9}, {'G', 1e9}, {'T', 1e12}};
  for (const auto& [suffix, value] : kSuffixes) {
    if (text.empty() || text.back() != suffix) continue;
    digits.remove_suffix(1);
    factor = value;
  }
  const std::optional<double> number = parse_number(digits);
  if (!number || *number <= 0.0 || *number * factor > kLargest) {
    return fmt::format("'{}' is not a count above zero such as 300B, 1T or 15e12", text);
  }
  return *number * factor;
}

}  // namespace plansearch
