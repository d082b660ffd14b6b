// SPDX-License-Identifier: Apache-2.0
// Computes: the cuts of the linear operators of layers whose rows travel over the tensor group.
// Source: torch/_inductor/fx_passes/micro_pipeline_tp.py (fused_all_gather_matmul,
//         fused_matmul_reduce_scatter); collective matmul (Wang et al., ASPLOS 2023).
// Assumes: tokens are cut over the tensor group between the operators (sequence parallelism).
// Units: numbers of factors.
// Checked by: tests/unit/evaluate/operator_steps_test.cpp, tests/unit/search/rings_test.cpp
#include "plan/placements/ring_placements.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/legality/legality_parts.hpp"
#include "plan/placements/check_placements.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

using legality::broken;

/// Whether Megatron cuts a dimension over the tensor group.
bool is_inner(DimRole role) {
  return role == DimRole::Head || role == DimRole::KvHead || role == DimRole::Ffn;
}

bool is_sequence(DimRole role) {
  return role == DimRole::Sequence;
}

const DimId* find_role(const Network& network, const Operator& op, bool (*wanted)(DimRole)) {
  const auto dim = std::find_if(op.loop.begin(), op.loop.end(),
                                [&](DimId id) { return wanted(network.dimension(id).role); });
  return dim == op.loop.end() ? nullptr : &*dim;
}

BlockChoice rings_of(const Block& block, const Network& network) {
  BlockChoice choice;
  choice.operators.resize(block.operators.size());
  if (!is_layer(block.kind)) return choice;
  FactorList all;
  all.push_back(0);
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    const bool linear = traits(op).runs_in_steps;
    const DimId* inner = find_role(network, op, is_inner);
    const DimId* tokens = find_role(network, op, is_sequence);
    if (!linear || inner == nullptr || tokens == nullptr) continue;
    choice.operators[i] = FactorCuts{{*inner, all}};
    choice.rings.resize(block.operators.size());
    choice.rings[i] = RingCut{all, *tokens};
  }
  return choice;
}

}  // namespace

std::shared_ptr<const Placements> ring_placements(const Network& network, int tensor_ranks) {
  auto placements = std::make_shared<Placements>();
  placements->factors = {tensor_ranks};
  for (const Block& block : network.blocks) placements->blocks.push_back(rings_of(block, network));
  return placements;
}

std::optional<Infeasible> check_steps(const Framework& framework, OperatorSteps steps) {
  if (runs_steps(framework.operator_steps, steps)) return std::nullopt;
  return Infeasible{
      .obstacle = Obstacle::FrameworkForbids,
      .detail = fmt::format("{} runs no operator in steps over {} (operator_steps)", framework.name,
                            steps == OperatorSteps::Squares ? "squares" : "rings")};
}

std::optional<Infeasible> check_rings(const PlanDegrees& degrees, const Network& network,
                                      const Framework& framework) {
  if (degrees.temporal == Temporal::None) return std::nullopt;
  if (auto bad = check_steps(framework, OperatorSteps::Rings)) return bad;
  if (degrees.tensor_out < 2) return broken("a ring of one device: rings take --tp 2 or more");
  if (degrees.tensor() > degrees.tensor_out) {
    return broken("rings run over the tensor group of --tp, not over a grid");
  }
  if (degrees.sequence_parallel == SequenceParallel::Off) {
    return broken("rings are the gathers and scatters of sequence parallelism: --sp 1");
  }
  const auto rings = ring_placements(network, degrees.tensor_out);
  if (!rings->over_rings()) {
    return broken(
        "no linear operator of a layer is cut over the tensor group; placements: of a plan file "
        "say for single operators what runs in steps, with ring:");
  }
  const PlacedDegrees placed{degrees, framework, rings->factors};
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    const Block& block = network.blocks[b];
    const BlockChoice& choice = rings->blocks[b];
    for (std::size_t i = 0; i < block.operators.size(); ++i) {
      const RingCut* ring = choice.ring(i);
      if (ring == nullptr) continue;
      const Operator& op = block.operators[i];
      const FactorCuts& cuts = *choice.operators[i];
      if (auto bad = check_cuts(network, op, cuts, placed)) return bad;
      if (auto bad = check_ring(network, block, op, cuts, *ring, placed)) return bad;
    }
  }
  return std::nullopt;
}

}  // namespace plansearch
