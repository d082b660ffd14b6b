// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "base/names.hpp"

namespace plansearch {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0;

constexpr Unit kTimes[] = {{"s", 1.0},          {"ms", 1e-3},       {"us", 1e-6},
                           {"\xC2\xB5s", 1e-6}, {"ns", 1e-9},       {"min", 60.0},
                           {"h", 3600.0},       {"d", 86400.0},     {"hours", 3600.0},
                           {"days", 86400.0},   {"weeks", 604800.0}};
constexpr Unit kSizes[] = {{"kB", 1e3},
                           {"MB", 1e6},
                           {"GB", 1e9},
                           {"TB", 1e12},
                           {"PB", 1e15},
                           {"B", 1.0},
                           {"KiB", kKi},
                           {"MiB", kKi* kKi},
                           {"GiB", kKi* kKi* kKi},
                           {"TiB", kKi* kKi* kKi* kKi},
                           {"PiB", kKi* kKi* kKi* kKi* kKi}};
constexpr std::span kShownSizes = std::span(kSizes).subspan<5>();
constexpr Unit kBitRates[] = {{"bit/s", 0.125},    {"kbit/s", 0.125e3},  {"Mbit/s", 0.125e6},
                              {"Gbit/s", 0.125e9}, {"Tbit/s", 0.125e12}, {"b/s", 0.125},
                              {"kb/s", 0.125e3},   {"Mb/s", 0.125e6},    {"Gb/s", 0.125e9},
                              {"Tb/s", 0.125e12}};
constexpr Unit kFlopRates[] = {{"KFLOP/s", 1e3},  {"FLOP/s", 1.0},  {"kFLOP/s", 1e3},
                               {"MFLOP/s", 1e6},  {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12},
                               {"PFLOP/s", 1e15}, {"EFLOP/s", 1e18}};
constexpr std::span kShownFlopRates = std::span(kFlopRates).subspan<1>();
constexpr Unit kPowers[] = {{"W", 1.0}, {"kW", 1e3}, {"MW", 1e6}};
constexpr Unit kPrices[] = {{"$/h", 1.0}, {"USD/h", 1.0}};

struct QuantityRow {
  std::span<const Unit> units;
  std::string_view example;
  std::span<const Unit> per_second{};  ///< units that may stand before "/s"
};
template <typename Q>
constexpr QuantityRow kRow{};
template <>
constexpr QuantityRow kRow<Seconds>{kTimes, "a time such as 4.2 us (s, ms, us, ns)"};
template <>
constexpr QuantityRow kRow<Bytes>{
    kSizes, "a size such as 80 GiB (B, kB, MB, GB, TB decimal; KiB, MiB, GiB, TiB binary)"};
template <>
constexpr QuantityRow kRow<Bandwidth>{kBitRates, "a bandwidth such as 25 GB/s or 200 Gbit/s",
                                      kSizes};
template <>
constexpr QuantityRow kRow<FlopRate>{kFlopRates, "a rate such as 312 TFLOP/s (k, M, G, T, P, E)"};
template <>
constexpr QuantityRow kRow<Watts>{kPowers, "a power such as 400 W"};
template <>
constexpr QuantityRow kRow<UsdPerHour>{kPrices, "a price such as 4.10 $/h"};

/// Nothing physical lies outside 1e-30 .. 1e30, and products of a few such numbers stay finite.
bool is_usable(double value) {
  constexpr double kLeastQuantity = 1e-30;
  constexpr double kMostQuantity = 1e30;
  return value == 0.0 || (std::abs(value) >= kLeastQuantity && std::abs(value) <= kMostQuantity);
}

struct NumberAndUnit {
  double number;
  std::string_view unit;
};

std::optional<NumberAndUnit> split(std::string_view text) {
  text = trimmed(text);
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !is_usable(number)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return NumberAndUnit{number, trimmed(text)};
}

std::optional<double> factor_of(std::string_view name, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.factor;
  }
  return std::nullopt;
}

/// Three significant digits of a number in [0, 1024).
std::string three_digits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

/// The value in the largest unit in which, rounded, it is at least 1. Units ascend by `step`.
std::string with_prefix(double value, std::span<const Unit> units, double step) {
  if (!std::isfinite(value)) return fmt::format("{} {}", value, units.front().name);
  if (value == 0.0) return fmt::format("0 {}", units.front().name);
  const std::string_view sign = value < 0.0 ? "-" : "";
  const double size = std::abs(value);
  std::size_t i = 0;
  while (i + 1 < units.size() && std::round(size / units[i].factor) >= step) ++i;
  const double shown = size / units[i].factor;
  if (i + 1 == units.size() && shown >= step) {
    return fmt::format("{}{:.3g} {}", sign, shown, units[i].name);
  }
  if (i == 0 && shown < 0.995) return fmt::format("{}{:.3g} {}", sign, shown, units[i].name);
  return fmt::format("{}{} {}", sign, three_digits(shown), units[i].name);
}

