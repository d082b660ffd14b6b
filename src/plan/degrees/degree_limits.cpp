// SPDX-License-Identifier: Apache-2.0
#include "plansearch/degree_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/names.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kRange = "..";
constexpr int kLowest = std::numeric_limits<int>::min();
constexpr int kHighest = std::numeric_limits<int>::max();

std::string other_forms(Degree degree) {
  const bool number = row_of(degree).kind == DegreeKind::Number;
  if (row_of(degree).combines) return std::string(row_of(degree).help);
  return fmt::format("{}; in a search also a list{}", row_of(degree).help,
                     number ? " (1,2,4) or a range (2..8)" : " with commas");
}

}  // namespace

void DegreeLimits::allow(Degree degree, std::vector<int> values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  limits_[index(degree)].values = std::move(values);
}

void DegreeLimits::at_least(Degree degree, int low) {
  int& bound = limits_[index(degree)].low;
  bound = std::max(bound, low);
}

void DegreeLimits::at_most(Degree degree, int high) {
  int& bound = limits_[index(degree)].high;
  bound = std::min(bound, high);
}

bool DegreeLimits::admits(Degree degree, int value) const {
  const Limit& limit = limits_[index(degree)];
  if (value < limit.low || value > limit.high) return false;
  return limit.values.empty() || std::ranges::binary_search(limit.values, value);
}

std::string DegreeLimits::text(Degree degree) const {
  const Limit& limit = limits_[index(degree)];
  std::vector<std::string> parts;
  if (!limit.values.empty()) {
    std::vector<std::string> values;
    for (const int value : limit.values) values.push_back(value_text(degree, value));
    parts.push_back(fmt::format("{}", fmt::join(values, ",")));
  }
  if (limit.low != kLowest && limit.high != kHighest) {
    parts.push_back(fmt::format("{}..{}", limit.low, limit.high));
  } else if (limit.low != kLowest) {
    parts.push_back(fmt::format("at least {}", limit.low));
  } else if (limit.high != kHighest) {
    parts.push_back(fmt::format("at most {}", limit.high));
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

std::string to_text(const DegreeLimits& limits) {
  std::vector<std::string> parts;
  for (const DegreeRow& row : degree_table()) {
    if (!limits.has(row.degree)) continue;
    parts.push_back(
        fmt::format("{} {}", flag_of(key_of(row.degree, {})).substr(2), limits.text(row.degree)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

int read_degree_value(std::string_view flag, std::string_view text, Degree degree,
                      DegreeParser parse) {
  if (const auto value = parse(degree, text)) return *value;
  const DegreeRow& row = row_of(degree);
  std::string hint;
  if (row.kind == DegreeKind::Word) hint = did_you_mean(std::string(text), row.words());
  throw InputError({}, fmt::format("{} {}: must be {}", flag, text, legal_text(degree)),
                   hint.empty() ? other_forms(degree) : hint);
}

void read_degree(std::string_view flag, std::string_view text, Degree degree, PinnedDegrees& pinned,
                 DegreeLimits& limits, DegreeParser parse) {
  const std::size_t range = text.find(kRange);
  if (range != std::string_view::npos && row_of(degree).kind == DegreeKind::Number) {
    const int low = read_degree_value(flag, text.substr(0, range), degree, parse);
    const int high = read_degree_value(flag, text.substr(range + kRange.size()), degree, parse);
    if (low > high) {
      throw InputError({}, fmt::format("{} {}: the range is empty", flag, text),
                       "write the lower end first");
    }
    limits.at_least(degree, low);
    limits.at_most(degree, high);
    return;
  }
  if (row_of(degree).combines) {
    return pinned.pin(degree, read_degree_value(flag, text, degree, parse));
  }
  std::vector<int> values;
  for (const std::string& part : split(text, ",")) {
    values.push_back(read_degree_value(flag, part, degree, parse));
  }
  values.size() == 1 ? pinned.pin(degree, values.front()) : limits.allow(degree, values);
}

}  // namespace plansearch
