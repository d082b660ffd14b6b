// SPDX-License-Identifier: Apache-2.0
// Computes: the tensors that a device holds at its peak, with their numbers.
// Source: the parts that peaks are added up from: states, saved tensors of blocks, what lives
//         around one operator, buffers (memory_model.cpp). The peak of an order is a maximum of
//         sums of what its micro-batches keep; its slope along the bytes of one chunk is the number
//         of micro-batches of that chunk that are there.
// Assumes: as memory_model.cpp; orders that are found, and policies that decide by operator, have
//          one line in place of tensors.
// Units: bytes.
// Checked by: tests/unit/evaluate/held_at_peak_test.cpp (the parts sum to the peak)
#include "evaluate/answer/plan_details.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "evaluate/memory/memory_model.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {
namespace {

/// Below this share of the peak there is only rounding.
constexpr double kNothing = 1e-9;
/// Slopes are numbers of micro-batches; a smaller one is rounding.
constexpr double kNoMicroBatch = 1e-3;
constexpr const char* kRest = "what else it keeps";

class HeldParts {
 public:
  void add(std::string what, double count, Bytes bytes) {
    if (bytes == Bytes(0)) return;
    const auto same = std::find_if(parts_.begin(), parts_.end(),
                                   [&](const HeldPart& part) { return part.what == what; });
    if (same == parts_.end()) {
      parts_.push_back({std::move(what), count, bytes});
    } else {
      same->count += count;
      same->bytes += bytes;
    }
    sum_ += bytes;
  }
  /// Takes so much away from the first of these parts that has as much.
  void take(const std::vector<std::string>& names, double count, Bytes bytes) {
    for (const std::string& what : names) {
      const auto part = std::find_if(parts_.begin(), parts_.end(), [&](const HeldPart& one) {
        return one.what == what && one.bytes >= bytes * (1.0 - kNothing);
      });
      if (part == parts_.end()) continue;
      part->count -= count;
      part->bytes -= bytes;
      sum_ -= bytes;
      if (part->bytes <= bytes * kNothing) parts_.erase(part);
      return;
    }
  }
  [[nodiscard]] Bytes sum() const { return sum_; }
  [[nodiscard]] std::vector<HeldPart> largest_first() && {
    std::stable_sort(parts_.begin(), parts_.end(),
                     [](const HeldPart& a, const HeldPart& b) { return a.bytes > b.bytes; });
    return std::move(parts_);
  }

 private:
  std::vector<HeldPart> parts_;
  Bytes sum_;
};

void add_states(const PricingInput& view, const MemoryBreakdown& memory, int device,
                HeldParts& parts) {
  parts.add("parameters", 1.0, memory.parameters);
  parts.add("gradients", 1.0, memory.gradients);
  parts.add("optimizer states", 1.0, memory.optimizer);
  const StageClassStates& statics = view.statics_at(device);
  parts.add("gathered parameters", 1.0, statics.gathered_parameters);
  parts.add("buckets of gradients", 1.0, statics.reduction_buffers);
  parts.add("workspace of libraries", 1.0, view.constants.memory_workspace);
  const TransientParts transient = transient_parts(view, device);
  parts.add("logits and loss in backward", 1.0, transient.loss);
  parts.add("one block in backward", 1.0, transient.block);
}

/// Saved tensors of one content, of so many micro-batches.
void add_content(const ProfileMaker& profiles, const PricingInput& view,
                 const GroupContent& content, double micro_batches, HeldParts& parts) {
  for_each_profile(view, content, [&](const ClassProfile& profile, std::size_t b, double copies) {
    const double count = copies * micro_batches;
    const std::string block = plain_block_name(view.problem.network->blocks[b].name);
    const Bytes saved = profile.blocks[b].memory.saved;
    Bytes named;
    for (const SavedTensor& tensor : profiles.saved_tensors(profile, b)) {
      parts.add(fmt::format("{}: {}", block, tensor.name), count, tensor.bytes * count);
      named += tensor.bytes;
    }
    const Bytes rest = saved - named;
    const bool has_rest = std::abs(rest / std::max(saved, Bytes(1))) > kNothing;
    if (has_rest) parts.add(fmt::format("{}: {}", block, kRest), count, rest * count);
  });
  // One buffer for all copies of blocks that read a tensor of an edge, such as an encoder's output.
  for_each_shared_edge(view, content, [&](const BlockPort& at, Bytes bytes, double copies) {
    const Block& block = view.problem.network->blocks[at.block];
    const std::string name = plain_block_name(block.name);
    const std::size_t inputs = block.inputs.size();
    const TensorId id = at.port < inputs ? block.inputs[at.port] : block.outputs[at.port - inputs];
    const double count = copies * micro_batches;
    if (bytes * count == Bytes(0)) return;
    parts.take(
        {fmt::format("{}: {}", name, block.tensor(id).name), fmt::format("{}: {}", name, kRest)},
        count, bytes * count);
  });
}

void add_activations(const ProfileMaker& profiles, const PricingInput& view, int device,
                     Bytes activations, EvaluationWorkspace& workspace, HeldParts& parts) {
  const Bytes before = parts.sum();
  const InFlight flight = in_flight_at_peak(view, device, workspace);
  const std::vector<int>& contents = view.contents_at(device);
  for (std::size_t c = 0; c < contents.size(); ++c) {
    const GroupContent& content = view.content(contents[c]);
    if (flight.saved[c] > kNoMicroBatch) {
      add_content(profiles, view, content, flight.saved[c], parts);
    }
    if (flight.for_weights[c] > kNoMicroBatch) {
      const Bytes kept = group_bytes(view, content).for_weights;
      parts.add("for weight gradients that run later", flight.for_weights[c],
                kept * flight.for_weights[c]);
    }
  }
  const Bytes rest = activations - (parts.sum() - before);
  if (std::abs(rest / std::max(activations, Bytes(1))) > 1e-6) {
    parts.add("other activations", 1.0, rest);
  }
}

}  // namespace

PeakReport held_at_peak(const ProfileMaker& profiles, const PricingInput& view,
                        EvaluationWorkspace& workspace) {
  const DeviceMemory worst = worst_device_memory(view, workspace);
  HeldParts parts;
  add_states(view, worst.memory, worst.device, parts);
  add_activations(profiles, view, worst.device, worst.memory.activations, workspace, parts);
  PeakReport peak;
  peak.device = worst.device;
  peak.process = held_by_process(worst, view.problem.cluster->accelerator.memory);
  peak.reserved = peak.process - worst.memory.reserve;
  peak.allocated = worst.memory.total() - worst.memory.reserve;
  peak.parts = std::move(parts).largest_first();
  return peak;
}

}  // namespace plansearch
