// SPDX-License-Identifier: Apache-2.0
// The cost of a plan: plain values whose parts sum to their totals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plansearch/communication.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// Wall time of one optimizer step as one device spends it. The parts sum to the total.
struct StepTimeBreakdown {
  Seconds compute;          ///< forward, input gradient and weight gradient kernels
  Seconds recompute;        ///< forward kernels run again
  TimeByPurpose exposed{};  ///< communication nothing hides, by what it is for
  Seconds bubble;           ///< waiting for other stages
  Seconds optimizer;
  Seconds between_nodes;  ///< the part of `exposed` whose group spans nodes; in no sum
  Seconds host;           ///< launch-bound time and per-step work of the host CPU
  Seconds site;           ///< further time of the site; negative where it is faster

  [[nodiscard]] Seconds exposed_total() const;
  [[nodiscard]] Seconds total() const;
  bool operator==(const StepTimeBreakdown&) const = default;
};

/// Device memory of the worst device at its peak. The parts sum to the peak.
struct MemoryBreakdown {
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer;    ///< master copies and moments
  Bytes activations;  ///< saved for backward, all micro-batches in flight
  Bytes transient;    ///< working set of the operator at the peak
  Bytes buffers;      ///< communication buffers and gathered parameters
  Bytes reserve;      ///< driver context and libraries outside the allocator

  [[nodiscard]] Bytes total() const;
  bool operator==(const MemoryBreakdown&) const = default;
};

/// Memory of one device (pipeline stage).
struct DeviceMemory {
  MemoryBreakdown memory;
  /// Freed blocks that the allocator keeps while there is room: part of what it has reserved, not
  /// of what a plan needs.
  Bytes cached;
  Bytes on_host;  ///< activations in memory of its host
  Bytes paged;    ///< states that leave for its host while passes need their room
  int device = 0;
};

/// Memory of a device that a process holds: what a plan needs, and freed blocks that the allocator
/// keeps while there is room. They go back to the driver before an allocation fails.
[[nodiscard]] Bytes held_by_process(const DeviceMemory& device, Bytes capacity);

/// Something that is alive when a device holds most.
struct HeldPart {
  std::string what;    ///< "decoder: mlp_in"
  double count = 1.0;  ///< of equal tensors: copies of the block, micro-batches in flight
  Bytes bytes;         ///< of all of them
};

/// The device that needs most memory at its peak, which is in backward.
struct PeakReport {
  int device = 0;
  Bytes allocated;              ///< by tensors: the peak without the driver's context
  Bytes reserved;               ///< by the allocator
  Bytes process;                ///< with the driver's context, as nvidia-smi has it
  std::vector<HeldPart> parts;  ///< the largest first; with the context they sum to the peak
};

/// Lower bounds of one plan: no order of instructions and no overlap can beat them.
struct PlanBound {
  Seconds step_time;
  Bytes memory;
};

/// The price of one plan.
struct Estimate {
  StepTimeBreakdown step;  ///< of the device that has most to do
  Seconds imbalance;       ///< mean over devices of what they have less to do than that one
  int busiest_stage = 0;
  Seconds next_step_overlap;  ///< of a step's makespan, what runs beside the step after it
  MemoryBreakdown memory;
  Bytes host_memory;          ///< of a node: states, parameters and activations that live there
  double relative_p10 = 1.0;  ///< p10 step time over the median
  double relative_p90 = 1.0;
  int worst_memory_stage = 0;
  bool operator==(const Estimate&) const = default;
};

/// The same plan where every step takes `factor` times as long.
[[nodiscard]] Estimate at_factor(Estimate estimate, double factor);

/// Whether a plan fits memory, by its risk of running out of it.
enum class MemoryFit : std::uint8_t {
  Fits,   ///< at most the risk asked for
  Tight,  ///< at most kTightMemoryRisk
  No,
};
[[nodiscard]] std::string_view to_text(MemoryFit fit);
inline constexpr double kTightMemoryRisk = 0.5;

/// Why a plan has no price; where only memory is missing, with the price it would have.
struct InfeasiblePlan {
  Infeasible reason;
  std::optional<Estimate> estimate;
};

using Evaluation = std::variant<Estimate, InfeasiblePlan>;

/// One pipeline stage of a plan: its devices, and one step as they spend it.
struct StageReport {
  int stage = 0;
  int first_rank = 0;
  PlanDegrees degrees;
  double layers = 0.0;
  Seconds forward;          ///< of one micro-batch, all chunks
  Seconds backward;         ///< both gradients and recomputation
  Seconds weight_gradient;  ///< the part of `backward` that runs apart
  Seconds recompute;        ///< the part of `backward` that repeats forward work
  Seconds busy;             ///< computing, of the whole step
  Seconds waiting;          ///< the rest of what the pipeline takes
  Seconds reduction;        ///< exposed, once per step
  Seconds optimizer;
  Bytes edge_bytes;  ///< largest message to a next stage
  Seconds edge_time;
  bool edge_leaves_node = false;  ///< some of its messages cross nodes
  Bytes memory;                   ///< peak
};

/// A message inside a pass of a block whose kernels and messages are simulated on streams: one
/// micro-batch, one copy of the block.
struct HiddenMessage {
  std::string block;
  double copies = 0.0;  ///< of the block on the device
  std::string pass;     ///< "forward", "backward" (with recomputation)
  std::string what;
  CommunicationKind kind = CommunicationKind::AllReduce;
  bool repeated = false;  ///< by the recomputation
  Seconds time;           ///< alone
  Seconds exposed;        ///< waited for, and what it costs the kernels beside it
  std::string under;      ///< the kernels that run longest beside it; empty: none
};

/// One launch of a block on one device, an operator or several fused: what one micro-batch takes
/// there before anything hides and without recomputation. Kernels include what devices exchange
/// while the operator runs (rings, row statistics).
struct OperatorReport {
  std::string block;
  double copies = 0.0;  ///< of the block on the device
  std::string name;
  Seconds forward;
  Seconds input_gradient;
  Seconds weight_gradient;
  Seconds
      messages;  ///< that bring its inputs or take the block's outputs away, and their gradients

  [[nodiscard]] Seconds total() const {
    return forward + input_gradient + weight_gradient + messages;
  }
  /// An operator of the same launch.
  void add(const OperatorReport& other);
};

/// An order that was found for a plan.
struct FoundOrder {
  Seconds window;         ///< of a micro-batch in the steady state
  Seconds bound;          ///< no window is shorter: work of the busiest device
  std::vector<int> kept;  ///< by stage: most micro-batches of its layers at one time
};

/// Details of a plan for its report, beside its price.
struct PlanDetails {
  std::vector<PricedCommunication> communication;  ///< of the busiest device
  std::vector<StageReport> stages;
  std::vector<OperatorReport> operators;  ///< of the busiest device
  std::vector<HiddenMessage> hidden;      ///< on the busiest device
  PeakReport peak{};
  std::optional<FoundOrder> order{};  ///< where it is not the order of a schedule
};

}  // namespace plansearch
