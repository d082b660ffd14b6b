// SPDX-License-Identifier: Apache-2.0
// Computes: the order in which one block issues kernels and messages, and what waits for what.
// Source: framework data (OverlapRule): AxoNN's overlap of all-reduce, reduce-scatter and
//         all-gather (axonn/intra_layer/fully_connected.py), FSDP's prefetch (PyTorch FSDP, VLDB
//         2023), Megatron's asynchronous reduction of input gradients; pieces in turns:
//         DeepSpeed-Domino (deepspeed/runtime/domino/transformer.py: inter_layer_overlap_forward);
//         weight gradients that run later: NVIDIA/Megatron-LM@d98e8a64 (2026-08-22) models/common,
//         TransformerLayerSchedulePlan.run, TransformerLayerNode.backward_dw: no message waits.
// Assumes: of a pair the forward has the first turn (docs/mixtures.md); an operator forms its input
//          gradient before its weight gradient; messages of one set of axes and one direction of
//          parameters queue behind each other; what delayed weight gradients read is not counted.
// Units: seconds.
// Checked by: tests/unit/evaluate/block_program_test.cpp
#include "evaluate/block/block_program.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "evaluate/block/program_parts.hpp"
#include "plan/primitives/recompute.hpp"
#include "plansearch/fixed_vector.hpp"

namespace plansearch {
namespace {

using block_program::Gather;
using block_program::HidingRoom;
using block_program::list_steps;
using block_program::MessageQueue;
using block_program::Scratch;
using block_program::Step;
using block_program::Turn;

Scratch& scratch() {
  thread_local Scratch buffers;
  return buffers;
}

class ProgramBuilder {
 public:
  ProgramBuilder(const PricingContext& context, const BlockParts& parts, BlockPass pass,
                 BlockProgram& program)
      : context_(context),
        parts_(parts),
        pass_(pass),
        sends_again_(parts.sends_again),
        program_(program) {
    list_.assign(operators(), [&](auto visit) { for_each_message(parts, visit); });
    served_.clear();
    steps_.clear();
    list_steps(pass_, parts.recompute, operators(), steps_);
  }

  /// Blocks follow each other: a piece goes on to the next block where it would wait at the end of
  /// its turn, so that what comes after the last wait opens the next copy.
  void build() {
    if (pass_ == BlockPass::Joined) return run_pair();
    const std::size_t last_turn = run();
    if (parts_.pieces == 1 || last_turn == 0) return;
    std::rotate(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(last_turn),
                steps_.end());
    run();
  }

 private:
  [[nodiscard]] std::size_t operators() const { return parts_.work.operators.size(); }
  /// Beside another micro-batch the other's kernels run on.
  [[nodiscard]] const OverlapRule& rule(const PhaseMessage& message) const {
    static const OverlapRule kBeside{0.0, MessageWait::Use, std::nullopt, 1, true};
    const OverlapRule& own = rule_of(context_, message.overlap);
    return pass_ == BlockPass::Joined && own.joined ? kBeside : own;
  }
  [[nodiscard]] Turn& turn() { return turns_[turn_]; }
  [[nodiscard]] Seconds& window_of(Step::Part part) {
    return room_.kernels[static_cast<std::size_t>(part)];
  }

  /// Every piece runs until it would have to wait; then it is the next one's turn. Returns the
  /// step at which the last turns begin.
  std::size_t run() {
    start();
    std::size_t first = 0;
    for (std::size_t next = 0;; first = next) {
      for (turn_ = 0; turn_ < turns_.size(); ++turn_) {
        enter();
        resume();
        next = first;
        do {
          take(steps_[next++]);
        } while (next < steps_.size() && turn().held.empty());
      }
      if (next == steps_.size()) break;
    }
    finish();
    return first;
  }

  /// Weight gradients that are left at the end, the block before has left as well.
  void run_pair() {
    delayed_.clear();
    run_joined();
    if (!delayed_.empty()) run_joined();
  }

  /// A forward and a backward in turns: each goes on until it would wait for a message that the
  /// other one's kernels hide.
  void run_joined() {
    start();
    const std::size_t forwards = 2 * operators();
    std::array<std::size_t, 2> next{0, forwards};
    const std::array<std::size_t, 2> ends{forwards, steps_.size()};
    while (next[0] < ends[0] || next[1] < ends[1]) {
      for (turn_ = 0; turn_ < next.size(); ++turn_) {
        if (next[turn_] == ends[turn_]) continue;
        enter();
        resume();
        while (next[turn_] < ends[turn_] && turn().held.empty()) take(steps_[next[turn_]++]);
        if (turn_ == 1 && !turn().held.empty()) run_delayed();
      }
    }
    finish();
  }

