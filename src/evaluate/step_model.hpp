// SPDX-License-Identifier: Apache-2.0
// From block profiles to the time of an optimizer step.
#pragma once

#include <vector>

#include "evaluate/class_profile.hpp"
#include "evaluate/pipeline_layout.hpp"
#include "schedule/closed_form.hpp"
#include "schedule/simulator.hpp"

namespace plansearch {

/// How the makespan of the pipeline is found.
enum class MakespanMethod { Bound, ClosedForm, Simulation };

/// Forward and backward of one micro-batch through one virtual stage.
struct StagePass {
  PassProfile forward;
  PassProfile backward;
  PassProfile recompute;
  Seconds forward_total;   ///< with the wait for the processor
  Seconds backward_total;  ///< recompute included
  Ticks forward_ticks = 0;
  Ticks backward_ticks = 0;
};

/// What consecutive plans share when they differ in batches, recompute and schedule only.
struct PlanGround {
  std::uint64_t evaluator = 0;  ///< whose; 0: nobody's
  PlanDegrees degrees;
  DeviceMesh mesh;
  StaticPolicy statics;
  const PipelineLayout* layout = nullptr;
};

/// Reusable buffers of one thread; no allocation once they have grown.
struct EvaluationWorkspace {
  PlanGround ground;
  std::vector<StagePass> passes;  ///< by content of the layout
  PipelineDurations durations;
  PipelineSimulator simulator;
  std::vector<Bytes> chunk_bytes;
  ClassProfile memory_only;  ///< of the plan whose memory was asked for last; no times
};

/// Everything about one plan that both the step model and the memory model read.
struct PlanView {
  const Problem& problem;
  const FrameworkConstants& constants;
  const PrecisionPolicy& precision;
  const ClassProfile& profile;
  const PipelineLayout& layout;
  const PlanDegrees& plan;
  const DeviceMesh& mesh;
  const StaticPolicy& statics;
};

/// Calls `visit` with the content of every virtual stage of one device.
template <typename Visit>
void for_each_chunk(const PipelineLayout& layout, int device, Visit visit) {
  for (int chunk = 0; chunk < layout.chunks; ++chunk) {
    visit(static_cast<std::size_t>(
        layout.content_of[static_cast<std::size_t>(chunk * layout.stages + device)]));
  }
}

/// Local parameter elements of one device; what its blocks share counts once.
[[nodiscard]] ParameterCount device_parameters(const PlanView& view, int device);

[[nodiscard]] StepTimeBreakdown step_time(const PlanView& view, MakespanMethod method,
                                          EvaluationWorkspace& workspace);
/// Admissible: the order's bound of the pipeline, optimizer and host, no reduction at all.
[[nodiscard]] Seconds step_time_bound(const PlanView& view, EvaluationWorkspace& workspace);

/// What the busiest device gathers and reduces once per step. Needs `workspace.passes`.
[[nodiscard]] std::vector<PricedCommunication> step_collectives(
    const PlanView& view, const EvaluationWorkspace& workspace);
/// Message between two neighbouring stages and its time.
struct BoundaryTransfer {
  Bytes bytes;
  Seconds time;
};
[[nodiscard]] BoundaryTransfer boundary_transfer(const PlanView& view);

}  // namespace plansearch
