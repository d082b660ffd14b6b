// SPDX-License-Identifier: Apache-2.0
// The program of a plan: every instruction of one step with the plan's own times and bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/step/pricing_input.hpp"
#include "plansearch/evaluator.hpp"
#include "schedule/passes/pass.hpp"
#include "schedule/simulation/simulated_program.hpp"

namespace plansearch {

/// One place in the pipeline as readers see it.
struct ProgramDevice {
  int first_rank = 0;
  int ranks = 1;
  Bytes always;  ///< memory beside what the program allocates
};

/// Kernels and messages of two copies of a block, one after the other, as streams run them.
struct BlockTimeline {
  struct Slice {
    std::string what;
    int stream = 0;
    bool message = false;
    Seconds start;
    Seconds end;
  };
  std::string name;  ///< "decoder, forward"
  std::vector<std::string> streams;
  std::vector<Slice> slices;
};

/// Whether the messages of a rank in both directions share its network cards, or each travels as if
/// it were alone (as the price of a plan assumes).
enum class MessageLinks : std::uint8_t { Private, Shared };

/// Which program of a plan.
struct ProgramRequest {
  std::optional<int> micro_batches{};  ///< fewer, to be drawn; absent: those of the plan
  MessageLinks links = MessageLinks::Private;
};

struct PricedProgram : SimulatedProgram {
  PipelineShape shape;
  std::vector<ProgramDevice> devices;
  std::vector<PassOutcome> passes;    ///< of the problem
  int slots = 0;                      ///< buffers beyond the first that passes could take
  std::vector<BlockTimeline> blocks;  ///< of the busiest device, that are simulated on streams
};

/// Whether the step of a plan is the end of its program: runtimes with lists, or passes. Others
/// have simulators that give the same end faster.
[[nodiscard]] bool is_listed(const Problem& problem);

[[nodiscard]] PricedProgram priced_program(const PricingInput& view, const ProgramRequest& request,
                                           EvaluationWorkspace& workspace);

/// The program that a step ends with, as far as its price reads it.
struct ListedStep {
  Ticks makespan = 0;
  Ticks span = 0;            ///< of the device that takes longest
  std::vector<Bytes> peaks;  ///< of what the program allocates, by device
  std::vector<PassOutcome> passes;
};
/// Null for a plan whose step does not end with its program.
[[nodiscard]] std::shared_ptr<const ListedStep> listed_step(const PricingInput& view,
                                                            EvaluationWorkspace& workspace);
/// The device that needs most, with the messages that its lists keep.
[[nodiscard]] DeviceMemory listed_device_memory(const PricingInput& view, const ListedStep& listed,
                                                EvaluationWorkspace& workspace);

}  // namespace plansearch
