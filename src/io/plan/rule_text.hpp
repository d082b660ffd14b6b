// SPDX-License-Identifier: Apache-2.0
// Rules of orders as people write them: "A before B", "A(m+2) before B(m)".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plansearch::io {

/// Nothing where the text is anything else than a number.
[[nodiscard]] std::optional<int> whole_number(std::string_view text);

/// "name", "name(m)", "name(m+2)" or "name(m-1)".
struct RuleInstance {
  std::string name;
  int shift = 0;
};
[[nodiscard]] std::optional<RuleInstance> parse_instance(std::string_view text);

struct RuleText {
  RuleInstance first;
  RuleInstance second;
  [[nodiscard]] int later() const { return second.shift - first.shift; }
};
/// Nothing for other texts.
[[nodiscard]] std::optional<RuleText> parse_rule_text(std::string_view text);

}  // namespace plansearch::io
