// SPDX-License-Identifier: Apache-2.0
#include "base/overrides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/names.hpp"
#include "base/units.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr const char* kForm =
    "write KEY=VALUE, such as tiers.nvlink.bandwidth=225GB/s or framework.vocab_multiple=64";
constexpr std::size_t kMostValues = 64;
constexpr std::string_view kBlanks = " \t\n";

/// "model.layers" begins in the model's file, "tiers" in the machine's.
OverriddenFile take_file(std::vector<std::string>& path) {
  constexpr std::array<std::pair<std::string_view, OverriddenFile>, 4> kFiles{
      {{"framework", OverriddenFile::Framework},
       {"model", OverriddenFile::Model},
       {"hardware", OverriddenFile::Hardware},
       {"hw", OverriddenFile::Hardware}}};
  for (const auto& [word, file] : kFiles) {
    if (path.size() < 2 || path.front() != word) continue;
    path.erase(path.begin());
    return file;
  }
  return OverriddenFile::Hardware;
}

Override parse_override(const std::string& text) {
  const std::size_t equals = text.find('=');
  Override result;
  result.typed = fmt::format("--set {}", text);
  if (equals == std::string::npos)
    throw InputError({}, fmt::format("{}: no value", result.typed), kForm);
  result.path = split(trimmed(text.substr(0, equals), kBlanks), ".");
  result.value = trimmed(text.substr(equals + 1), kBlanks);
  const bool gap =
      std::ranges::any_of(result.path, [](const std::string& key) { return key.empty(); });
  if (gap) throw InputError({}, fmt::format("{}: a key is empty", result.typed), kForm);
  if (result.value.empty())
    throw InputError({}, fmt::format("{}: the value is empty", result.typed), kForm);
  result.file = take_file(result.path);
  return result;
}

std::optional<double> leading_number(std::string_view text, std::string* unit) {
  const std::size_t end = text.find_first_not_of("0123456789.+-eE");
  const auto number = parse_number(trimmed(text.substr(0, end), kBlanks));
  if (unit != nullptr) *unit = end == std::string_view::npos ? "" : std::string(text.substr(end));
  return number;
}

[[noreturn]] void refuse_range(const std::string& text) {
  throw InputError({}, fmt::format("--set: '{}' is not a range", text),
                   "such as 100..400GB/s (100, 200, 400) or 100..400:100GB/s");
}

/// "100..400GB/s" doubles, "100..400:50GB/s" has a step; the last value is always there.
std::vector<std::string> values_of_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  std::string low_unit, unit;
  const auto low = leading_number(text.substr(0, dots), &low_unit);
  std::string rest = text.substr(dots + 2);
  std::optional<double> step;
  const std::size_t colon = rest.find(':');
  const auto high = leading_number(rest.substr(0, colon), &unit);
  if (colon != std::string::npos) {
    if (!unit.empty()) refuse_range(text);
    step = leading_number(rest.substr(colon + 1), &unit);
  }
  const bool steps = colon == std::string::npos || (step && *step > 0.0);
  if (!low || !high || !steps || *low <= 0.0 || *high < *low) refuse_range(text);
  if (!low_unit.empty() && low_unit != unit) refuse_range(text);
  std::vector<std::string> values;
  constexpr double kNear = 1e-9;
  for (std::size_t i = 0; values.size() <= kMostValues; ++i) {
    const auto n = static_cast<double>(i);
    const double value = step ? *low + n * *step : *low * std::exp2(n);
    if (value > *high * (1.0 - kNear)) break;
    values.push_back(fmt::format("{:.12g}{}", value, unit));
  }
  values.push_back(fmt::format("{:.12g}{}", *high, unit));
  if (values.size() > kMostValues)
    throw InputError({}, fmt::format("--set {}: more than {} values", text, kMostValues));
  return values;
}

/// The values of a range or a list; any other text is one value.
std::vector<std::string> values_of(const std::string& text) {
  if (text.find_first_of("[{\"'") != std::string::npos) return {text};
  if (text.find("..") != std::string::npos) return values_of_range(text);
  std::vector<std::string> values;
  for (const std::string& part : split(text, ",")) values.emplace_back(trimmed(part, kBlanks));
  return values;
}

}  // namespace

std::vector<Override> parse_overrides(std::string_view text) {
  std::vector<Override> result;
  for (const std::string& part : split(text, ";")) {
    const std::string one(trimmed(part, kBlanks));
    if (one.empty()) continue;
    Override found = parse_override(one);
    for (const Override& other : result) {
      if (other.file != found.file || other.path != found.path) continue;
      throw InputError({}, fmt::format("{}: set twice", found.typed), "give it once");
    }
    result.push_back(std::move(found));
  }
  return result;
}

std::vector<Override> overrides_of(std::string_view text, OverriddenFile file) {
  std::vector<Override> result = parse_overrides(text);
  std::erase_if(result, [&](const Override& one) { return one.file != file; });
  return result;
}

std::vector<std::string> override_combinations(std::string_view text) {
  std::vector<std::string> combinations{""};
  for (const Override& one : parse_overrides(text)) {
    const std::string key = one.typed.substr(0, one.typed.find('=') + 1);
    std::vector<std::string> longer;
    for (const std::string& so_far : combinations) {
      for (const std::string& value : values_of(one.value)) {
        longer.push_back(fmt::format("{}{}{}{}", so_far, so_far.empty() ? "" : "; ",
                                     key.substr(std::string_view("--set ").size()), value));
      }
    }
    if (longer.size() > kMostValues) {
      throw InputError({}, fmt::format("--set: more than {} combinations", kMostValues),
                       "shorten the ranges");
    }
    combinations = std::move(longer);
  }
  return combinations;
}

}  // namespace plansearch
