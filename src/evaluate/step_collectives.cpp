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
Bytes piece_bytes(const PlanView& view, const PricedCommunication& demand) {
  return demand.bytes / static_cast<double>(view.mesh.size(demand.communication.cut));
}

/// Adds the messages of a block, but for parameters that a block before it has brought in: all
/// uses on one device add into one gradient.
void merge(const PlanView& view, std::vector<PricedCommunication>& into,
           std::span<const PricedCommunication> demands, double copies, Keys& known_keys) {
  const std::size_t before = known_keys.size();
  for (const PricedCommunication& demand : demands) {
    const auto end = known_keys.begin() + before;
    if (!demand.shared_key.empty()) {
      if (std::find(known_keys.begin(), end, demand.shared_key) != end) continue;
      if (std::find(end, known_keys.end(), demand.shared_key) == known_keys.end()) {
        known_keys.push_back(demand.shared_key);
      }
    }
    const Bytes bytes = piece_bytes(view, demand) * (copies * demand.count);
    const auto known = std::find_if(into.begin(), into.end(), [&](const PricedCommunication& c) {
      return same_collective(c.communication, demand.communication);
    });
    if (known != into.end()) {
      known->bytes += bytes;
    } else {
      PricedCommunication& joined = into.emplace_back(
          PricedCommunication{.communication = demand.communication, .bytes = bytes});
      // All blocks of a stage go together; the class does not know the size of the group.
      joined.communication.index = kWholeBlock;
      joined.communication.group_size = view.mesh.size(demand.communication.axes);
      joined.count = 1;
    }
  }
}

void price(const PlanView& view, std::vector<PricedCommunication>& collectives, Seconds forward,
           Seconds backward) {
  for (PricedCommunication& c : collectives) {
    const CollectiveCost cost =
        collective_cost(*view.problem.cluster, c.communication.kind, c.bytes,
                        process_group(view.mesh, c.communication.axes), Setting::InStep);
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

Seconds total_exposed(const std::vector<PricedCommunication>& collectives) {
  Seconds total;
  for (const PricedCommunication& c : collectives) total += c.exposed;
  return total;
}

/// First and last stage of the pipeline sum the gradients of what both hold (tied embeddings),
/// after everything else.
void add_shared(const PlanView& view, std::vector<PricedCommunication>& collectives) {
  if (view.layout.stages == 1) return;
  const int distance = view.mesh.neighbour_distance(Axis::Pipeline);
  ProcessGroup ends{2, distance * (view.layout.stages - 1)};
  ends.period = distance * view.layout.stages;
  ends.world = view.mesh.ranks;
  for (const PricedCommunication& shared : view.profile.shared) {
    PricedCommunication& reduced = collectives.emplace_back(shared);
    reduced.bytes = piece_bytes(view, shared);
    const CollectiveCost cost = collective_cost(*view.problem.cluster, shared.communication.kind,
                                                reduced.bytes, ends, Setting::InStep);
    reduced.wire_bytes = cost.wire_bytes;
    reduced.time = reduced.exposed = cost.time;
    reduced.count = 1;
  }
}

std::vector<PricedCommunication> collectives_of(const PlanView& view,
                                                const EvaluationWorkspace& workspace, int device) {
  std::vector<PricedCommunication> own;
  Seconds forward;
  Seconds backward;
  Keys shared;
  for_each_chunk(view.layout, device, [&](std::size_t content) {
    const auto& copies = view.layout.contents[content];
    forward += workspace.passes[content].forward_total;
    backward += workspace.passes[content].backward_total;
    for (std::size_t b = 0; b < copies.size(); ++b) {
      if (copies[b] > 0.0) merge(view, own, view.profile.blocks[b].steps, copies[b], shared);
    }
  });
  price(view, own, forward, backward);
  add_shared(view, own);
  return own;
}

}  // namespace

std::vector<PricedCommunication> step_collectives(const PlanView& view,
                                                  const EvaluationWorkspace& workspace) {
  // The ends of the pipeline carry the embeddings, so one of them reduces most.
  std::vector<PricedCommunication> first = collectives_of(view, workspace, 0);
  if (view.layout.stages == 1) return first;
  std::vector<PricedCommunication> last = collectives_of(view, workspace, view.layout.stages - 1);
  return total_exposed(last) > total_exposed(first) ? last : first;
}

}  // namespace plansearch
