// SPDX-License-Identifier: Apache-2.0
// Computes: the order in which one block issues kernels and messages, and what waits for what.
// Source: framework data (OverlapRule): AxoNN's overlap of all-reduce, reduce-scatter and
//         all-gather (axonn/intra_layer/fully_connected.py), FSDP's prefetch (PyTorch FSDP, VLDB
//         2023), Megatron's asynchronous reduction of input gradients.
// Assumes: an operator forms its input gradient before its weight gradient; messages of one set of
//          axes and one direction of parameters queue behind each other.
// Units: seconds.
// Checked by: tests/unit/evaluate/block_program_test.cpp
#include "evaluate/block_program.hpp"

#include <algorithm>

#include "plan/recompute.hpp"
#include "plansearch/fixed_vector.hpp"

namespace plansearch {
namespace {

const OverlapRule& rule_of(const PricingContext& context, const PassMessage& message) {
  return context.problem.framework->overlap[static_cast<std::size_t>(message.overlap)];
}

/// Messages of a pass by the operator and the side they stand at.
class MessageList {
 public:
  void assign(const BlockParts& parts) {
    all_.clear();
    const auto& kept = parts.kept.passes;
    auto next = kept.begin();
    for (const PassMessage& message : parts.work.messages) {
      while (next != kept.end() && comes_before(next->communication, message.communication)) {
        all_.push_back(&*next++);
      }
      all_.push_back(&message);
    }
    while (next != kept.end()) all_.push_back(&*next++);
  }

  template <typename Visit>
  void at(DemandPhase phase, std::size_t op, Side side, Visit visit) const {
    for (const PassMessage* message : all_) {
      const Communication& c = message->communication;
      if (c.phase == phase && c.operator_index == op && c.side == side) visit(*message);
    }
  }

  /// The gather of the backward pass that brings what this gather of the forward pass brings.
  [[nodiscard]] const PassMessage* backward_gather(const PassMessage& forward) const {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const PassMessage* m) {
      return m->communication.subject == Subject::Parameter &&
             m->communication.phase == DemandPhase::InputGradient &&
             m->communication.index == forward.communication.index &&
             m->communication.axes == forward.communication.axes;
    });
    return found == all_.end() ? nullptr : *found;
  }

 private:
  std::vector<const PassMessage*> all_;
};

class ProgramBuilder {
 public:
  ProgramBuilder(const PricingContext& context, const BlockParts& parts, BlockProgram& program)
      : context_(context), parts_(parts), program_(program) {
    program_.streams.instructions.clear();
    program_.issued.clear();
    list_.assign(parts);
    flush();  // where a copy begins
  }

  void forward() {
    window_ = parts_.work.forward.time;
    for (std::size_t op = 0; op < operators(); ++op) {
      post_at(DemandPhase::Forward, op, Side::Before, false);
      kernel(op, parts_.work.operators[op].forward);
      post_at(DemandPhase::Forward, op, Side::After, false);
    }
  }

  void recompute(const std::vector<double>& shares, bool whole) {
    window_ = parts_.work.repeated[static_cast<std::size_t>(parts_.recompute)].time;
    for (std::size_t op = 0; op < operators(); ++op) {
      if (whole) repeat_messages(op, Side::Before);
      kernel(op, parts_.work.operators[op].forward * shares[op]);
      if (whole) repeat_messages(op, Side::After);
    }
  }

  void backward(BlockPass pass) {
    const bool inputs = pass != BlockPass::WeightGradient;
    const bool weights = pass != BlockPass::InputGradient;
    window_ = (inputs ? parts_.work.backward.time : Seconds(0)) -
              (inputs == weights ? Seconds(0) : parts_.work.weight_gradient.time);
    if (!inputs) window_ = parts_.work.weight_gradient.time;
    for (std::size_t op = operators(); op-- > 0;) {
      const OperatorTime& time = parts_.work.operators[op];
      if (weights) post_early(op);
      if (inputs) {
        post_at(DemandPhase::InputGradient, op, Side::Before, false);
        kernel(op, time.backward - time.weight_gradient);
        post_at(DemandPhase::InputGradient, op, Side::After, false);
      }
      if (!weights) {
        wait_for_results();
        continue;
      }
      wait_for_operands();
      post_blocking_operands(op);
      kernel(op, time.weight_gradient);
      wait_for_results();
      post_at(DemandPhase::WeightGradient, op, Side::After, false);
    }
  }

