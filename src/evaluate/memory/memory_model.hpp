// SPDX-License-Identifier: Apache-2.0
// Peak memory of a plan, device by device, and the chance that it does not fit.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "evaluate/step/pricing_input.hpp"
#include "plansearch/evaluation.hpp"
#include "plansearch/framework_constants.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// The probability that a plan of this predicted peak needs more than `limit`. `certain`: of the
/// peak, what is known to the byte; only the rest has an error.
[[nodiscard]] double risk_of_memory(const MemoryError& error, Bytes predicted, Bytes limit,
                                    Bytes certain = {});

/// The largest share of the memory that is not certain whose risk is at most `risk` (see below).
[[nodiscard]] double share_at_risk(const MemoryError& error, double risk);
/// The largest predicted peak whose risk is at most `risk` (above 0, below 1): what a threshold on
/// the risk is as a threshold on bytes.
[[nodiscard]] Bytes peak_at_risk(const MemoryError& error, double risk, Bytes limit,
                                 Bytes certain = {});

/// Keeps of two devices the one that needs more, and the most that either has in memory of its
/// host.
void take_worse(const DeviceMemory& device, DeviceMemory& worst);
/// The device that needs most.
[[nodiscard]] DeviceMemory worst_device_memory(const PricingInput& view,
                                               EvaluationWorkspace& workspace);
/// False where the position before has equal blocks and keeps at least as much: on a looped
/// placement the first of neighbours does.
[[nodiscard]] bool may_keep_most(const PricingInput& view, int position);
/// The peak of plans whose order is found: as found, or a lower bound.
enum class WindowPeak : std::uint8_t { Found, Least };
/// The devices of one position.
[[nodiscard]] DeviceMemory device_memory(const PricingInput& view, int position,
                                         EvaluationWorkspace& workspace,
                                         WindowPeak peak = WindowPeak::Found);

/// The micro-batches, by content of a position, whose tensors of blocks and for weights the device
/// holds at its peak.
struct InFlight {
  std::vector<double> saved;
  std::vector<double> for_weights;
};
[[nodiscard]] InFlight in_flight_at_peak(const PricingInput& view, int position,
                                         EvaluationWorkspace& workspace);

/// The tensors around one operator at the peak, see MemoryBreakdown::transient.
struct TransientParts {
  Bytes loss;   ///< logits and their gradients
  Bytes block;  ///< around a block in backward
};
[[nodiscard]] TransientParts transient_parts(const PricingInput& view, int position);

/// The bytes that one micro-batch leaves on a device in one group of blocks.
struct GroupBytes {
  Bytes saved;        ///< from the forward to the end of its backward
  Bytes for_weights;  ///< the part of it that the weight gradient reads
};
[[nodiscard]] GroupBytes group_bytes(const PricingInput& view, const GroupContent& content);

/// Calls visit with the copies of blocks that hold no buffer of their own for a tensor of an edge,
/// because another copy has it, and the bytes that each would keep.
void for_each_shared_edge(
    const PricingInput& view, const GroupContent& content,
    const std::function<void(const BlockPort& at, Bytes bytes, double copies)>& visit);

}  // namespace plansearch
