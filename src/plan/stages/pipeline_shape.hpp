// SPDX-License-Identifier: Apache-2.0
// The pipeline of a plan as schedules see it.
#pragma once

#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"
#include "schedule/simulation/pipeline.hpp"

namespace plansearch {

/// Stages, chunks and micro-batches from the plan; group size and whether sends block from the
/// framework; forward passes from the network. Where it is one virtual stage they are one piece.
[[nodiscard]] PipelineShape pipeline_shape(const PlanDegrees& plan, const Framework& framework,
                                           const Network& network);

/// The schedules that the framework lists, in the order of the table.
[[nodiscard]] std::vector<ScheduleId> schedules_of(const Framework& framework);

/// When the optimizers of a step start under an order: validation after the step needs one that
/// splits the backward pass, under others the framework's optimizers start together.
[[nodiscard]] OptimizerStart optimizer_start(const Framework& framework, ScheduleId schedule);

/// The schedule of a framework where none is asked for: the default schedule where it lists it and
/// the chunks and the network suit it, otherwise the first that suits; one it does not list where
/// none does. One stage runs its micro-batches one after the other, whatever is listed.
[[nodiscard]] ScheduleId default_schedule(const Framework& framework, const Network& network,
                                          int stages, int chunks);

/// Whether an order suits a network: those of several forward passes have networks of their own.
[[nodiscard]] bool suits(ScheduleId schedule, const Network& network);

/// Whether some order runs messages of experts beside another micro-batch's kernels.
[[nodiscard]] bool exchange_is_joined(const Framework& framework, const Network& network);
/// Whether messages of experts hide behind the kernels of another micro-batch: where the order
/// joins a forward and a backward, and the framework overlaps them.
[[nodiscard]] bool joins_passes(const Framework& framework, const Network& network,
                                ScheduleId schedule);

}  // namespace plansearch
