// SPDX-License-Identifier: Apache-2.0
// A plan with everything known about it before any time is added up: what the step model and the
// memory model read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "evaluate/boundary.hpp"
#include "evaluate/class_profile.hpp"
#include "plansearch/plan.hpp"
#include "schedule/closed_form.hpp"
#include "schedule/simulator.hpp"

namespace plansearch {

/// One transform of a plan, priced.
struct TransformGround {
  const PlanDegrees* degrees = nullptr;
  const DeviceMesh* mesh = nullptr;
  const ClassProfile* profile = nullptr;
  StaticPolicy statics;
};

/// What a device of one kind keeps and does once per step, whatever the micro-batches.
struct KindStatics {
  ParameterCount parameters;
  Bytes parameter_bytes;
  Bytes gradient_bytes;
  Bytes optimizer_bytes;
  Bytes reduction_buffers;
  Bytes gathered_parameters;  ///< of units in use under full sharding
  Seconds optimizer;
  Seconds host;  ///< per-step work of the host: a constant and a share per sharded tensor
};

/// A gradient that several positions sum because they hold the same parameter.
struct SharedReduction {
  PricedCommunication priced;  ///< exposed as a whole: it comes after everything else
  std::vector<int> positions;
};

/// What plans share that differ in micro-batches, recomputation and schedule only.
struct PlanGround {
  std::uint64_t evaluator = 0;  ///< whose; 0: nobody's
  PlanDegrees degrees;          ///< of a uniform plan, what it does not depend on set to 1
  std::vector<DeviceMesh> meshes;
  std::vector<TransformGround> transforms;
  std::shared_ptr<const Assignment> assignment;
  std::vector<KindStatics> kinds;
  std::vector<BoundaryRoute> boundaries;  ///< by virtual stage, to the next one
  std::vector<SharedReduction> shared;
  bool shared_known = false;  ///< it needs more of a profile than memory does
};

/// Forward and backward of one micro-batch through one group of blocks.
struct GroupPass {
  PassProfile forward;
  PassProfile backward;
  PassProfile recompute;
  Seconds forward_total;   ///< with the wait for the host
  Seconds backward_total;  ///< recompute included; without the weight gradient where it runs apart
  Seconds weight_total;
  Ticks forward_ticks = 0;
  Ticks backward_ticks = 0;  ///< both gradients, or what is left when the next runs apart
  Ticks weight_ticks = 0;
};

/// Reusable buffers of one thread; no allocation once they have grown.
struct EvaluationWorkspace {
  PlanGround ground;
  std::vector<GroupPass> passes;  ///< by content of the assignment
  PipelineDurations durations;
  std::vector<Ticks> no_transfers;  ///< zeros
  PipelineSimulator simulator;
  std::vector<Bytes> chunk_bytes;
  std::vector<Bytes> weight_bytes;
  ClassProfile memory_only;  ///< of the plan whose memory was asked for last; no times
};

struct PlanView {
  const Problem& problem;
  const FrameworkConstants& constants;
  const PrecisionPolicy& precision;
  const PlanGround& ground;
  Order order;

  [[nodiscard]] const Assignment& assignment() const { return *ground.assignment; }
  [[nodiscard]] const GroupContent& content(int index) const {
    return ground.assignment->contents[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] const TransformGround& transform_of(const GroupContent& content) const {
    return ground.transforms[static_cast<std::size_t>(content.transform)];
  }
  [[nodiscard]] const TransformGround& transform_at(int position) const {
    const auto& places = ground.assignment->positions;
    return ground
        .transforms[static_cast<std::size_t>(places[static_cast<std::size_t>(position)].transform)];
  }
  [[nodiscard]] const std::vector<int>& contents_at(int position) const {
    return ground.assignment->contents_of[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] int kind_of(int position) const {
    return ground.assignment->kind_of[static_cast<std::size_t>(position)];
  }
  [[nodiscard]] const KindStatics& statics_at(int position) const {
    return ground.kinds[static_cast<std::size_t>(kind_of(position))];
  }
  [[nodiscard]] PipelineShape shape() const;
};

/// Calls `visit` with every block of a content that it holds, and the number of copies.
template <typename Visit>
void for_each_block(const PlanView& view, const GroupContent& content, Visit visit) {
  const ClassProfile& profile = *view.transform_of(content).profile;
  for (std::size_t b = 0; b < content.copies.size(); ++b) {
    if (content.copies[b] > 0.0) visit(profile.blocks[b], content.copies[b]);
  }
}

}  // namespace plansearch
