// SPDX-License-Identifier: Apache-2.0
// Computes: gradient reductions and parameter gathers at the end of a step, and what stays exposed.
// Source: overlap of bucketed reductions with the last backward, of gathers with the next forward
//         (PyTorch DDP, VLDB 2020; Megatron distributed optimizer).
// Assumes: messages of all blocks of a device go back to back; the window is one micro-batch.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/step_model_test.cpp
#include "evaluate/step/step_collectives.hpp"

#include <span>
#include <string_view>

#include "evaluate/states/host_update.hpp"
#include "evaluate/step/group_pass.hpp"
#include "plansearch/fixed_vector.hpp"

namespace plansearch {
namespace {

bool same_collective(const Communication& a, const Communication& b) {
  return a.axes == b.axes && a.kind == b.kind && a.subject == b.subject && a.wire == b.wire;
}

using Keys = FixedVector<std::string_view, 16>;

/// Adds the messages of a block to those from `begin` on, but for parameters that a group before it
/// has brought in: all uses on one device add into one gradient.
void merge(const DeviceMesh& mesh, std::vector<PhaseMessage>& into, std::size_t begin,
           std::span<const StepMessage> messages, double copies, Keys& known_keys) {
  const std::size_t before = known_keys.size();
  for (const StepMessage& message : messages) {
    const auto end = known_keys.begin() + before;
    if (!message.shared_key.empty()) {
      if (std::find(known_keys.begin(), end, message.shared_key) != end) continue;
      if (std::find(end, known_keys.end(), message.shared_key) == known_keys.end()) {
        known_keys.push_back(message.shared_key);
      }
    }
    const Bytes bytes = message.bytes(mesh) * (copies * message.communication.count);
    const auto own = into.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto known = std::find_if(own, into.end(), [&](const PhaseMessage& c) {
      return same_collective(c.communication, message.communication);
    });
    if (known != into.end()) {
      known->bytes += bytes;
      continue;
    }
    PhaseMessage& joined = into.emplace_back();
    joined.communication = message.communication;
    joined.bytes = bytes;
    // All blocks of a stage go together; the class does not know the size of the group.
    joined.communication.index = kWholeBlock;
    joined.communication.group_size = mesh.size(message.communication.axes);
  }
}

/// A broadcast of one owner's part passes the ring as an all-gather of as many bytes does: every
/// rank hands on what it gets.
double calls_of(const PricingContext& context, const Communication& what) {
  const bool by_owner = what.subject == Subject::Parameter &&
                        what.kind == CommunicationKind::AllGather &&
                        context.problem.framework->sharding.step_gather == StepGather::ByOwner;
  return by_owner ? static_cast<double>(what.group_size) : 1.0;
}

void price(const PricingContext& context, const PlanInvariants& invariants,
           const ProcessGroup& group, PhaseMessage& message) {
  const double calls = calls_of(context, message.communication);
  const CollectiveCost cost =
      price_call(context, message.communication.kind, message.bytes / calls, group).cost;
  message.wire_bytes = cost.wire_bytes * calls;
  message.time = cost.time * calls;
  message.transfer = cost.transfer * calls;
  message.overlap = overlap_class(message.communication);
  message.purpose = purpose_of(message.communication);
  message.between_nodes =
      spans_nodes(*invariants.transforms.front().mesh, message.communication.axes,
                  context.problem.cluster->accelerators_per_node);
}

void add_own(const PricingInput& view, int position, std::vector<PhaseMessage>& messages) {
  for_each_transform_at(view, position, [&](int transform) {
    const DeviceMesh& mesh = *view.invariants.transforms[static_cast<std::size_t>(transform)].mesh;
    Keys keys;
    const std::size_t begin = messages.size();
    for (const int content : view.contents_at(position)) {
      if (view.content(content).transform != transform) continue;
      for_each_block(view, view.content(content), [&](const BlockProfile& block, double copies) {
        merge(mesh, messages, begin, block.steps, copies, keys);
      });
    }
    for (std::size_t i = begin; i < messages.size(); ++i) {
      PhaseMessage& message = messages[i];
      price(view, view.invariants, process_group(mesh, message.communication.axes), message);
    }
  });
}

/// Positions that sum one gradient.
struct Holders {
  int count = 0;
  int first = 0;
  int last = 0;
  std::vector<bool> kinds;
};

/// In its stage: devices of a gang hold different parts.
bool holds(const PricingInput& view, int position, std::string_view key) {
  bool found = false;
  const auto chunks = static_cast<std::size_t>(view.assignment().held());
  for (const int content : std::span(view.contents_at(position)).first(chunks)) {
    for_each_block(view, view.content(content), [&](const BlockProfile& block, double) {
      found = found || std::any_of(block.shared.begin(), block.shared.end(),
                                   [&](const SharedCount& s) { return s.key == key; });
    });
  }
  return found;
}

Holders holders_of(const PricingInput& view, std::string_view key) {
  Holders holders;
  for (const int position : view.assignment().kinds) {
    holders.kinds.push_back(holds(view, position, key));
  }
  for (int p = 0; p < view.assignment().stages(); ++p) {
    if (!holders.kinds[static_cast<std::size_t>(view.kind_of(p))]) continue;
    if (holders.count++ == 0) holders.first = p;
    holders.last = p;
  }
  return holders;
}

/// As far apart as their first ranks.
ProcessGroup group_of(const PricingInput& view, const Holders& holders) {
  const auto rank = [&](int p) {
    return view.assignment().positions[static_cast<std::size_t>(p)].first;
  };
  const int distance = (rank(holders.last) - rank(holders.first)) / (holders.count - 1);
  ProcessGroup group(holders.count, std::max(distance, 1));
  // All positions together repeat along the ranks; spelled-out stages fill them just once.
  const DeviceMesh& mesh = *view.transform_at(holders.first).mesh;
  group.world = mesh.ranks;
  const bool along_axis = mesh[Axis::Pipeline].size == view.assignment().stages();
  group.period = along_axis ? mesh.neighbour_distance(Axis::Pipeline) * view.assignment().stages()
                            : mesh.ranks;
  return group;
}

/// Positions that hold the same blocks for different replicas of the network sum what data
/// parallelism leaves of their gradients.
void add_replicas(const PricingInput& view, std::size_t kind, PlanInvariants& invariants) {
  const int position = view.assignment().kinds[kind];
  const ModelStatePolicy& statics = view.transform_at(position).statics;
  const auto& groups = view.assignment().groups;
  Holders holders;
  const std::size_t length = view.assignment().groups_per_replica();
  const auto own = std::find_if(groups.begin(), groups.end(),
                                [&](const OperatorGroup& g) { return g.position == position; });
  for (auto k = static_cast<std::size_t>(own - groups.begin()) % length; k < groups.size();
       k += length) {
    const int holder = groups[k].position;
    holders.first = holders.count == 0 ? holder : std::min(holders.first, holder);
    holders.last = std::max(holders.last, holder);
    ++holders.count;
  }
  ParameterCount own_parameters;
  for (const int content : view.contents_at(position)) {
    for_each_block(view, view.content(content), [&](const BlockProfile& block, double copies) {
      own_parameters += block.parameters * copies;
    });
  }
  PhaseMessage message;
  Communication& what = message.communication;
  what.subject = Subject::Gradient;
  what.kind = CommunicationKind::AllReduce;
  what.wire = WireClass::Gradient;
  what.phase = DemandPhase::Step;
  what.scope = Scope::Step;
  what.axes = {Axis::Pipeline};
  what.index = kWholeBlock;
  what.group_size = holders.count;
  what.elements = own_parameters.trainable_dense / statics.dense.gradient_pieces +
                  own_parameters.trainable_expert / statics.expert.gradient_pieces;
  message.bytes = wire_size(what.wire, view.precision) * what.elements;
  price(view, invariants, group_of(view, holders), message);
  invariants.messages[kind].last.push_back(message);
}

/// The gradient of a parameter that several positions hold.
void add_shared(const PricingInput& view, const StepMessage& shared, PlanInvariants& invariants) {
  const Holders holders = holders_of(view, shared.shared_key);
  if (holders.count < 2) return;
  PhaseMessage message;
  message.communication = shared.communication;
  message.communication.group_size = holders.count;
  message.bytes = shared.bytes(*invariants.transforms.front().mesh);
  price(view, invariants, group_of(view, holders), message);
  for (std::size_t kind = 0; kind < holders.kinds.size(); ++kind) {
    if (holders.kinds[kind]) invariants.messages[kind].last.push_back(message);
  }
}

}  // namespace

void add_shared_messages(const PricingInput& view, PlanInvariants& invariants) {
  invariants.messages.resize(view.assignment().kinds.size());
  for (const StepMessage& shared : invariants.transforms.front().profile->shared) {
    add_shared(view, shared, invariants);
  }
}

void complete_messages(const PricingContext& context, PlanInvariants& invariants) {
  if (invariants.messages_known) return;
  const PricingInput view{context, invariants, {}};
  const std::vector<int>& kinds = view.assignment().kinds;
  invariants.messages.resize(kinds.size());
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    StageClassMessages& messages = invariants.messages[kind];
    messages.overlapping.clear();
    messages.last.clear();
    add_own(view, kinds[kind], messages.overlapping);
  }
  if (view.assignment().stages() > 1) add_shared_messages(view, invariants);
  if (view.assignment().replicas > 1) {
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) add_replicas(view, kind, invariants);
  }
  invariants.messages_known = true;
}

void fill_work(const PricingInput& view, EvaluationWorkspace& workspace) {
  workspace.work.clear();
  const std::vector<int>& kinds = view.assignment().kinds;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    StageClassWork& work = workspace.work.emplace_back();
    work.pass = position_lengths(view, workspace, kinds[kind]);
    for_each_step_message(view, work.pass, kind,
                          [&](const PhaseMessage&, Seconds exposed) { work.reduction += exposed; });
    const StageClassStates& states = view.invariants.kinds[kind];
    work.optimizer = states.optimizer + exposed_copies(view, states.offload, work.pass);
  }
}

std::vector<PricedCommunication> step_collectives(const PricingInput& view,
                                                  const PhaseLengths& pass, int position) {
  std::vector<PricedCommunication> lines;
  const auto kind = static_cast<std::size_t>(view.kind_of(position));
  for_each_step_message(view, pass, kind, [&](const PhaseMessage& message, Seconds exposed) {
    lines.push_back({.communication = message.communication,
                     .bytes = message.bytes,
                     .wire_bytes = message.wire_bytes,
                     .count = 1.0,
                     .time = message.time,
                     .exposed = exposed});
  });
  return lines;
}

}  // namespace plansearch
