// SPDX-License-Identifier: Apache-2.0
// Computes: peak memory of one device: states, activations in flight, working set, buffers; the
//           probability that a plan needs more memory than there is, and its inverse.
// Source: activations from the operators' saved tensors (Korthikanti et al., arXiv 2205.05198) and
//         the order of the schedule; states from tensor policies (ZeRO, arXiv 1910.02054). Risk:
//         ln(needed / predicted) of measured peaks by framework (tools/memory_error.py); two halves
//         of normal distributions that meet at the median (Fechner 1897, "two-piece normal").
// Assumes: the peak is in backward of the last stage's loss or of the block with most saved bytes,
//          or in the update of all tensors at once;
//          gradients that backward makes grow as fast as activations go; states that may leave
//          (pages) do where the risk of running out would be higher than asked for; the error does
//          not depend on the plan; weights that are not trained have none: they are loaded as they
//          lie in a file, and no optimizer, gradient or allocation depends on them.
// Units: bytes; probabilities.
// Checked by: tests/unit/evaluate/memory_model_test.cpp, memory_risk_test.cpp; docs/validation.md
//             (allocator peaks, observed failures)
#include "evaluate/memory/memory_model.hpp"

#include <algorithm>
#include <cmath>

#include "base/statistics.hpp"
#include "evaluate/step/windowed_step.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {

double risk_of_memory(const MemoryError& error, Bytes predicted, Bytes limit, Bytes certain) {
  if (predicted <= certain) return predicted <= limit ? 0.0 : 1.0;
  if (limit <= certain) return 1.0;
  const double room = std::log((limit - certain) / ((predicted - certain) * error.median));
  const double deviation = room > 0.0 ? error.above : error.below;
  if (deviation <= 0.0) return room < 0.0 ? 1.0 : 0.0;
  return normal_below(-room / deviation);
}

double share_at_risk(const MemoryError& error, double risk) {
  PLANSEARCH_CHECK(risk > 0.0 && risk < 1.0);
  const double deviations = deviations_with(risk);
  const double room = deviations * (deviations > 0.0 ? error.above : error.below);
  return std::exp(-room) / error.median;
}

Bytes peak_at_risk(const MemoryError& error, double risk, Bytes limit, Bytes certain) {
  return certain + (limit - certain) * share_at_risk(error, risk);
}

namespace {

/// The blocks of one group, or the most demanding of a device.
struct BlockShares {
  Bytes saved;
  Bytes kept_for_weights;
  Bytes offloaded;
  Bytes working_set;
  Bytes loss;
  Bytes cached;
  double stream = 0.0;
  double logits = 0.0;
};

/// Calls visit(bytes of the port, level, copies) for the copies that hold a tensor, under the
/// profile that they run with.
template <typename Visit>
void for_each_holder(const PricingInput& view, const GroupContent& content,
                     const std::vector<PortHolders>& holders, Visit visit) {
  const TransformInvariants& transform = view.transform_of(content);
  const ClassProfile& profile = *transform.profile;
  for (const PortHolders& holder : holders) {
    const PortBytes& port = transform.port(holder.at);
    std::int64_t again = holder.copies;
    if (profile.kept != nullptr) {
      again = copies_among_first(*view.problem.network, content.blocks, holder.at.block,
                                 transform.degrees->recompute_layers);
      again = std::clamp<std::int64_t>(again - holder.first, 0, holder.copies);
    }
    const std::int64_t rest = holder.copies - again;
    if (again > 0) visit(port, profile.recompute, static_cast<double>(again));
    if (rest > 0) visit(port, profile.kept->recompute, static_cast<double>(rest));
  }
}

/// Tensors of edges count once on a device, and while they pass it.
void join_edges(const PricingInput& view, const GroupContent& content, BlockShares& shares) {
  for (const std::vector<PortHolders>& holders : content.edges.shared) {
    Bytes saved;
    Bytes for_weights;
    for_each_holder(view, content, holders,
                    [&](const PortBytes& port, Recompute level, double copies) {
                      const Bytes kept = port.kept[static_cast<std::size_t>(level)];
                      shares.saved -= kept * copies;
                      shares.kept_for_weights -= port.for_weights * copies;
                      saved = std::max(saved, kept);
                      for_weights = std::max(for_weights, port.for_weights);
                    });
    shares.saved += saved;
    shares.kept_for_weights += for_weights;
  }
  for (const BlockPort& passing : content.edges.passing) {
    shares.saved += view.transform_of(content).port(passing).tile;
  }
}

}  // namespace

void for_each_shared_edge(
    const PricingInput& view, const GroupContent& content,
    const std::function<void(const BlockPort& at, Bytes bytes, double copies)>& visit) {
  struct Held {
    BlockPort at;
    Bytes bytes;
    double copies;
  };
  for (const std::vector<PortHolders>& holders : content.edges.shared) {
    std::vector<Held> held;
    for (const PortHolders& holder : holders) {
      for_each_holder(
          view, content, {holder}, [&](const PortBytes& port, Recompute level, double copies) {
            held.push_back({holder.at, port.kept[static_cast<std::size_t>(level)], copies});
          });
    }
    const auto largest = std::max_element(
        held.begin(), held.end(), [](const Held& a, const Held& b) { return a.bytes < b.bytes; });
    if (largest == held.end()) continue;
    largest->copies -= 1.0;  // the buffer
    for (const Held& one : held) visit(one.at, one.bytes, one.copies);
  }
}

