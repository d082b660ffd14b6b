// SPDX-License-Identifier: Apache-2.0
// What `plansearch schedule --blocks` asks.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "report/ordering_report.hpp"

namespace plansearch {

struct OrderingQuestion {
  std::string blocks;  ///< file (docs/orders.md)
  std::optional<int> micro_batches;
  std::string memory_cap;  ///< "6,5,4,3", or one number for all devices; empty: any amount
};

/// The one amount of schedules by name, above zero; absent where the flag is.
[[nodiscard]] std::optional<int> one_cap(const std::string& memory_cap);

/// The schedule of the file, checked, or one that was searched. InputError for what is wrong in the
/// file or the flags; NoWindow where no order keeps to the caps.
[[nodiscard]] std::variant<OrderingReport, NoWindow> answer(const OrderingQuestion& question);

}  // namespace plansearch
