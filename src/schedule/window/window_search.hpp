// SPDX-License-Identifier: Apache-2.0
// Orders for plans of blocks: a window that repeats with every micro-batch, under a memory bound.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "schedule/window/block_plan.hpp"

namespace plansearch {

struct WindowRequest {
  int micro_batches = 1;
  std::vector<std::optional<int>> caps;  ///< most that each device may keep; absent: any amount
  /// Choices of a start that are tried for one length of the window; the answer depends on it, and
  /// on nothing that a machine does.
  std::int64_t most_choices = 2'000'000;
  double growth = 0.0;  ///< from one length that is tried to the next, at least
};

struct WindowOrder {
  Ticks period = 0;        ///< of the window: one micro-batch more takes so much longer
  Ticks period_bound = 0;  ///< no window is shorter: work of the busiest device, lengths ruled out
  std::vector<Ticks> window;  ///< by node: start of its first micro-batch in the steady state
  BlockStarts starts;         ///< every block as early as the sequence of the window allows
  Ticks makespan = 0;
  Ticks makespan_bound = 0;  ///< as least_makespan
  std::vector<int> peaks;    ///< by device
  std::int64_t choices = 0;  ///< tried
  bool stopped = false;      ///< by a limit, before the search was through
};

/// Why there is none: in words, with what would help.
struct NoWindow {
  std::string reason;
  std::string remedy;
};

/// The shortest window there is, as far as the choices suffice; of those of one length the one
/// whose micro-batches end first, then that which keeps least. A time limit ends it with the best
/// so far.
[[nodiscard]] std::variant<WindowOrder, NoWindow> find_window(const BlockPlan& plan,
                                                              const WindowRequest& request);

/// The window of a plan without caps, its times rounded to a few dozen ticks. A thread remembers
/// the last one, which all plans share that round alike. Throws SimulationLimit where none is
/// found, and Stopped.
[[nodiscard]] WindowOrder coarse_window(const BlockPlan& exact, int micro_batches);

}  // namespace plansearch
