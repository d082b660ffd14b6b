// SPDX-License-Identifier: Apache-2.0
// A compute order flattened into one sequence that can be run from front to back, many times.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "schedule/order/compute_order.hpp"

namespace plansearch {

struct CompiledStep {
  std::uint32_t device = 0;
  std::uint32_t duration = 0;  ///< row of the duration table
  std::uint32_t message = 0;   ///< row of what it sends; 0: nothing
  std::uint32_t channel = 0;   ///< that the message takes
  std::uint32_t input = 0;     ///< steps back to the one whose message it waits for; 0: none
  bool operator==(const CompiledStep&) const = default;
};

/// The part of the sequence that repeats: steps[i] == steps[i + length] for all i from `first` on
/// that leave a whole period before `first + count * length`.
struct SteadyWindow {
  std::size_t first = 0;
  std::size_t length = 0;  ///< steps of a period; 0: nothing repeats
  std::size_t count = 0;   ///< periods
};

/// The micro-batches that a device keeps at a moment, by chunk, and those of which only the part
/// for the weight gradient is left.
struct KeptChunks {
  std::vector<int> whole;
  std::vector<int> for_weight;
};

struct CompiledOrder {
  std::size_t devices = 0;
  std::size_t channels = 0;
  int micro_batches = 0;  ///< of the sequence
  int period = 0;         ///< micro-batches of a period of the window
  WeightGradients weight_gradients = WeightGradients::Fused;
  std::vector<CompiledStep> steps;         ///< all after what they wait for
  std::vector<std::uint32_t> first_steps;  ///< by device
  std::size_t reach = 0;                   ///< the furthest any step looks back
  SteadyWindow window;
  std::vector<std::vector<KeptChunks>> kept;  ///< by device: the moments that can be the worst
};

/// A sequence in which the steps of an order can run, none of them joined.
struct Turns {
  std::vector<std::uint32_t> devices;  ///< of every step; empty: the sequence is to be found
  std::size_t middle = 0;              ///< of the part that repeats
};

/// `period`: micro-batches after which the order repeats, 0 when it does not. Throws InternalError
/// for an order that is incomplete or cannot run.
[[nodiscard]] CompiledOrder compile(const ComputeOrder& order, int period, const Turns& turns = {});

/// The order of a shape, shortened by whole periods where its schedule has any. The same object for
/// shapes that differ in whole periods and transfers only, while the thread keeps it.
struct ShapeOrder {
  std::shared_ptr<const CompiledOrder> compiled;
  int periods_left_out = 0;
};
[[nodiscard]] const ShapeOrder& shape_order(const PipelineShape& shape);

}  // namespace plansearch