  void finish() {
    flush();
    for (const Gather& gather : gathers_) link(gather);
    program_.streams.streams = 1 + static_cast<int>(streams_.size());
  }

 private:
  /// A message of parameters that is posted ahead of its use.
  struct Gather {
    std::size_t instruction = 0;
    std::size_t use = 0;  ///< the kernel before the one that reads it
    int ahead = 1;
  };

  [[nodiscard]] std::size_t operators() const { return parts_.work.operators.size(); }

  void kernel(std::size_t op, Seconds time) {
    if (pending_ == Seconds(0)) first_ = op;
    if (time > Seconds(0)) last_ = op;
    pending_ += time;
  }

  /// Ends the kernel that has been added up so far; the next one waits for what is in `awaited_`.
  std::size_t flush() {
    auto& instructions = program_.streams.instructions;
    if (pending_ == Seconds(0) && awaited_.empty() && !instructions.empty()) return last_kernel_;
    StreamInstruction kernel;
    kernel.work = pending_.value();
    kernel.after = awaited_;
    program_.issued.push_back(pending_ > Seconds(0) ? IssuedWork{nullptr, false, first_, last_}
                                                    : IssuedWork{});
    pending_ = Seconds(0);
    awaited_.clear();
    last_kernel_ = instructions.size();
    instructions.push_back(kernel);
    return last_kernel_;
  }

  void await(std::size_t instruction) {
    if (pending_ != Seconds(0) || awaited_.size() == kMostAwaited) flush();
    awaited_.push_back({static_cast<std::uint16_t>(instruction), 0});
  }

  void post_at(DemandPhase phase, std::size_t op, Side side, bool repeated) {
    list_.at(phase, op, side, [&](const PassMessage& message) {
      if (!is_served(message)) place(message, phase, side, repeated);
    });
  }

  /// What a recomputation sends again; what it does not send again the backward pass brings early.
  void repeat_messages(std::size_t op, Side side) {
    list_.at(DemandPhase::Forward, op, side, [&](const PassMessage& message) {
      if (message.communication.on_recompute == RecomputeGather::Repeated) {
        place(message, DemandPhase::Forward, side, true);
      } else if (const PassMessage* early = list_.backward_gather(message)) {
        place(*early, DemandPhase::InputGradient, Side::Before, false);
        served_.push_back(early);
      }
    });
  }

  [[nodiscard]] bool is_served(const PassMessage& message) const {
    return std::find(served_.begin(), served_.end(), &message) != served_.end();
  }

  void place(const PassMessage& message, DemandPhase phase, Side side, bool repeated) {
    const OverlapRule& rule = rule_of(context_, message);
    const bool parameter = message.communication.subject == Subject::Parameter;
    if (rule.wait == MessageWait::AtOnce) return await(post_blocking(message, repeated));
    if (parameter && side == Side::Before) return gather(message, rule, repeated);
    const std::size_t posted = post(message, repeated);
    if (phase == DemandPhase::WeightGradient) return;  // read when the pass is over
    if (phase == DemandPhase::InputGradient && side == Side::After) {
      results_.push_back(posted);
    } else {
      await(posted);
    }
  }

  /// Operands of a weight gradient that nobody else waits for: posted when the operator begins.
  void post_early(std::size_t op) {
    list_.at(DemandPhase::WeightGradient, op, Side::Before, [&](const PassMessage& message) {
      if (rule_of(context_, message).wait == MessageWait::AtOnce) return;
      operands_.push_back(post(message, false));
    });
  }

  void post_blocking_operands(std::size_t op) {
    list_.at(DemandPhase::WeightGradient, op, Side::Before, [&](const PassMessage& message) {
      if (rule_of(context_, message).wait == MessageWait::Use) return;
      await(post_blocking(message, false));
    });
  }

  void wait_for_operands() {
    for (const std::size_t posted : operands_) await(posted);
    operands_.clear();
  }
  void wait_for_results() {
    for (const std::size_t posted : results_) await(posted);
    results_.clear();
  }

  void gather(const PassMessage& message, const OverlapRule& rule, bool repeated) {
    const std::size_t use = flush();
    const std::size_t posted = append(message, repeated, message.time, message.transfer);
    gathers_.push_back({posted, use, rule.ahead});
    await(posted);
  }

