// SPDX-License-Identifier: Apache-2.0
// Computes: the nodes of every stage of a plan in one step.
// Source: the program of the plan (priced_program.hpp) for the order of passes and the messages
//         between stages, the programs of blocks for what a pass runs (pass_nodes.hpp), and the
//         messages of the step that step_collectives.cpp joins.
// Assumes: gradients that a framework reduces beside the last backward go copy by copy, as soon as
//          the copy has run; parameters that it gathers beside the first forward are waited for by
//          their copy; others by all of the step. Kernels take what they take alone.
// Units: seconds, bytes.
// Checked by: tests/unit/exchange/step_nodes_test.cpp
#include "exchange/traces/step_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "evaluate/block/phase_message.hpp"
#include "evaluate/step/group_pass.hpp"
#include "evaluate/step/plan_views.hpp"
#include "evaluate/step/priced_program.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

void check_shape(const PricingInput& view) {
  const Assignment& held = view.assignment();
  const auto refuse = [](const char* what) {
    throw InputError({}, fmt::format("{} has no nodes rank by rank", what),
                     "a plan of stages that hand on to the next one");
  };
  if (view.order.window) refuse("an order that is found for the plan");
  if (!held.gangs.empty()) refuse("a plan with blocks on all devices");
  if (!held.direct.empty()) refuse("a tensor that passes over stages");
}

/// Everything of one stage, in the order of its program.
class StageWriter {
 public:
  StageWriter(const ProfileMaker& profiles, const PricingInput& view, const PricedProgram& program,
              int stage, NodeNames& names, std::vector<StepNode>& nodes)
      : view_(view),
        program_(program),
        stage_(stage),
        names_(names),
        passes_(profiles, view, names, nodes) {}

  void gather_parameters() {
    for_each_step_message([&](const Place& place, const StepMessage& message, int) {
      if (message.communication.subject != Subject::Parameter) return;
      const std::uint32_t id = passes_.add(node_of(place, message, {}));
      gathers_[place.group].resize(copies_of(place.group));
      if (runs_beside(message)) {
        gathers_[place.group][place.copy].push_back(id);
      } else {
        waits_.push_back(id);
      }
    });
  }

  void run() {
    for (const Queue& queue : program_.program.queues) {
      if (queue.device != stage_ || queue.stream != StreamKind::Compute) continue;
      for (const InstructionId id : queue.order) instruction(id);
    }
  }

  void end_step(std::vector<std::vector<int>>& holders) {
    NodeIds all = waits_;
    append_to(all, unread_);
    NodeIds reductions;
    NodeIds updates;
    for_each_step_message([&](const Place& place, const StepMessage& message, int) {
      if (message.communication.subject != Subject::Gradient) return;
      const NodeIds after =
          runs_beside(message) ? NodeIds{ends_[place.group].copies[place.copy]} : waits_;
      reductions.push_back(passes_.add(node_of(place, message, after)));
    });
    const NodeIds& reduced = reductions.empty() ? waits_ : reductions;
    for_each_step_message([&](const Place& place, const StepMessage& message, int) {
      if (message.communication.subject != Subject::Update) return;
      updates.push_back(passes_.add(node_of(place, message, reduced)));
    });
    append_to(all, reductions);
    append_to(all, updates);
    append_to(all, shared_reductions(all, holders));
    StepNode update;
    update.name = names_.of("optimizer");
    update.time = optimizer_;
    update.after = std::move(all);
    passes_.add(std::move(update));
  }

 private:
  struct Place {
    std::size_t group = 0;
    std::size_t copy = 0;
    std::size_t block = 0;
  };

  [[nodiscard]] const GroupContent& content_of(std::size_t group) const {
    return view_.content(view_.assignment().content_at(group));
  }
  [[nodiscard]] std::size_t copies_of(std::size_t group) const {
    std::size_t copies = 0;
    for (const BlockRun& run : content_of(group).blocks) {
      copies += static_cast<std::size_t>(run.count);
    }
    return copies;
  }

  /// Calls visit for every copy on this stage; once for a parameter that several blocks use.
  template <typename Visit>
  void for_each_step_message(Visit visit) const {
    std::set<std::string_view> known;
    for (std::size_t k = 0; k < view_.assignment().groups.size(); ++k) {
      if (view_.assignment().groups[k].position != stage_) continue;
      std::size_t first = 0;
      for_each_run(view_, content_of(k),
                   [&](const ClassProfile& profile, std::size_t b, int count) {
                     std::set<std::string_view> own;
                     for (const StepMessage& message : profile.blocks[b].steps) {
                       if (!message.shared_key.empty()) {
                         if (known.contains(message.shared_key)) continue;
                         own.insert(message.shared_key);
                       }
                       for (int copy = 0; copy < count; ++copy) {
                         visit(Place{k, first + static_cast<std::size_t>(copy), b}, message, copy);
                       }
                     }
                     known.merge(own);
                     first += static_cast<std::size_t>(count);
                   });
    }
  }

