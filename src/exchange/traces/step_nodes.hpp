// SPDX-License-Identifier: Apache-2.0
// One step of a plan as nodes: kernels, messages among ranks and between stages, and what waits for
// what. All ranks of a stage run the same nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluate/block/profile_maker.hpp"
#include "evaluate/step/pricing_input.hpp"
#include "plansearch/communication.hpp"

namespace plansearch {

struct StepNode {
  enum class Kind : std::uint8_t {
    Kernels,
    Collective,  ///< among the ranks of `axes`, or of the stages in `StepNodes::holders`
    Ring,        ///< every rank sends to the next one on `axes` and receives from the one before
    Send,        ///< to the rank of `stage` that lies alike
    Receive,     ///< from it
  };
  Kind kind = Kind::Kernels;
  CommunicationKind how = CommunicationKind::AllReduce;  ///< of collectives
  AxisSet axes{};
  std::uint32_t name = 0;    ///< into StepNodes::names
  std::uint32_t number = 0;  ///< of sends and receives: the same at both ends; of collectives among
                             ///< stages: into StepNodes::holders
  int stage = 0;             ///< of sends and receives: the other end
  int micro_batch = -1;      ///< -1: of the step
  Seconds time;  ///< of kernels; of messages, if they had the links for themselves, what kernels
                 ///< around them do not hide by the framework's share
  Bytes bytes;   ///< full message, nccl-tests convention
  std::vector<std::uint32_t> after{};  ///< earlier nodes of the same stage
};

struct StepNodes {
  std::vector<std::string> names;
  std::vector<std::vector<StepNode>> stages;
  std::vector<std::vector<int>> holders;  ///< stages that sum something together
};

/// Kernels and messages of the ranks of a legal plan in one step. InputError where its stages do
/// more than to hand on to the next one: an order that is found, blocks on all devices, tensors
/// that pass over stages.
[[nodiscard]] StepNodes step_nodes(const PlanEvaluator& evaluator, const ParallelPlan& plan);

}  // namespace plansearch
