// SPDX-License-Identifier: Apache-2.0
#include "io/plan/rule_text.hpp"

#include <charconv>

#include "base/names.hpp"

namespace plansearch::io {
namespace {

constexpr int kMostShift = 1'000;

}  // namespace

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::optional<RuleInstance> parse_instance(std::string_view text) {
  text = trimmed(text);
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) {
    if (text.empty() || text.find(' ') != std::string_view::npos) return std::nullopt;
    return RuleInstance{std::string(text), 0};
  }
  RuleInstance instance{std::string(trimmed(text.substr(0, open))), 0};
  std::string_view inside = text.substr(open + 1);
  if (instance.name.empty() || !inside.ends_with(')')) return std::nullopt;
  inside = trimmed(inside.substr(0, inside.size() - 1));
  if (!inside.starts_with('m')) return std::nullopt;
  inside = trimmed(inside.substr(1));
  if (inside.empty()) return instance;
  const bool minus = inside.front() == '-';
  if (!minus && inside.front() != '+') return std::nullopt;
  const auto number = whole_number(trimmed(inside.substr(1)));
  if (!number || *number < 0 || *number > kMostShift) return std::nullopt;
  instance.shift = minus ? -*number : *number;
  return instance;
}

std::optional<RuleText> parse_rule_text(std::string_view text) {
  constexpr std::string_view kWord = " before ";
  const std::size_t word = text.find(kWord);
  if (word == std::string_view::npos) return std::nullopt;
  auto first = parse_instance(text.substr(0, word));
  auto second = parse_instance(text.substr(word + kWord.size()));
  if (!first || !second) return std::nullopt;
  return RuleText{*std::move(first), *std::move(second)};
}

}  // namespace plansearch::io