  [[nodiscard]] bool runs_beside(const StepMessage& message) const {
    const auto overlap = static_cast<std::size_t>(overlap_class(message.communication));
    return view_.problem.framework->overlap[overlap].share > 0.0;
  }

  [[nodiscard]] StepNode node_of(const Place& place, const StepMessage& message,
                                 NodeIds after) const {
    const Communication& c = message.communication;
    const Block& block = view_.problem.network->blocks[place.block];
    StepNode node;
    node.kind = StepNode::Kind::Collective;
    node.how = c.kind;
    node.axes = c.axes;
    node.name =
        names_.of(fmt::format("{} step: {} {}", block.name, to_text(c.kind),
                              message_name(block, c, view_.problem.framework->sharding.unit)));
    const DeviceMesh& mesh = *view_.transform_at(stage_).mesh;
    node.bytes = message.bytes(mesh) * static_cast<double>(c.count);
    node.time = price_call(view_, c.kind, node.bytes, process_group(mesh, c.axes)).cost.time;
    node.after = std::move(after);
    return node;
  }

  void instruction(InstructionId id) {
    const Instruction& what = program_.program.instructions[id];
    switch (what.opcode) {
      case Opcode::Run:
        return run_pass(id, what);
      case Opcode::Send:
      case Opcode::WaitSent:  // the device waits until it has left
        waits_.push_back(sent_.at(what.subject));
        return;
      case Opcode::Collective:  // some lists send their last result behind the reduction
        return send(id, waits_);
      case Opcode::Apply: {
        const TaskId task = program_.graph.task_of[id];
        optimizer_ = to_seconds(program_.times.end(task) - program_.times.start(task));
        return;
      }
      default:
        return;
    }
  }

  [[nodiscard]] BlockPass pass_of(Phase phase) const {
    if (phase == Phase::Forward) return BlockPass::Forward;
    if (phase == Phase::WeightGradient) return BlockPass::WeightGradient;
    return splits_backward(view_.order.schedule) ? BlockPass::InputGradient : BlockPass::Backward;
  }

  void run_pass(InstructionId id, const Instruction& what) {
    const auto group = static_cast<std::size_t>(what.key.group);
    PassRequest request{pass_of(what.key.phase), content_of(group), what.key.micro_batch, waits_};
    receive(id, request.before);
    const bool forward = what.key.phase == Phase::Forward;
    const auto gathers = gathers_.find(group);
    if (forward && gathers != gathers_.end()) request.gathers = &gathers->second;
    PassEnd end = passes_.append(request);
    gathers_.erase(group);
    append_to(unread_, end.unread);
    send(id, end.last);
    // A backward that runs beside this forward begins when it does.
    const bool beside = what.duration == overlapped_row(group) && view_.joins();
    if (beside) {
      beside_ = end.last;
    } else {
      waits_ = end.last;
      append_to(waits_, beside_);
      beside_.clear();
    }
    if (!forward) ends_[group] = std::move(end);
  }

  void receive(InstructionId run, NodeIds& before) {
    for (const MessageId id : messages_to(run)) {
      before.push_back(passes_.add(node_of(id, StepNode::Kind::Receive, received_)));
      received_ = {before.back()};
    }
  }

  void send(InstructionId run, const NodeIds& after) {
    for (const MessageId id : messages_from(run)) {
      sent_[id] = passes_.add(node_of(id, StepNode::Kind::Send, after));
    }
  }

  [[nodiscard]] StepNode node_of(MessageId id, StepNode::Kind kind, NodeIds after) const {
    const Message& message = program_.program.messages[id];
    const Channel& channel = program_.program.channels[message.channel];
    const bool forward = message.tensor == TensorKind::Activation;
    const auto group = static_cast<std::size_t>(message.key.group);
    const BoundaryTransfers transfers = boundary_transfers(view_, forward ? group : group - 1);
    const BoundaryTransfer& transfer = forward ? transfers.activation : transfers.gradient;
    StepNode node;
    node.kind = kind;
    node.name = names_.of(forward ? "stage boundary" : "stage boundary, gradient");
    node.number = id;
    node.stage = kind == StepNode::Kind::Send ? channel.destination : channel.source;
    node.micro_batch = message.key.micro_batch;
    node.time = transfer.time;
    node.bytes = transfer.bytes;
    node.after = std::move(after);
    return node;
  }

