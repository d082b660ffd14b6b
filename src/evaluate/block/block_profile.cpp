// SPDX-License-Identifier: Apache-2.0
// Computes: time and exposed communication of one block on one device.
// Source: sum of kernels; communication derived from placement (communication/derive/derive.hpp);
//         hidden share by framework data; a host CPU that issues kernels slower than the device
//         runs them.
// Assumes: what is hidden slows what hides it by the framework's contention factor.
// Units: seconds.
// Checked by: tests/unit/evaluate/block_profile_test.cpp
#include "evaluate/block/block_program.hpp"
#include "evaluate/block/host_copies.hpp"

#include <algorithm>

#include "plan/primitives/recompute.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// The launches of the host CPU in one pass.
struct IssueCount {
  double kernels = 0.0;
  double collectives = 0.0;
  double ring_ranks = 0.0;  ///< ranks of every tensor-parallel collective, summed
};

void count(const Communication& demand, double calls, IssueCount& sum) {
  sum.collectives += calls;
  if (!(demand.axes & kTensorAxes).empty()) sum.ring_ranks += calls * demand.group_size;
}

void book(PassProfile& pass, const PhaseMessage& message, Seconds exposed) {
  pass.exposed[static_cast<std::size_t>(message.purpose)] += exposed;
  if (message.between_nodes) pass.between_nodes += exposed;
}

/// The exposed time of one message in one copy, and at the ends of a run of copies.
struct Exposed {
  const PhaseMessage* message = nullptr;
  Seconds steady;
  Seconds edge;
};

/// Every message waited for at once, in turn: nothing runs beside kernels but what shares hide.
class ClosedForm {
 public:
  ClosedForm(const PricingContext& context, const BlockParts& parts, BlockTimes& profile)
      : context_(context),
        profile_(profile),
        forward_(parts.work.forward.time * parts.pieces),
        backward_(parts.work.backward.time * parts.pieces),
        recompute_(parts.again.time * parts.pieces) {}

  /// The first ones hide first.
  Exposed add(const PhaseMessage& message, double calls, bool again) {
    const bool forward = message.communication.phase == DemandPhase::Forward;
    Seconds none;
    // Messages that one block needs in backward travel beside all of another's, recomputation and
    // all.
    Seconds& beside = !forward && is_posted_ahead(message) ? recompute_ : none;
    Exposed exposed{&message,
                    expose(forward ? profile_.forward : profile_.backward,
                           forward ? forward_ : backward_, beside, message, calls),
                    {}};
    // The weight gradient is a part of backward: what waits for it there waits for it here.
    if (message.communication.phase == DemandPhase::WeightGradient) {
      book(profile_.weight_gradient, message, exposed.steady);
    }
    if (again) exposed.steady += expose(profile_.recompute, recompute_, none, message, calls);
    return exposed;
  }

  void finish() {
    profile_.input_gradient = profile_.backward;
    profile_.input_gradient.add(profile_.weight_gradient, -1.0);
  }

 private:
  Seconds expose(PassProfile& pass, Seconds& window, Seconds& beside, const PhaseMessage& message,
                 double calls) {
    const SharedTime time = share_of(context_, message, calls, window + beside);
    const Seconds here = std::min(time.hidden, window);  // what is hidden cannot hide more
    window -= here;
    beside -= time.hidden - here;
    book(pass, message, time.exposed);
    return time.exposed;
  }

  const PricingContext& context_;
  BlockTimes& profile_;
  Seconds forward_;  ///< kernel time of the pass that nothing hides behind yet
  Seconds backward_;
  Seconds recompute_;
};

/// Messages that kernels run beside: the increment of one more copy of the block, simulated.
class Timelines {
 public:
  Timelines(const PricingContext& context, const BlockParts& parts, BlockTimes& profile)
      : context_(context), parts_(parts), profile_(profile) {}

