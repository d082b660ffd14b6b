// SPDX-License-Identifier: Apache-2.0
// Files of blocks to be ordered (plansearch/blocks/v1; docs/orders.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "schedule/window/block_plan.hpp"

namespace plansearch::io {

struct BlocksDocument {
  BlockPlan plan;
  double ticks_per_unit = 1.0;  ///< of the times in the file
  std::optional<int> micro_batches;
  std::optional<BlockStarts> starts;  ///< a schedule to be checked, which obeys all rules
};

/// InputError at the line and column of what is wrong: unknown blocks and devices, rules that lead
/// in a circle (the shortest), starts that break a rule or use a device twice at a time.
[[nodiscard]] BlocksDocument read_blocks(const std::filesystem::path& path);
[[nodiscard]] BlocksDocument parse_blocks(std::string_view text, const std::string& file_name);

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
