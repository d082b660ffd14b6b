// SPDX-License-Identifier: Apache-2.0
// Computes: gradient reductions and parameter gathers at the end of a step, and what stays exposed.
// Source: overlap of bucketed reductions with the last backward, of gathers with the next forward
//         (PyTorch DDP, VLDB 2020; Megatron distributed optimizer).
// Assumes: messages of all blocks of a device go back to back; the window is one micro-batch.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/step_model_test.cpp
#include <algorithm>
#include <span>
#include <string_view>

#include "cost/collective_cost.hpp"
#include "evaluate/step_model.hpp"
#include "plansearch/fixed_vector.hpp"

namespace plansearch {
namespace {

bool same_collective(const Communication& a, const Communication& b) {
  return a.axes == b.axes && a.kind == b.kind && a.subject == b.subject && a.wire == b.wire;
}

using Keys = FixedVector<std::string_view, 16>;

/// The class holds bytes of whole tiles; the plan knows into how many pieces it cuts them.
Bytes piece_bytes(const DeviceMesh& mesh, const PricedCommunication& message) {
  return message.bytes / static_cast<double>(mesh.size(message.communication.cut));
}

/// Adds the messages of a block, but for parameters that a group before it has brought in: all
/// uses on one device add into one gradient. `before`: keys known when the group began.
void merge(const DeviceMesh& mesh, std::vector<PricedCommunication>& into,
           std::span<const PricedCommunication> messages, double copies, Keys& known_keys) {
  const std::size_t before = known_keys.size();
  for (const PricedCommunication& message : messages) {
    const auto end = known_keys.begin() + before;
    if (!message.shared_key.empty()) {
      if (std::find(known_keys.begin(), end, message.shared_key) != end) continue;
      if (std::find(end, known_keys.end(), message.shared_key) == known_keys.end()) {
        known_keys.push_back(message.shared_key);
      }
    }
    const Bytes bytes = piece_bytes(mesh, message) * (copies * message.count);
    const auto known = std::find_if(into.begin(), into.end(), [&](const PricedCommunication& c) {
      return same_collective(c.communication, message.communication);
    });
    if (known != into.end()) {
      known->bytes += bytes;
      continue;
    }
    PricedCommunication& joined = into.emplace_back(
        PricedCommunication{.communication = message.communication, .bytes = bytes});
    // All blocks of a stage go together; the class does not know the size of the group.
    joined.communication.index = kWholeBlock;
    joined.communication.group_size = mesh.size(message.communication.axes);
    joined.count = 1;
  }
}

void price(const PlanView& view, const DeviceMesh& mesh, Seconds forward, Seconds backward,
           std::vector<PricedCommunication>& collectives) {
  for (PricedCommunication& c : collectives) {
    const CollectiveCost cost =
        collective_cost(*view.problem.cluster, c.communication.kind, c.bytes,
                        process_group(mesh, c.communication.axes), Contention::TrainingStep);
    c.wire_bytes = cost.wire_bytes;
    c.time = cost.time;
    const bool gather = c.communication.subject == Subject::Parameter;
    const auto kind = static_cast<std::size_t>(overlap_class(c.communication));
    Seconds& window = gather ? forward : backward;
    const Seconds hidden = std::min(c.time * view.problem.framework->overlap[kind], window);
    window -= hidden;
    const Seconds moving = std::min(hidden, cost.transfer);
    c.exposed = c.time - hidden + moving * view.constants.contention[kind];
  }
}

}  // namespace

std::vector<PricedCommunication> step_collectives(const PlanView& view,
                                                  const EvaluationWorkspace& workspace,
                                                  int position) {
  std::vector<PricedCommunication> own;
  const DeviceMesh& mesh = *view.transform_at(position).mesh;
  Keys keys;
  for (const int content : view.contents_at(position)) {
    for_each_block(view, view.content(content), [&](const BlockProfile& block, double copies) {
      merge(mesh, own, block.steps, copies, keys);
    });
  }
  const GroupPass pass = position_pass(view, workspace, position);
  price(view, mesh, pass.forward_total, pass.backward_total + pass.weight_total, own);
  for (const SharedReduction& shared : view.ground.shared) {
    const auto& holders = shared.positions;
    if (std::find(holders.begin(), holders.end(), position) != holders.end()) {
      own.push_back(shared.priced);
    }
  }
  return own;
}

}  // namespace plansearch