  void run() {
    PassProfile none;
    simulate(BlockPass::Forward, profile_.forward, none, &profile_.forward_edges);
    simulate(BlockPass::Backward, profile_.backward, profile_.recompute, &profile_.backward_edges);
    profile_.input_gradient = profile_.backward;
    profile_.input_gradient.compute -= profile_.weight_gradient.compute;
    if (!parts_.splits_backward) return;  // the halves are not needed
    profile_.input_gradient.exposed = {};
    profile_.input_gradient.between_nodes = Seconds(0);
    const std::size_t seen = exposed_.size();
    simulate(BlockPass::InputGradient, profile_.input_gradient, none, nullptr);
    simulate(BlockPass::WeightGradient, profile_.weight_gradient, none, nullptr);
    exposed_.resize(seen);  // the parts of backward, once more
  }

  /// A forward beside a whole backward.
  void join() {
    thread_local BlockProgram program;
    thread_local SteadyRun run;
    build_block_program(context_, parts_, BlockPass::Joined, program);
    StreamSimulator simulator(parts_.rates);
    simulator.steady(program.streams, run);
    profile_.joined_length = Seconds(run.steady.length);
    profile_.joined_edges = Seconds(std::max(run.edges.length, 0.0));
  }

  [[nodiscard]] Exposed of(const PhaseMessage& message) const {
    Exposed sum{&message, {}, {}};
    for (const Exposed& part : exposed_) {
      if (part.message != &message) continue;
      sum.steady += part.steady;
      sum.edge += part.edge;
    }
    return sum;
  }

 private:
  void simulate(BlockPass pass, PassProfile& profile, PassProfile& repeated, PassProfile* edges) {
    thread_local BlockProgram program;
    thread_local SteadyRun run;
    build_block_program(context_, parts_, pass, program);
    StreamSimulator simulator(parts_.rates);
    simulator.steady(program.streams, run);
    for (std::size_t i = 0; i < program.issued.size(); ++i) {
      const IssuedWork& posted = program.issued[i];
      if (posted.message == nullptr) continue;
      const Exposed exposed{posted.message, Seconds(run.steady.exposed[i]),
                            Seconds(run.edges.exposed[i])};
      book(posted.repeated ? repeated : profile, *posted.message, exposed.steady);
      if (edges != nullptr) book(*edges, *posted.message, exposed.edge);
      exposed_.push_back(exposed);
    }
  }

  const PricingContext& context_;
  const BlockParts& parts_;
  BlockTimes& profile_;
  std::vector<Exposed> exposed_;
};

class PassAdder {
 public:
  PassAdder(const PricingContext& context, const BlockParts& parts, BlockTimes& profile,
            std::vector<PhaseLine>* lines)
      : context_(context),
        parts_(parts),
        profile_(profile),
        lines_(lines),
        sends_again_(parts.sends_again) {}

  void run() {
    start(parts_.work.forward, forward_, profile_.forward);
    start(parts_.work.backward, backward_, profile_.backward);
    start(parts_.again, recompute_, profile_.recompute);
    start(parts_.work.weight_gradient, weights_, profile_.weight_gradient);
    if (posts_ahead(context_, parts_)) {
      Timelines timelines(context_, parts_, profile_);
      timelines.run();
      for_each_message(parts_, [&](const PhaseMessage& m, Senders senders) {
        write_line(timelines.of(m), calls_of(m, senders));
      });
    } else {
      ClosedForm form(context_, parts_, profile_);
      for_each_message(parts_, [&](const PhaseMessage& m, Senders senders) {
        write_line(form.add(m, calls_of(m, senders), repeated(m)), calls_of(m, senders));
      });
      wait();
      form.finish();
    }
    for_each_message(parts_, [&](const PhaseMessage& m, Senders senders) {
      count_calls(m, calls_of(m, senders));
    });
    finish();
  }

 private:
  void start(const KernelSum& kernels, IssueCount& issued, PassProfile& pass) const {
    pass.compute = kernels.time * parts_.pieces;
    issued.kernels = kernels.launches * parts_.pieces;
  }

  void wait() const {
    const auto add = [&](PassProfile& pass, Seconds time) {
      pass.exposed.front() += time * parts_.pieces;
    };
    const BlockWaits& waits = parts_.waits;
    const Seconds beside = parts_.work.weight_gradient.time + waits.weight_gradient;
    add(profile_.forward, waits.forward);
    add(profile_.backward, waits.backward + std::max(waits.behind - beside, Seconds(0)));
    add(profile_.weight_gradient, waits.weight_gradient);
    add(profile_.recompute, waits.recompute[static_cast<std::size_t>(parts_.recompute)]);
  }