  /// Weight gradients that have not run yet, while the exchange that was posted is on its way.
  void run_delayed() {
    part_ = Step::Part::Backward;
    for (const std::size_t op : delayed_) weight_gradient(op);
    delayed_.clear();
  }

  void start() {
    program_.streams.instructions.clear();
    program_.issued.clear();
    gathers_.clear();
    streams_.clear();
    turns_.resize(pass_ == BlockPass::Joined ? 2 : static_cast<std::size_t>(parts_.pieces));
    for (Turn& turn : turns_) turn.clear();
    turns_.front().entry = mark();  // where a copy begins
    const BlockWork& work = parts_.work;
    window_of(Step::Part::Forward) = work.forward.time;
    window_of(Step::Part::Recompute) =
        work.repeated[static_cast<std::size_t>(parts_.recompute)].time;
    Seconds& backward = window_of(Step::Part::Backward);
    if (pass_ == BlockPass::Backward || pass_ == BlockPass::Joined) backward = work.backward.time;
    if (pass_ == BlockPass::InputGradient) {
      backward = work.backward.time - work.weight_gradient.time;
    }
    if (pass_ == BlockPass::WeightGradient) backward = work.weight_gradient.time;
    for (Seconds& window : room_.kernels) window *= parts_.pieces;
    leave_cards_idle();
  }

  /// While kernels wait for an exchange inside a node, its cards carry what was posted ahead.
  void leave_cards_idle() {
    room_.idle_cards = {};
    for (const PhaseMessage& message : parts_.work.messages) {
      const Communication& demand = message.communication;
      const bool waits = rule(message).wait == MessageWait::AtOnce && !is_posted_ahead(message);
      if (!waits || message.between_nodes) continue;
      const Seconds time =
          message.time * (demand.count * parts_.pieces * (1.0 - hidden_share(context_, message)));
      const bool forward = demand.phase == DemandPhase::Forward;
      room_.idle(forward ? Step::Part::Forward : Step::Part::Backward) += time;
      const bool repeated = forward && sends_again_ &&
                            parts_.repeated[demand.operator_index] > 0.0 &&
                            demand.on_recompute == RecomputeGather::Repeated;
      if (repeated) room_.idle(Step::Part::Recompute) += time;
    }
  }

  void take(const Step& step) {
    part_ = step.part;
    switch (step.part) {
      case Step::Part::Forward:
        return forward(step.op, step.side);
      case Step::Part::Recompute:
        return recompute(step.op, step.side);
      case Step::Part::Backward:
        return backward(step.op, step.side);
    }
  }

  void forward(std::size_t op, Side side) {
    if (side == Side::After) {
      steps(op, DemandPhase::Forward, parts_.work.operators[op].forward, false);
    }
    post_at(DemandPhase::Forward, op, side);
  }

  void recompute(std::size_t op, Side side) {
    const Seconds again = parts_.work.operators[op].forward * parts_.repeated[op];
    const bool sends = sends_again_ && parts_.repeated[op] > 0.0;
    if (side == Side::After && sends) steps(op, DemandPhase::Forward, again, true);
    if (side == Side::After && !sends) kernel(op, again);
    if (sends) repeat_messages(op, side);
  }

  void backward(std::size_t op, Side side) {
    const bool inputs = pass_ != BlockPass::WeightGradient;
    const bool weights = pass_ != BlockPass::InputGradient;
    const OperatorTime& time = parts_.work.operators[op];
    if (side == Side::Before && weights) post_early(op);
    if (side == Side::After && inputs) {
      steps(op, DemandPhase::InputGradient, time.backward - time.weight_gradient, false);
    }
    if (inputs) post_at(DemandPhase::InputGradient, op, side);
    if (side == Side::Before) return;
    const bool later =
        pass_ == BlockPass::Joined && context_.problem.framework->delays_weight_gradients;
    if (weights && later) delayed_.push_back(op);
    if (weights && !later) weight_gradient(op);
    hold_results();
  }

  void weight_gradient(std::size_t op) {
    const Seconds time = parts_.work.operators[op].weight_gradient;
    for (const std::size_t posted : turn().operands) await(posted);
    turn().operands.clear();
    post_blocking_operands(op);
    steps(op, DemandPhase::WeightGradient, time, false);
    post_at(DemandPhase::WeightGradient, op, Side::After);
  }