  /// Messages by the run that makes or reads them.
  using ByRun = std::map<InstructionId, std::vector<MessageId>>;
  [[nodiscard]] std::vector<MessageId> messages_to(InstructionId run) {
    if (consumed_.empty() && produced_.empty()) index_messages();
    const auto found = consumed_.find(run);
    return found == consumed_.end() ? std::vector<MessageId>{} : found->second;
  }
  [[nodiscard]] std::vector<MessageId> messages_from(InstructionId run) {
    const auto found = produced_.find(run);
    return found == produced_.end() ? std::vector<MessageId>{} : found->second;
  }
  void index_messages() {
    const auto& messages = program_.program.messages;
    for (MessageId id = 0; id < messages.size(); ++id) {
      const Channel& channel = program_.program.channels[messages[id].channel];
      if (channel.destination == stage_) consumed_[messages[id].consumer].push_back(id);
      if (channel.source == stage_) produced_[messages[id].producer].push_back(id);
    }
  }

  /// Gradients that several stages sum, once all else is there.
  NodeIds shared_reductions(const NodeIds& all, std::vector<std::vector<int>>& holders) {
    NodeIds ids;
    const auto& messages = view_.invariants.messages;
    const auto kind = static_cast<std::size_t>(view_.kind_of(stage_));
    for (const PhaseMessage& message : messages[kind].last) {
      std::vector<int> stages = holders_of(message);
      const auto known = std::ranges::find(holders, stages);
      StepNode node;
      node.kind = StepNode::Kind::Collective;
      node.how = message.communication.kind;
      node.name = names_.of("step: gradient of shared parameters");
      node.number = static_cast<std::uint32_t>(known - holders.begin());
      node.time = message.time;
      node.bytes = message.bytes;
      node.after = all;
      if (known == holders.end()) holders.push_back(std::move(stages));
      ids.push_back(passes_.add(std::move(node)));
    }
    return ids;
  }

  /// Copies of the network sum whole stages, other messages the stages that have them.
  [[nodiscard]] std::vector<int> holders_of(const PhaseMessage& message) const {
    const Assignment& held = view_.assignment();
    std::vector<int> stages;
    if (message.communication.index == kWholeBlock) {
      const std::size_t length = held.groups_per_replica();
      std::size_t own = 0;
      while (held.groups[own].position != stage_) ++own;
      for (std::size_t k = own % length; k < held.groups.size(); k += length) {
        stages.push_back(held.groups[k].position);
      }
    } else {
      for (int p = 0; p < held.stages(); ++p) {
        const auto& last =
            view_.invariants.messages[static_cast<std::size_t>(view_.kind_of(p))].last;
        const bool has = std::ranges::any_of(last, [&](const PhaseMessage& other) {
          return other.communication == message.communication;
        });
        if (has) stages.push_back(p);
      }
    }
    std::ranges::sort(stages);
    return stages;
  }

  const PricingInput& view_;
  const PricedProgram& program_;
  int stage_;
  NodeNames& names_;
  PassNodes passes_;
  std::map<std::size_t, std::vector<NodeIds>> gathers_;  ///< by group and copy, until it has run
  std::map<std::size_t, PassEnd> ends_;                  ///< of the last backward, by group
  NodeIds waits_;                                        ///< before the next pass
  NodeIds beside_;  ///< the forward beside which the next pass runs
  NodeIds unread_;
  NodeIds received_;
  std::map<MessageId, std::uint32_t> sent_;
  ByRun consumed_;
  ByRun produced_;
  Seconds optimizer_;
};

}  // namespace

StepNodes step_nodes(const PlanEvaluator& evaluator, const ParallelPlan& plan) {
  const auto workspace = PlanEvaluator::make_workspace();
  const PlanViews& views = evaluator.views();
  return views.with_view(plan, [&](const PricingInput& view) {
    check_shape(view);
    const PricedProgram program = priced_program(view, {}, *workspace);
    StepNodes step;
    step.stages.resize(static_cast<std::size_t>(view.assignment().stages()));
    NodeNames names(step.names);
    for (std::size_t s = 0; s < step.stages.size(); ++s) {
      StageWriter writer(*views.profiles, view, program, static_cast<int>(s), names,
                         step.stages[s]);
      writer.gather_parameters();
      writer.run();
      writer.end_step(step.holders);
    }
    return step;
  });
}

}  // namespace plansearch
