// SPDX-License-Identifier: Apache-2.0
// Whether an order can run to its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedule/order/compute_order.hpp"
#include "schedule/templates/template_order.hpp"

namespace plansearch {

/// One step of a cycle: it waits for the next one, the last for the first.
struct WaitingStep {
  int device = 0;
  std::size_t stage = 0;
  ComputeStep step;
  WhyWaits because = WhyWaits::Input;
  bool operator==(const WaitingStep&) const = default;
};

enum class OrderFaultKind : std::uint8_t {
  Incomplete,  ///< pieces missing, repeated or unknown
  Deadlock,
};

struct OrderFault {
  OrderFaultKind kind = OrderFaultKind::Incomplete;
  std::string detail;
  std::vector<WaitingStep> cycle;  ///< of a deadlock
  bool operator==(const OrderFault&) const = default;
};

/// Nothing for an order in which every device can run its list from front to back at any times:
/// messages are sent when they are made and received ahead.
[[nodiscard]] std::optional<OrderFault> check_order(const ComputeOrder& order);

/// When an order first keeps more micro-batches of a chunk than a device has room for.
struct MemoryFault {
  int device = 0;
  Ticks time = 0;  ///< start of the forward that does not fit
  ComputeStep step;
  int kept = 0;  ///< chunks, with that one
  bool operator==(const MemoryFault&) const = default;
};
struct Timeline;
/// `most_chunks` on any device. The earliest in time.
[[nodiscard]] std::optional<MemoryFault> check_memory(const ComputeOrder& order,
                                                      const Timeline& timeline, int most_chunks);

}  // namespace plansearch
