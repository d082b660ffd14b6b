// SPDX-License-Identifier: Apache-2.0
// Computes: kernels and messages of a pass as nodes, copy after copy of every block.
// Source: the blocks' own programs (block_program.hpp): what is posted when, and what waits for it.
// Assumes: a wait for the host stands behind the kernels of its copy; a message that is due before
//          the first copy of a run is posted when the run begins.
// Units: seconds, bytes.
// Checked by: tests/unit/exchange/step_nodes_test.cpp
#include "exchange/traces/step_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluate/block/phase_message.hpp"

namespace plansearch {
namespace {

std::string_view to_text(BlockPass pass) {
  switch (pass) {
    case BlockPass::Forward:
      return "forward";
    case BlockPass::InputGradient:
      return "input gradient";
    case BlockPass::WeightGradient:
      return "weight gradient";
    case BlockPass::Backward:
    case BlockPass::Joined:
      break;
  }
  return "backward";
}

/// Further time of a copy because its host is late.
Seconds host_wait(const BlockProfile& block, BlockPass pass) {
  const auto more = [](Seconds length, Seconds device) {
    return length > device ? length - device : Seconds(0);
  };
  switch (pass) {
    case BlockPass::Forward:
      return more(block.forward_length, block.forward.device());
    case BlockPass::InputGradient:
      return more(block.input_length, block.input_gradient.device() + block.recompute.device());
    case BlockPass::WeightGradient:
      return more(block.weight_length, block.weight_gradient.device());
    case BlockPass::Backward:
    case BlockPass::Joined:
      break;
  }
  return more(block.backward_length, block.backward.device() + block.recompute.device());
}

}  // namespace

std::uint32_t PassNodes::add(StepNode node) {
  std::ranges::sort(node.after);
  node.after.erase(std::unique(node.after.begin(), node.after.end()), node.after.end());
  nodes_.push_back(std::move(node));
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

PassEnd PassNodes::append(const PassRequest& request) {
  std::vector<Run> runs;
  std::size_t copies = 0;
  for_each_run(view_, request.content, [&](const ClassProfile& profile, std::size_t b, int count) {
    runs.push_back({&profile, b, count, copies});
    copies += static_cast<std::size_t>(count);
  });
  if (request.pass != BlockPass::Forward) std::ranges::reverse(runs);
  PassEnd end;
  end.copies.resize(copies);
  kernel_.reset();
  asked_.clear();
  unread_.clear();
  waits_ = before_ = request.before;
  for (const Run& run : runs) append_run(request, run, end);
  if (kernel_) end.last.push_back(*kernel_);
  append_to(end.last, waits_);
  append_to(end.unread, unread_);
  waits_.clear();
  return end;
}

void PassNodes::append_run(const PassRequest& request, const Run& run, PassEnd& end) {
  const BlockProgram& program = program_of(run, request.pass);
  const auto& instructions = program.streams.instructions;
  const Seconds late = host_wait(run.profile->blocks[run.block], request.pass);
  entry_ = kernel_;
  std::vector<NodeIds> ids;
  for (int copy = 0; copy < run.copies; ++copy) {
    const bool backward = request.pass != BlockPass::Forward;
    const std::size_t place =
        run.first + static_cast<std::size_t>(backward ? run.copies - 1 - copy : copy);
    ids.emplace_back();
    if (request.gathers != nullptr) append_to(waits_, (*request.gathers)[place]);
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const bool message = program.issued[i].message != nullptr;
      NodeIds after = waits_of(instructions[i], ids, message);
      ids.back().push_back(append_one(request, run, program, i, std::move(after)));
    }
    if (kernel_) nodes_[*kernel_].time += late;
    end.copies[place] = kernel_.value_or(0);
  }
  carry(run, program, ids, end);
}

NodeIds PassNodes::waits_of(const StreamInstruction& instruction, const std::vector<NodeIds>& ids,
                            bool message) const {
  NodeIds after;
  for (const StreamDependency& dependency : instruction.after) {
    if (ids.size() > dependency.copies_back) {
      const std::uint32_t id = ids[ids.size() - 1 - dependency.copies_back][dependency.index];
      if (!is_unread(id)) after.push_back(id);
    } else if (message) {
      if (entry_) after.push_back(*entry_);
      if (!entry_) append_to(after, waits_);
    }
  }
  return after;
}

std::uint32_t PassNodes::append_one(const PassRequest& request, const Run& run,
                                    const BlockProgram& program, std::size_t instruction,
                                    NodeIds after) {
  StepNode node;
  node.micro_batch = request.micro_batch;
  node.name = name_of(run, program, instruction, request.pass);
  node.after = std::move(after);
  const StreamInstruction& issued = program.streams.instructions[instruction];
  node.time = Seconds(issued.latency + issued.work);
  const PhaseMessage* message = program.issued[instruction].message;
  if (message != nullptr) {
    node.bytes = message->bytes;
    node.time /= static_cast<double>(message->communication.count);
    if (!travels_beside(*message)) return append_message(std::move(node), message->communication);
    node.time = message->time;
    return append_beside(std::move(node), message->communication);
  }
  if (kernel_) node.after.push_back(*kernel_);
  append_to(node.after, waits_);
  waits_.clear();
  kernel_ = add(std::move(node));
  return *kernel_;
}

/// Whether kernels run on meanwhile, by a share and not by their order in the block's program.
bool PassNodes::travels_beside(const PhaseMessage& message) const {
  const OverlapRule& rule =
      view_.problem.framework->overlap[static_cast<std::size_t>(message.overlap)];
  return is_posted_ahead(message) && rule.wait == MessageWait::AtOnce && rule.share > 0.0;
}

/// Parameters are asked for when those before them are waited for; for gradients only the end of
/// the step waits.
std::uint32_t PassNodes::append_beside(StepNode node, const Communication& communication) {
  if (communication.subject == Subject::Parameter) {
    const auto [before, first] = asked_.try_emplace(communication.axes.bits(), before_);
    std::swap(node.after, before->second);
    return append_message(std::move(node), communication);
  }
  const std::uint32_t id = append_message(std::move(node), communication);
  unread_.push_back(id);
  return id;
}

/// One node a call; of one queue each after the one before.
std::uint32_t PassNodes::append_message(StepNode node, const Communication& communication) {
  const bool moves = communication.kind == CommunicationKind::SendReceive ||
                     communication.kind == CommunicationKind::Permute;
  node.kind = moves ? StepNode::Kind::Ring : StepNode::Kind::Collective;
  node.how = communication.kind;
  node.axes = communication.axes;
  const Queue queue{communication.axes.bits(), communication.subject == Subject::Parameter};
  std::uint32_t last = 0;
  for (int call = 0; call < communication.count; ++call) {
    StepNode one = node;
    const auto before = queues_.find(queue);
    if (before != queues_.end()) one.after.push_back(before->second);
    last = add(std::move(one));
    queues_[queue] = last;
  }
  return last;
}

/// The kernels behind the run wait for the nodes that a next copy would wait for; nodes without a
/// reader are left to the end of the step.
void PassNodes::carry(const Run& run, const BlockProgram& program, const std::vector<NodeIds>& ids,
                      PassEnd& end) {
  const auto& issued = program.issued;
  std::vector<bool> read(issued.size(), false);
  for (std::size_t i = 0; i < issued.size(); ++i) {
    if (issued[i].message != nullptr) continue;
    for (const StreamDependency& dependency : program.streams.instructions[i].after) {
      if (issued[dependency.index].message == nullptr) continue;
      read[dependency.index] = true;
      for (int back = 0; back < std::min<int>(dependency.copies_back, run.copies); ++back) {
        const std::uint32_t id =
            ids[ids.size() - 1 - static_cast<std::size_t>(back)][dependency.index];
        if (!is_unread(id)) waits_.push_back(id);
      }
    }
  }
  for (std::size_t i = 0; i < issued.size(); ++i) {
    if (issued[i].message == nullptr || read[i]) continue;
    for (const NodeIds& copy : ids) {
      if (!is_unread(copy[i])) end.unread.push_back(copy[i]);
    }
  }
}

const BlockProgram& PassNodes::program_of(const Run& run, BlockPass pass) {
  const auto key = std::tuple(run.profile, run.block, pass);
  const auto known = programs_.find(key);
  if (known != programs_.end()) return known->second;
  return programs_.emplace(key, profiles_.program(*run.profile, run.block, pass)).first->second;
}

std::uint32_t PassNodes::name_of(const Run& run, const BlockProgram& program,
                                 std::size_t instruction, BlockPass pass) {
  const auto [at, added] = named_.try_emplace({&program, instruction}, 0);
  if (!added) return at->second;
  const Block& block = view_.problem.network->blocks[run.block];
  const IssuedWork& issued = program.issued[instruction];
  std::string what;
  if (issued.message != nullptr) {
    const Communication& c = issued.message->communication;
    what = fmt::format("{}{} {}", issued.repeated ? "again " : "", plansearch::to_text(c.kind),
                       message_name(block, c, view_.problem.framework->sharding.unit));
  } else if (program.streams.instructions[instruction].work > 0.0) {
    const std::string& first = block.operators[issued.first].name;
    const std::string& last = block.operators[issued.last].name;
    what = first == last ? first : fmt::format("{} to {}", first, last);
  } else {
    what = "no kernel";
  }
  at->second = names_.of(fmt::format("{} {}: {}", block.name, to_text(pass), what));
  return at->second;
}

}  // namespace plansearch
