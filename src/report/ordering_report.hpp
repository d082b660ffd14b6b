// SPDX-License-Identifier: Apache-2.0
// Blocks of a plan in an order, as text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plansearch/report.hpp"
#include "schedule/window/window_search.hpp"

namespace plansearch {

/// Times are ticks / ticks_per_unit: the unit of the file.
struct OrderingReport {
  BlockPlan plan;
  double ticks_per_unit = 1.0;
  std::vector<std::optional<int>> caps;  ///< by device
  int micro_batches = 1;
  bool given = false;  ///< the starts of the file, checked; there is no window
  WindowOrder order;
  std::string too_full;  ///< where a given schedule keeps more than it may, in words
};

/// table, json or jsonl. A drawing of more than `columns` characters to a row goes on below; 0: any
/// number.
[[nodiscard]] std::string to_text(const OrderingReport& report, Format format, int columns = 0);

}  // namespace plansearch
