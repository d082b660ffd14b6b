// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "base/names.hpp"
#include "plansearch/error.hpp"
#include "report/schedule_report.hpp"

namespace plansearch {
namespace {

/// digits x 10^-decimals.
struct Decimal {
  std::int64_t digits = 0;
  int decimals = 0;
};

Decimal parse_decimal(const char* flag, const std::string& text) {
  constexpr std::size_t kMostDigits = 12;
  const std::size_t point = text.find('.');
  std::string digits = text;
  Decimal value;
  if (point != std::string::npos) {
    digits.erase(point, 1);
    value.decimals = static_cast<int>(text.size() - point - 1);
  }
  const bool plain = !digits.empty() && digits.size() <= kMostDigits &&
                     digits.find_first_not_of("0123456789") == std::string::npos;
  if (!plain) {
    throw InputError({}, fmt::format("{}: '{}' is not a duration", flag, text),
                     "a number such as 3 or 0.25, up to 12 digits, in any unit of time");
  }
  std::from_chars(digits.data(), digits.data() + digits.size(), value.digits);
  return value;
}

}  // namespace

ScheduleTimes read_times(const std::string& times, const std::string& transfer, int chunks) {
  const std::vector<std::string> parts = split(times, ",");
  if (parts.size() < 2 || parts.size() > 4) {
    throw InputError({}, fmt::format("--times {}: {} values", times, parts.size()),
                     "F,B, F,B,W or F,B,W,FB: forward, input gradient and weight gradient of one "
                     "stage, forward and whole backward that overlap");
  }
  std::vector<Decimal> values;
  for (const std::string& part : parts) values.push_back(parse_decimal("--times", part));
  const bool overlap_given = values.size() == 4;
  values.resize(4);
  values.push_back(parse_decimal("--p2p", transfer));
  int decimals = 0;
  for (const Decimal& value : values) decimals = std::max(decimals, value.decimals);
  const auto ticks = [&](const Decimal& value) {
    Ticks result = value.digits * chunks;
    for (int i = value.decimals; i < decimals; ++i) {
      if (result > static_cast<Ticks>(kMostTicks) / 10) return static_cast<Ticks>(kMostTicks);
      result *= 10;
    }
    return result;
  };
  ScheduleTimes read{{ticks(values[0]), ticks(values[1]), ticks(values[4]), ticks(values[2])},
                     static_cast<double>(chunks)};
  if (overlap_given) {
    const Ticks overlapped = ticks(values[3]);
    read.device.overlapped = overlapped;
    if (overlapped < std::max(read.device.forward, read.device.backward + read.device.weight)) {
      throw InputError({}, fmt::format("--times {}: FB is shorter than F or B + W", times),
                       "forward and backward at the same time take as long as the longer of them, "
                       "or longer");
    }
  }
  for (int i = 0; i < decimals; ++i) read.ticks_per_unit *= 10.0;
  return read;
}

}  // namespace plansearch