  void finish() {
    for (turn_ = 0; turn_ < turns_.size(); ++turn_) {
      if (turns_.size() == 1 || turn().held.size() > kMostAwaited) resume();
    }
    flush();
    for (const Turn& turn : turns_) carry_over(turn);
    for (const Gather& gather : gathers_) link(gather);
    program_.streams.streams = 1 + static_cast<int>(streams_.size());
  }

  void enter() {
    if (turn().entry) return;
    flush();
    turn().entry = mark();
  }

  /// The piece goes on when its messages have come.
  void resume() {
    for (const std::size_t posted : turn().held) await(posted);
    turn().held.clear();
  }

  /// The next block waits for all that a piece still waits for at the end of this one.
  void carry_over(const Turn& turn) {
    for (const std::size_t posted : turn.held) {
      program_.streams.instructions[*turn.entry].after.push_back(
          {static_cast<std::uint16_t>(posted), 1});
    }
  }

  void hold_results() {
    turn().held.insert(turn().held.end(), turn().results.begin(), turn().results.end());
    turn().results.clear();
  }

  /// Tiles that travel for an operator in steps do so while it works on others.
  [[nodiscard]] bool runs_under(const PhaseMessage& message) const {
    return message.communication.steps > 1 && rule(message).wait_of_steps() == MessageWait::Use;
  }

  /// Kernels of an operator and the tiles that travel under them. Steps are alike: as many of them
  /// as there are moves in a row run beside the moves, then all tiles have come.
  void steps(std::size_t op, DemandPhase phase, Seconds time, bool repeated) {
    if (list_.travels()) return travel(op, phase, time, repeated);
    kernel(op, time);
  }

  void travel(std::size_t op, DemandPhase phase, Seconds time, bool repeated) {
    FixedVector<std::size_t, kMostTravelling> posted;
    Travelling travelling;
    for (std::size_t part = op; part < end_of_launch(parts_.block, op); ++part) {
      list_.at(phase, part, Side::Before, [&](const ListedMessage& listed) {
        if (!runs_under(*listed.message)) return;
        posted.push_back(post(*listed.message, repeated));
        travelling.push_back(&listed.message->communication);
      });
    }
    if (posted.empty()) return kernel(op, time);
    const double beside = std::min(1.0, moves_in_a_row(travelling) / travelling[0]->steps);
    kernel(op, time * beside);
    for (const std::size_t move : posted) await(move);
    kernel(op, time * (1.0 - beside));
  }

  void kernel(std::size_t op, Seconds time) {
    if (pending_ == Seconds(0)) first_ = op;
    if (time > Seconds(0)) last_ = op;
    pending_ += time;
  }

  /// Ends the kernel that has been added up so far; the next one waits for what is in `awaited_`.
  std::size_t flush() { return pending_ == Seconds(0) && awaited_.empty() ? last_kernel_ : mark(); }