namespace {

BlockShares shares_of(const PricingInput& view, const GroupContent& content) {
  BlockShares shares;
  for_each_block(view, content, [&](const BlockProfile& profile, double copies) {
    const BlockMemory& block = profile.memory;
    shares.saved += block.saved * copies;
    shares.kept_for_weights += block.kept_for_weights * copies;
    shares.offloaded += block.offloaded * copies;
    shares.cached += block.cached * copies;
    shares.loss += block.loss;
    shares.working_set = std::max(shares.working_set, block.working_set);
    shares.stream = std::max(shares.stream, block.stream);
    shares.logits = std::max(shares.logits, block.logits);
  });
  join_edges(view, content, shares);
  return shares;
}

/// The bytes around one operator: the loss of the micro-batch before, tensors around a
/// block in backward. Where the loss is freed by then, only what exceeds it adds to the peak.
TransientParts transient_of(const PricingInput& view, const BlockShares& most) {
  const FrameworkConstants& constants = view.constants;
  const double previous =
      view.order.micro_batches > 1 ? constants.memory_previous_logit_bytes : 0.0;
  const Bytes loss((constants.memory_logit_bytes + previous) * most.logits);
  const Bytes block = most.working_set + Bytes(constants.memory_live_bytes * most.stream);
  if (constants.memory_loss_through_backward) return {loss, block};
  if (loss >= block - most.loss) return {loss, Bytes(0)};
  return {Bytes(0), block - most.loss};
}

void take_most(const BlockShares& shares, BlockShares& most) {
  most.offloaded = std::max(most.offloaded, shares.offloaded);
  most.working_set = std::max(most.working_set, shares.working_set);
  most.loss = std::max(most.loss, shares.loss);
  most.stream = std::max(most.stream, shares.stream);
  most.logits = std::max(most.logits, shares.logits);
}

Bytes peak_of_window(const PricingInput& view, int position, WindowPeak peak,
                     EvaluationWorkspace& workspace) {
  return peak == WindowPeak::Found ? window_peak(view, position, workspace)
                                   : least_window_peak(view, position);
}

/// Gradients beside all activations. Where only backward makes them, the first micro-batch frees
/// activations for them: the peak is at its start or at its end.
Bytes gradients_at_peak(const PricingInput& view, Bytes gradients, Bytes activations) {
  const bool made = view.problem.framework->implementation.gradients == GradientStorage::Backward;
  if (!made || view.order.micro_batches > 1) return gradients;
  return std::max(gradients - activations, Bytes(0));
}

/// The most that micro-batches in flight keep, each as many bytes as `workspace` says.
Bytes most_in_flight(const PricingInput& view, int position, WindowPeak peak,
                     EvaluationWorkspace& workspace) {
  if (view.order.window) return peak_of_window(view, position, peak, workspace);
  return peak_activation_bytes(view.shape(), position, workspace.chunk_bytes,
                               workspace.weight_bytes);
}

/// The same of what waits in memory of the host.
Bytes most_on_host(const PricingInput& view, int position, WindowPeak peak,
                   EvaluationWorkspace& workspace) {
  workspace.chunk_bytes.clear();
  for (const int content : view.contents_at(position)) {
    workspace.chunk_bytes.push_back(shares_of(view, view.content(content)).offloaded);
  }
  workspace.weight_bytes.assign(workspace.chunk_bytes.size(), Bytes(0));
  return most_in_flight(view, position, peak, workspace);
}

/// AdamW over lists of tensors makes the root of every second moment at once, after backward: what
/// these need over what backward holds in their place.
Bytes excess_of_update(const PricingInput& view, const StageClassStates& statics,
                       const MemoryBreakdown& backward) {
  const Problem& problem = view.problem;
  const bool adam = problem.model && problem.model->training.optimizer == OptimizerKind::Adam;
  const bool at_once = adam && !problem.framework->optimizer_in_backward && !view.precision.master;
  if (!view.constants.memory_update_of_lists || !at_once) return Bytes(0);
  const Bytes in_place = backward.gradients - statics.gradient_bytes + backward.activations +
                         backward.transient + statics.gathered_parameters;
  return std::max(statics.optimizer_bytes * 0.5 - in_place, Bytes(0));
}

/// States that have to leave for a device to stay within the risk that was asked for.
Bytes pages_out(const PricingInput& view, const MemoryBreakdown& memory) {
  const Problem& problem = view.problem;
  if (!problem.framework->paged_states) return Bytes(0);
  const Bytes room = peak_at_risk(view.constants.memory_error, problem.memory_risk,
                                  problem.cluster->accelerator.memory - problem.memory_reserve);
  const Bytes excess = memory.total() - room;  // a byte more: sums are rounded
  return excess > Bytes(0) ? std::min(excess + Bytes(1), memory.optimizer) : Bytes(0);
}

}  // namespace

