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

}  // namespace plansearch::io
