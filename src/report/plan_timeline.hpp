// SPDX-License-Identifier: Apache-2.0
// The program of a plan for readers: as text and as a trace for viewers.
#pragma once

#include <string>

#include "evaluate/step/priced_program.hpp"
#include "plansearch/evaluator.hpp"

namespace plansearch {

/// As few micro-batches as fill the pipeline of a plan and show its middle.
[[nodiscard]] int drawn_micro_batches(const PlanDegrees& plan, const Framework& framework,
                                      const Network& network);

/// The pipeline with a heading and a legend; empty where there is one device. `micro_batches`: of
/// the plan.
[[nodiscard]] std::string pipeline_picture(const PricedProgram& program, int micro_batches,
                                           int columns);

/// The whole step, or its first and its last part where it is too long for `columns` characters:
/// work and messages of every stage, then the memory of each.
[[nodiscard]] std::string plan_timeline(const PricedProgram& program, int columns);

/// The step of a plan where messages of both directions share the network cards of a rank, which
/// its price does not assume; empty where that changes nothing.
[[nodiscard]] std::string shared_links_note(const PricedProgram& alone,
                                            const PricedProgram& shared);

/// The timeline of a plan, with that note.
[[nodiscard]] std::string step_timeline(const PlanEvaluator& evaluator, const ParallelPlan& plan,
                                        int columns);

/// The same of the pipeline of a schedule by itself, in the unit of its times.
[[nodiscard]] std::string schedule_timeline(const SimulatedProgram& program,
                                            const PipelineShape& shape, double ticks_per_unit,
                                            int columns);

}  // namespace plansearch
