// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/schedule_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace plansearch {
namespace {

std::string trimmed(std::string text) {
  const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && space(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), space));
  return text;
}

/// Lower case, without what stands in brackets, at commas and semicolons.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[') ++depth;
    const bool inside = depth > 0;
    if ((c == ')' || c == ']') && depth > 0) --depth;
    if (inside) continue;
    if (c == ',' || c == ';') {
      parts.emplace_back();
    } else {
      parts.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  for (std::string& part : parts) part = trimmed(std::move(part));
  return parts;
}

}  // namespace

std::optional<ScheduleId> ScheduleWords::find(std::string_view text) const {
  const std::vector<std::string> parts = parts_of(text);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (!remarks.contains(parts[i])) return std::nullopt;
  }
  const auto named = orders.find(parts.front());
  return named == orders.end() ? find_schedule(parts.front()) : std::optional(named->second);
}

ScheduleWords read_schedule_words(const io::Node& node) {
  ScheduleWords words;
  for (const io::Node::Entry& order : node.at("orders").entries()) {
    const auto schedule = find_schedule(order.key);
    if (!schedule) {
      throw InputError(order.where, fmt::format("unknown schedule '{}'", order.key),
                       "plansearch list schedules shows them");
    }
    for (const io::Node& word : order.value.items()) words.orders.emplace(word.text(), *schedule);
  }
  for (const io::Node& remark : node.at("remarks").items()) words.remarks.insert(remark.text());
  return words;
}

}  // namespace plansearch