  /// The same, with or without time.
  std::size_t mark() {
    auto& instructions = program_.streams.instructions;
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

  /// Parameters are there from the first piece on; gradients are whole after the last.
  [[nodiscard]] bool is_due(const ListedMessage& listed, Side side) const {
    return !listed.once || pass_ == BlockPass::Joined ||
           turn_ == (side == Side::Before ? 0 : turns_.size() - 1);
  }

  void post_at(DemandPhase phase, std::size_t op, Side side) {
    list_.at(phase, op, side, [&](const ListedMessage& listed) {
      if (runs_under(*listed.message)) return;
      if (is_due(listed, side) && !is_served(*listed.message)) {
        place(*listed.message, phase, side, false);
      }
    });
  }

  /// Messages that a recomputation sends again; the backward pass brings the others early.
  void repeat_messages(std::size_t op, Side side) {
    list_.at(DemandPhase::Forward, op, side, [&](const ListedMessage& listed) {
      if (!is_due(listed, side) || runs_under(*listed.message)) return;
      const PhaseMessage& message = *listed.message;
      if (message.communication.on_recompute == RecomputeGather::Repeated) {
        place(message, DemandPhase::Forward, side, true);
      } else if (const PhaseMessage* early = list_.backward_gather(message)) {
        place(*early, DemandPhase::InputGradient, Side::Before, false);
        served_.push_back(early);
      }
    });
  }

  [[nodiscard]] bool is_served(const PhaseMessage& message) const {
    return std::find(served_.begin(), served_.end(), &message) != served_.end();
  }

  /// Messages of a piece follow each other; gradients of parameters go as soon as they are there.
  void place(const PhaseMessage& message, DemandPhase phase, Side side, bool repeated) {
    const OverlapRule& own = rule(message);
    const bool parameter = message.communication.subject == Subject::Parameter;
    if (phase != DemandPhase::WeightGradient) resume();
    const bool alone = pass_ == BlockPass::Joined && !own.joined && !parameter &&
                       message.communication.subject != Subject::Gradient;
    if (own.wait == MessageWait::AtOnce || alone) return await(post_rest(message, repeated));
    if (parameter && side == Side::Before) return gather(message, own, repeated);
    if (phase == DemandPhase::WeightGradient) {
      post(message, repeated);  // read when the pass is over
    } else if (phase == DemandPhase::InputGradient && side == Side::After) {
      turn().results.push_back(post(message, repeated));
    } else {  // only other pieces run beside it
      turn().held.push_back(turns_.size() == 1 ? post_rest(message, repeated)
                                               : post(message, repeated));
    }
  }

  /// Operands of a weight gradient that nothing else waits for: posted when the operator begins.
  void post_early(std::size_t op) {
    list_.at(DemandPhase::WeightGradient, op, Side::Before, [&](const ListedMessage& listed) {
      if (rule(*listed.message).wait == MessageWait::AtOnce) return;
      if (runs_under(*listed.message)) return;
      turn().operands.push_back(post(*listed.message, false));
    });
  }

  void post_blocking_operands(std::size_t op) {
    list_.at(DemandPhase::WeightGradient, op, Side::Before, [&](const ListedMessage& listed) {
      if (rule(*listed.message).wait == MessageWait::Use) return;
      if (runs_under(*listed.message)) return;
      await(post_rest(*listed.message, false));
    });
  }

  void gather(const PhaseMessage& message, const OverlapRule& rule, bool repeated) {
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

  /// The part of a message that the kernels around it leave exposed, by its share.
  std::size_t post_rest(const PhaseMessage& message, bool repeated) {
    const HidingRoom::Windows windows = room_.around(part_, message);
    const double count = message.communication.count;
    const SharedTime time = share_of(context_, message, count, HidingRoom::sum(windows));
    HidingRoom::fill(windows, time.hidden);
    const Seconds moving = std::min(time.exposed, message.transfer * count);
    const std::size_t before = flush();
    const std::size_t posted = append(message, repeated, time.exposed, moving);
    after(posted, before);
    return posted;
  }

  std::size_t post(const PhaseMessage& message, bool repeated) {
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

  std::size_t append(const PhaseMessage& message, bool repeated, Seconds time, Seconds moving) {
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
    const MessageQueue queue{communication.axes, communication.subject == Subject::Parameter};
    const auto known = std::find(streams_.begin(), streams_.end(), queue);
    const auto index = static_cast<std::size_t>(known - streams_.begin());
    if (known == streams_.end()) streams_.push_back(queue);
    return static_cast<std::uint8_t>(1 + index);
  }

  static constexpr std::size_t kMostAwaited = 4;

  const PricingContext& context_;
  const BlockParts& parts_;
  BlockPass pass_;
  bool sends_again_;  ///< operators that run again exchange their messages again
  BlockProgram& program_;
  Scratch& scratch_ = scratch();
  MessageList& list_ = scratch_.list;
  std::vector<Step>& steps_ = scratch_.steps;
  Seconds pending_;
  std::size_t first_ = 0;  ///< operator of the kernels that are pending
  std::size_t last_ = 0;
  HidingRoom room_;
  Step::Part part_ = Step::Part::Forward;
  std::size_t last_kernel_ = 0;
  FixedVector<StreamDependency, kMostAwaited> awaited_;
  std::vector<Turn>& turns_ = scratch_.turns;
  std::size_t turn_ = 0;
  std::vector<Gather>& gathers_ = scratch_.gathers;
  std::vector<const PhaseMessage*>& served_ = scratch_.served;
  std::vector<MessageQueue>& streams_ = scratch_.streams;
  std::vector<std::size_t>& delayed_ = scratch_.delayed;
};

}  // namespace

bool posts_ahead(const PricingContext& context, const BlockParts& parts) {
  const auto ahead = [&](const PhaseMessage& message) {
    const OverlapRule& rule = rule_of(context, message.overlap);
    const bool steps = message.communication.steps > 1;
    return (steps ? rule.wait_of_steps() : rule.wait) == MessageWait::Use;
  };
  return std::any_of(parts.work.messages.begin(), parts.work.messages.end(), ahead) ||
         std::any_of(parts.kept.passes.begin(), parts.kept.passes.end(), ahead);
}

void build_block_program(const PricingContext& context, const BlockParts& parts, BlockPass pass,
                         BlockProgram& program) {
  ProgramBuilder(context, parts, pass, program).build();
}

}  // namespace plansearch
