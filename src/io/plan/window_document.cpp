// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "io/plan/plan_document.hpp"
#include "io/plan/rule_text.hpp"
#include "schedule/window/block_plan.hpp"

namespace plansearch::io {

std::optional<RuleEntry> parse_rule(std::string_view text) {
  const auto rule = parse_rule_text(text);
  if (!rule) return std::nullopt;
  return RuleEntry{rule->first.name, rule->second.name, rule->later(), {}};
}

std::string to_text(const RuleEntry& rule) {
  return rule_text(rule.first, rule.second, rule.later);
}

std::optional<WindowDocument> read_window(const Node& root) {
  constexpr std::size_t kMostRules = 5'000;
  const auto order = root.find("order");
  if (!order) return std::nullopt;
  const auto window = order->find("window");
  const auto before = order->find("before");
  const bool found = window && window->boolean();
  if (!found && !before) return std::nullopt;
  if (const auto schedule = order->find("schedule")) {
    schedule->fail("a schedule beside an order that is found",
                   "keep schedule, or window and before");
  }
  WindowDocument document;
  document.place = {before ? before->where() : window->where()};
  if (!before) return document;
  for (const Node& item : before->items()) {
    auto rule = parse_rule(item.text());
    if (!rule || document.rules.size() >= kMostRules) {
      item.fail(rule ? fmt::format("more than {} rules", kMostRules)
                     : fmt::format("'{}' is not a rule", item.text()),
                "passes by name: f0 before b1, or with micro-batches: b0 before f0(m+2)");
    }
    rule->place = {item.where()};
    document.rules.push_back(*std::move(rule));
  }
  return document;
}

}  // namespace plansearch::io