  [[nodiscard]] double calls_of(const PhaseMessage& message, Senders senders) const {
    return message.communication.count * (senders == Senders::EachPiece ? parts_.pieces : 1.0);
  }

  [[nodiscard]] bool repeated(const PhaseMessage& message) const {
    const Communication& demand = message.communication;
    return demand.phase == DemandPhase::Forward && sends_again_ &&
           parts_.repeated[demand.operator_index] > 0.0 &&
           demand.on_recompute == RecomputeGather::Repeated;
  }

  void count_calls(const PhaseMessage& message, double calls) {
    const Communication& demand = message.communication;
    count(demand, calls, demand.phase == DemandPhase::Forward ? forward_ : backward_);
    if (demand.phase == DemandPhase::WeightGradient) weights_.collectives += calls;
    if (repeated(message)) count(demand, calls, recompute_);
  }

  void write_line(const Exposed& exposed, double calls) {
    if (lines_ == nullptr) return;
    const PhaseMessage& message = *exposed.message;
    PricedCommunication line{.communication = message.communication};
    line.bytes = message.bytes;
    line.wire_bytes = message.wire_bytes;
    line.count = (repeated(message) ? 2.0 : 1.0) * calls;
    line.time = message.time;
    line.exposed = exposed.steady;
    lines_->push_back({std::move(line), exposed.edge});
  }

  void finish() {
    wait_for_copies(parts_.copies, profile_);
    profile_.forward.issue = issue_time(forward_);
    profile_.backward.issue = issue_time(backward_);
    profile_.recompute.issue = issue_time(recompute_);
    profile_.weight_gradient.issue = issue_time(weights_);
    profile_.input_gradient.issue = profile_.backward.issue - profile_.weight_gradient.issue;
    profile_.forward_length = profile_.forward.length();
    profile_.backward_length = joint_length(profile_.backward, profile_.recompute);
    profile_.input_length = joint_length(profile_.input_gradient, profile_.recompute);
    profile_.weight_length = profile_.weight_gradient.length();
    if (!parts_.joins) return;
    join();
    const Seconds host = issue_time(forward_) + issue_time(backward_) + issue_time(recompute_);
    profile_.joined_length =
        std::max({profile_.joined_length, host, parts_.copies.forward, parts_.copies.backward});
  }

  [[nodiscard]] bool joins_messages() const {
    const auto joined = [&](const PhaseMessage& message) {
      return rule_of(context_, message.overlap).joined;
    };
    return parts_.pieces == 1 &&
           std::any_of(parts_.work.messages.begin(), parts_.work.messages.end(), joined);
  }

  /// Blocks without such messages run one after the other.
  void join() {
    if (parts_.work.messages.empty() && parts_.waits.exchange > Seconds(0)) return join_least();
    if (joins_messages()) {
      Timelines(context_, parts_, profile_).join();
    } else {
      profile_.joined_length = profile_.forward_length + profile_.backward_length;
    }
  }

  /// The times with messages by shares: kernels follow each other, and so do exchanges.
  void join_least() {
    const Seconds kernels =
        profile_.forward.compute + profile_.backward.compute + profile_.recompute.compute;
    profile_.joined_length = std::max(kernels + parts_.waits.beside * parts_.pieces,
                                      parts_.waits.exchange * parts_.pieces);
  }

  [[nodiscard]] Seconds issue_time(const IssueCount& sum) const {
    return context_.constants.host_launch * (sum.kernels + sum.collectives) +
           parts_.skew * sum.ring_ranks;
  }

  const PricingContext& context_;
  const BlockParts& parts_;
  BlockTimes& profile_;
  std::vector<PhaseLine>* lines_;
  bool sends_again_;
  IssueCount forward_;
  IssueCount backward_;
  IssueCount recompute_;
  IssueCount weights_;  ///< part of backward_
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

void sum_passes(const PricingContext& context, const BlockParts& parts, BlockTimes& profile,
                std::vector<PhaseLine>* lines) {
  PassAdder(context, parts, profile, lines).run();
}

bool some_order_splits(const Framework& framework) {
  const std::vector<ScheduleId> orders = schedules_of(framework);
  return std::any_of(orders.begin(), orders.end(), splits_backward);
}

}  // namespace plansearch
