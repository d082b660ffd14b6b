// SPDX-License-Identifier: Apache-2.0
// Computes: time and exposed communication of one block on one device.
// Source: sum of kernels; communication derived from placement (communication/derive.hpp); hidden
//         share by framework data; a host CPU that issues kernels slower than the device runs
//         them.
// Assumes: what is hidden slows what hides it by the framework's contention factor.
// Units: seconds.
// Checked by: tests/unit/evaluate/block_profile_test.cpp
#include "evaluate/block_profile.hpp"

#include <algorithm>

#include "plan/recompute.hpp"

namespace plansearch {
namespace {

/// One pass while it is being added up.
struct PassSum {
  Seconds compute;
  double kernels = 0.0;
  double collectives = 0.0;
  double ring_ranks = 0.0;  ///< ranks of every tensor-parallel collective, summed
};

PassSum start(const KernelSum& kernels, PassProfile& pass) {
  pass.compute = kernels.time;
  return {kernels.time, kernels.launches};
}

class PassAdder {
 public:
  PassAdder(const PricingContext& context, const BlockParts& parts, BlockProfile& profile,
            std::vector<PricedCommunication>* lines)
      : context_(context),
        parts_(parts),
        profile_(profile),
        lines_(lines),
        repeats_whole_(repeats_whole(parts.block, parts.recompute)),
        forward_(start(parts.work.forward, profile.forward)),
        backward_(start(parts.work.backward, profile.backward)),
        recompute_(start(parts.work.repeated[static_cast<std::size_t>(parts.recompute)],
                         profile.recompute)),
        weights_(start(parts.work.weight_gradient, profile.weight_gradient)) {}

  void run() {
    add_messages();
    profile_.forward.issue = issue_time(forward_);
    profile_.backward.issue = issue_time(backward_);
    profile_.recompute.issue = issue_time(recompute_);
    profile_.weight_gradient.issue = issue_time(weights_);
    profile_.forward_length = profile_.forward.length();
    profile_.backward_length = joint_length(profile_.backward, profile_.recompute);
    PassProfile input_gradient = profile_.backward;
    input_gradient.add(profile_.weight_gradient, -1.0);
    profile_.input_length = joint_length(input_gradient, profile_.recompute);
    profile_.weight_length = profile_.weight_gradient.length();
  }

 private:
  /// In the order in which they happen, for the first ones hide first.
  void add_messages() {
    const auto& operators = parts_.work.messages;
    const auto& kept = parts_.kept.passes;
    auto next = kept.begin();
    for (const PassMessage& message : operators) {
      while (next != kept.end() && comes_before(next->communication, message.communication)) {
        add(*next++);
      }
      add(message);
    }
    while (next != kept.end()) add(*next++);
  }

  void add(const PassMessage& message) {
    const Communication& demand = message.communication;
    const bool forward = demand.phase == DemandPhase::Forward;
    Seconds exposed = expose(forward ? profile_.forward : profile_.backward,
                             forward ? forward_ : backward_, message);
    const bool again =
        forward && repeats_whole_ && demand.on_recompute == RecomputeGather::Repeated;
    if (again) exposed += expose(profile_.recompute, recompute_, message);
    if (lines_ != nullptr) write_line(message, again ? 2.0 : 1.0, exposed);
  }

  void write_line(const PassMessage& message, double times, Seconds exposed) {
    PricedCommunication& line =
        lines_->emplace_back(PricedCommunication{.communication = message.communication});
    line.bytes = message.bytes;
    line.wire_bytes = message.wire_bytes;
    line.count = times * message.communication.count;
    line.time = message.time;
    line.exposed = exposed;
  }

  /// Adds all calls of a message to a pass. What the framework hides costs only contention, and
  /// only moving bytes contends: waiting for a latency disturbs nobody.
  Seconds expose(PassProfile& pass, PassSum& sum, const PassMessage& message) {
    const Communication& demand = message.communication;
    const auto kind = static_cast<std::size_t>(message.overlap);
    const bool possible = message.overlap != Overlap::TensorParallel ||
                          context_.problem.cluster->accelerator.user_buffers;
    const double share = possible ? context_.problem.framework->overlap[kind] : 0.0;
    const Seconds total = message.time * static_cast<double>(demand.count);
    const Seconds hidden = std::min(total * share, sum.compute);
    const Seconds moving = std::min(hidden, message.transfer * static_cast<double>(demand.count));
    const Seconds exposed = total - hidden + moving * context_.constants.contention[kind];
    sum.compute -= hidden;  // what is hidden here cannot hide more
    sum.collectives += demand.count;
    if (!(demand.axes & kTensorAxes).empty()) {
      sum.ring_ranks += static_cast<double>(demand.count) * demand.group_size;
    }
    book(pass, message, exposed);
    // The weight gradient is a part of backward: what waits for it there waits for it here.
    if (demand.phase == DemandPhase::WeightGradient) {
      weights_.collectives += demand.count;
      book(profile_.weight_gradient, message, exposed);
    }
    return exposed;
  }

  static void book(PassProfile& pass, const PassMessage& message, Seconds exposed) {
    pass.exposed[static_cast<std::size_t>(message.purpose)] += exposed;
    if (message.between_nodes) pass.between_nodes += exposed;
  }

  [[nodiscard]] Seconds issue_time(const PassSum& sum) const {
    return context_.constants.host_launch * (sum.kernels + sum.collectives) +
           parts_.skew * sum.ring_ranks;
  }

  const PricingContext& context_;
  const BlockParts& parts_;
  BlockProfile& profile_;
  std::vector<PricedCommunication>* lines_;
  bool repeats_whole_;
  PassSum forward_;
  PassSum backward_;
  PassSum recompute_;
  PassSum weights_;  ///< part of backward_
};

}  // namespace

Seconds PassProfile::exposed_total() const {
  Seconds sum;
  for (const Seconds part : exposed) sum += part;
  return sum;
}

Seconds PassProfile::device() const {
  return compute + exposed_total();
}

void PassProfile::add(const PassProfile& other, double copies) {
  compute += other.compute * copies;
  for (std::size_t i = 0; i < kPurposeCount; ++i) exposed[i] += other.exposed[i] * copies;
  between_nodes += other.between_nodes * copies;
  issue += other.issue * copies;
}

Seconds PassProfile::length() const {
  return std::max(device(), issue);
}

Seconds joint_length(const PassProfile& first, const PassProfile& second) {
  return std::max(first.device() + second.device(), first.issue + second.issue);
}

void sum_passes(const PricingContext& context, const BlockParts& parts, BlockProfile& profile,
                std::vector<PricedCommunication>* lines) {
  PassAdder(context, parts, profile, lines).run();
}

}  // namespace plansearch