DeviceMemory device_memory(const PricingInput& view, int position, EvaluationWorkspace& workspace,
                           WindowPeak peak) {
  const FrameworkConstants& constants = view.constants;
  const StageClassStates& statics = view.statics_at(position);
  DeviceMemory result{{}, Bytes(0), Bytes(0), Bytes(0), position};
  MemoryBreakdown& memory = result.memory;
  memory.parameters = statics.parameter_bytes;
  memory.optimizer = statics.optimizer_bytes;
  memory.buffers = statics.reduction_buffers;
  BlockShares most;
  BlockShares shares;
  int known = -1;
  workspace.chunk_bytes.clear();
  workspace.weight_bytes.clear();
  for (const int content : view.contents_at(position)) {
    if (content != known) shares = shares_of(view, view.content(content));
    known = content;
    workspace.chunk_bytes.push_back(shares.saved);
    workspace.weight_bytes.push_back(shares.kept_for_weights);
    result.cached += shares.cached;
    take_most(shares, most);
  }
  memory.activations = most_in_flight(view, position, peak, workspace);
  memory.gradients = gradients_at_peak(view, statics.gradient_bytes, memory.activations);
  const TransientParts transient = transient_of(view, most);
  memory.transient = transient.loss + transient.block;
  memory.buffers += constants.memory_workspace + statics.gathered_parameters;
  memory.transient += excess_of_update(view, statics, memory);
  // A stage boundary waits for the device, so that nothing gathered stays.
  result.cached =
      view.assignment().stages() > 1 ? Bytes(0) : result.cached * constants.memory_gathered_cached;
  result.cached += memory.total() * (constants.memory_fragmentation - 1.0);
  memory.reserve = constants.memory_context;
  result.paged = pages_out(view, memory);
  memory.optimizer -= result.paged;
  if (most.offloaded > Bytes(0)) result.on_host = most_on_host(view, position, peak, workspace);
  return result;
}

TransientParts transient_parts(const PricingInput& view, int position) {
  BlockShares most;
  for (const int content : view.contents_at(position)) {
    take_most(shares_of(view, view.content(content)), most);
  }
  return transient_of(view, most);
}

InFlight in_flight_at_peak(const PricingInput& view, int position, EvaluationWorkspace& workspace) {
  static_cast<void>(device_memory(view, position, workspace));  // fills the bytes of chunks
  // Where chunks of one size hold the peak at several times, counts are those of one of these.
  constexpr double kApart = 1e-7;
  constexpr double kGolden = 0.6180339887498949;
  double mark = 0.0;
  for (std::vector<Bytes>* bytes : {&workspace.chunk_bytes, &workspace.weight_bytes}) {
    for (Bytes& one : *bytes) {
      mark = std::fmod(mark + kGolden, 1.0);
      one *= 1.0 + kApart * mark;
    }
  }
  const Bytes peak = most_in_flight(view, position, WindowPeak::Found, workspace);
  InFlight counts;
  const auto slope = [&](std::vector<Bytes>& bytes, std::vector<double>& found) {
    constexpr double kExact = 1e3;
    for (Bytes& one : bytes) {
      const Bytes step = one * (kApart * 1e-3) + Bytes(0.01);
      const Bytes kept = one;
      one += step;
      const double count =
          (most_in_flight(view, position, WindowPeak::Found, workspace) - peak) / step;
      found.push_back(std::round(count * kExact) / kExact);
      one = kept;
    }
  };
  slope(workspace.chunk_bytes, counts.saved);
  slope(workspace.weight_bytes, counts.for_weights);
  return counts;
}

GroupBytes group_bytes(const PricingInput& view, const GroupContent& content) {
  const BlockShares shares = shares_of(view, content);
  return {shares.saved, shares.kept_for_weights};
}

bool may_keep_most(const PricingInput& view, int position) {
  const bool looped =
      !view.order.window && schedule_row(view.order.schedule).placement == &looped_mapping();
  if (position == 0 || !looped) return true;
  return view.kind_of(position) != view.kind_of(position - 1);
}

void take_worse(const DeviceMemory& device, DeviceMemory& worst) {
  const Bytes on_host = std::max(device.on_host, worst.on_host);
  const Bytes paged = std::max(device.paged, worst.paged);
  if (device.device == 0 || device.memory.total() > worst.memory.total()) worst = device;
  worst.on_host = on_host;
  worst.paged = paged;
}

DeviceMemory worst_device_memory(const PricingInput& view, EvaluationWorkspace& workspace) {
  DeviceMemory worst;
  for (int position = 0; position < view.assignment().stages(); ++position) {
    if (!may_keep_most(view, position)) continue;
    const DeviceMemory memory = device_memory(view, position, workspace);
    take_worse(memory, worst);
  }
  return worst;
}

}  // namespace plansearch