  /// A gather is posted when the one `ahead` places before it is waited for, in this copy or in
  /// the one before.
  void link(const Gather& gather) {
    const auto count = static_cast<int>(gathers_.size());
    const int own = static_cast<int>(&gather - gathers_.data());
    const int copies = (gather.ahead + count - 1 - own) / count;
    const int other = own - gather.ahead + copies * count;
    const std::size_t use = gathers_[static_cast<std::size_t>(other)].use;
    program_.streams.instructions[gather.instruction].after.push_back(
        {static_cast<std::uint16_t>(use), static_cast<std::uint8_t>(copies)});
  }

  std::size_t post_blocking(const PassMessage& message, bool repeated) {
    const SharedTime time = share_of(context_, message, window_);
    window_ -= time.hidden;
    const Seconds moving =
        std::min(time.exposed, message.transfer * static_cast<double>(message.communication.count));
    const std::size_t before = flush();
    const std::size_t posted = append(message, repeated, time.exposed, moving);
    after(posted, before);
    return posted;
  }

  std::size_t post(const PassMessage& message, bool repeated) {
    const double count = message.communication.count;
    const std::size_t before = flush();
    const std::size_t posted =
        append(message, repeated, message.time * count, message.transfer * count);
    after(posted, before);
    return posted;
  }

  void after(std::size_t instruction, std::size_t kernel) {
    program_.streams.instructions[instruction].after.push_back(
        {static_cast<std::uint16_t>(kernel), 0});
  }

  std::size_t append(const PassMessage& message, bool repeated, Seconds time, Seconds moving) {
    StreamInstruction instruction;
    instruction.stream = stream_of(message.communication);
    instruction.activity = message.between_nodes ? Activity::Fabric : Activity::Local;
    instruction.work = std::min(moving, time).value();
    instruction.latency = time.value() - instruction.work;
    program_.streams.instructions.push_back(instruction);
    program_.issued.push_back({&message, repeated});
    return program_.streams.instructions.size() - 1;
  }

  std::uint8_t stream_of(const Communication& communication) {
    const Queue queue{communication.axes, communication.subject == Subject::Parameter};
    const auto known = std::find(streams_.begin(), streams_.end(), queue);
    const auto index = static_cast<std::size_t>(known - streams_.begin());
    if (known == streams_.end()) streams_.push_back(queue);
    return static_cast<std::uint8_t>(1 + index);
  }

  struct Queue {
    AxisSet axes;
    bool parameters = false;
    bool operator==(const Queue&) const = default;
  };
  static constexpr std::size_t kMostAwaited = 4;

  const PricingContext& context_;
  const BlockParts& parts_;
  BlockProgram& program_;
  MessageList list_;
  Seconds pending_;
  std::size_t first_ = 0;  ///< operator of the kernels that are pending
  std::size_t last_ = 0;
  Seconds window_;  ///< kernel time of the pass that shares may still hide behind
  std::size_t last_kernel_ = 0;
  FixedVector<StreamDependency, kMostAwaited> awaited_;
  std::vector<std::size_t> results_;
  std::vector<std::size_t> operands_;
  std::vector<Gather> gathers_;
  std::vector<const PassMessage*> served_;
  std::vector<Queue> streams_;
};

}  // namespace

SharedTime share_of(const PricingContext& context, const PassMessage& message, Seconds window) {
  const auto kind = static_cast<std::size_t>(message.overlap);
  const bool possible = message.overlap != Overlap::TensorParallel ||
                        context.problem.cluster->accelerator.user_buffers;
  const double share = possible ? context.problem.framework->overlap[kind].share : 0.0;
  const auto count = static_cast<double>(message.communication.count);
  const Seconds total = message.time * count;
  const Seconds hidden = std::min(total * share, window);
  const Seconds moving = std::min(hidden, message.transfer * count);
  return {hidden, total - hidden + moving * context.constants.contention[kind]};
}

bool posts_ahead(const PricingContext& context, const BlockParts& parts) {
  const auto ahead = [&](const PassMessage& message) {
    return rule_of(context, message).wait == MessageWait::Use;
  };
  return std::any_of(parts.work.messages.begin(), parts.work.messages.end(), ahead) ||
         std::any_of(parts.kept.passes.begin(), parts.kept.passes.end(), ahead);
}

void build_block_program(const PricingContext& context, const BlockParts& parts, BlockPass pass,
                         BlockProgram& program) {
  ProgramBuilder builder(context, parts, program);
  if (pass == BlockPass::Forward) {
    builder.forward();
  } else {
    if (pass != BlockPass::WeightGradient && parts.recompute != Recompute::None) {
      builder.recompute(parts.repeated, repeats_whole(parts.block, parts.recompute));
    }
    builder.backward(pass);
  }
  builder.finish();
}

}  // namespace plansearch