constexpr Unit kShownTimes[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}};
constexpr Unit kShownBandwidths[] = {{"B/s", 1.0},  {"kB/s", 1e3},  {"MB/s", 1e6},
                                     {"GB/s", 1e9}, {"TB/s", 1e12}, {"PB/s", 1e15}};

}  // namespace

template <typename Q>
std::optional<Q> parse_quantity(std::string_view text) {
  const auto parts = split(text);
  if (!parts) return std::nullopt;
  std::string_view unit = parts->unit;
  auto factor = factor_of(unit, kRow<Q>.units);
  if (!factor && unit.ends_with("/s")) {
    unit.remove_suffix(2);
    factor = factor_of(unit, kRow<Q>.per_second);
  }
  if (!factor || !is_usable(parts->number * *factor)) return std::nullopt;
  return Q{parts->number * *factor};
}

template <typename Q>
std::string_view expected_unit() {
  return kRow<Q>.example;
}

template std::optional<Seconds> parse_quantity(std::string_view);
template std::optional<Bytes> parse_quantity(std::string_view);
template std::optional<Bandwidth> parse_quantity(std::string_view);
template std::optional<FlopRate> parse_quantity(std::string_view);
template std::optional<Watts> parse_quantity(std::string_view);
template std::optional<UsdPerHour> parse_quantity(std::string_view);
template std::string_view expected_unit<Seconds>();
template std::string_view expected_unit<Bytes>();
template std::string_view expected_unit<Bandwidth>();
template std::string_view expected_unit<FlopRate>();
template std::string_view expected_unit<Watts>();
template std::string_view expected_unit<UsdPerHour>();

std::optional<double> parse_number(std::string_view text) {
  const auto parts = split(text);
  if (!parts || !parts->unit.empty()) return std::nullopt;
  return parts->number;
}

std::string to_text(Seconds value) {
  if (value.value() == 0.0) return "0 s";
  if (std::abs(value.value()) >= 999.5) return fmt::format("{:.0f} s", value.value());
  return with_prefix(value.value(), kShownTimes, 1000.0);
}

std::string to_text(Bytes value) {
  if (std::abs(value.value()) < kKi && value.value() == std::floor(value.value())) {
    return fmt::format("{:.0f} B", value.value());
  }
  return with_prefix(value.value(), kShownSizes, kKi);
}

std::string to_text(Bandwidth value) {
  return with_prefix(value.value(), kShownBandwidths, 1000.0);
}

std::string to_text(FlopRate value) {
  return with_prefix(value.value(), kShownFlopRates, 1000.0);
}

std::string without_grouping(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::size_t kGroup = 3;
  const std::size_t first = text.find(',');
  if (first == 0 || first > kGroup || first == std::string_view::npos) return std::string(text);
  std::string joined(text.substr(0, first));
  std::size_t at = first;
  while (at < text.size() && text[at] == ',') {
    const std::string_view group = text.substr(at + 1, kGroup);
    const bool digits = group.find_first_not_of(kDigits) == std::string_view::npos;
    if (group.size() < kGroup || !digits) return std::string(text);
    joined += group;
    at += kGroup + 1;
  }
  const bool goes_on = at < text.size() && kDigits.find(text[at]) != std::string_view::npos;
  return goes_on ? std::string(text) : joined + std::string(text.substr(at));
}

std::optional<std::int64_t> parse_count(std::string_view text) {
  constexpr std::pair<char, int> kSuffixes[] = {{'k', 10}, {'K', 10}, {'M', 20}};
  constexpr double kMost = 0x1p63;
  const std::string plain = without_grouping(text);
  std::string_view digits = plain;
  int power = 0;
  for (const auto& [suffix, bits] : kSuffixes) {
    if (digits.size() < 2 || digits.back() != suffix) continue;
    digits.remove_suffix(1);
    power = bits;
  }
  if (power == 0) {
    if (const auto whole = parse_as<std::int64_t>(digits)) return whole;
  }
  const auto number = parse_number(digits);
  if (!number) return std::nullopt;
  const double value = std::ldexp(*number, power);
  if (value != std::floor(value) || std::abs(value) >= kMost) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

}  // namespace plansearch
