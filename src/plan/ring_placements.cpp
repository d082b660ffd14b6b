// SPDX-License-Identifier: Apache-2.0
// Computes: the cuts of the linear operators of layers whose rows travel over the tensor group.
// Source: torch/_inductor/fx_passes/micro_pipeline_tp.py (fused_all_gather_matmul,
//         fused_matmul_reduce_scatter); collective matmul (Wang et al., ASPLOS 2023).
// Assumes: tokens are cut over the tensor group between the operators (sequence parallelism).
// Units: numbers of factors.
// Checked by: tests/unit/plan/square_placements_test.cpp
#include "plan/ring_placements.hpp"

#include <algorithm>

#include "plan/layer_distribution.hpp"
#include "plansearch/error.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

/// What Megatron cuts over the tensor group.
bool is_inner(DimRole role) {
  return role == DimRole::Head || role == DimRole::KvHead || role == DimRole::Ffn;
}

const Dimension* find_role(const Network& network, const Operator& op, bool (*wanted)(DimRole)) {
  const auto dim = std::find_if(op.loop.begin(), op.loop.end(),
                                [&](DimId id) { return wanted(network.dimension(id).role); });
  return dim == op.loop.end() ? nullptr : &network.dimension(*dim);
}

}  // namespace

std::variant<PlacementNames, PlacementFault> ring_placements(const Network& network,
                                                             const PlanDegrees& degrees) {
  if (degrees.tensor_out < 2) {
    return PlacementFault{false, {}, "a ring of one device", "--tp 2 or more"};
  }
  PlacementNames names;
  names.factors = {degrees.tensor_out};
  FactorList all;
  all.push_back(0);
  for (const Block& block : network.blocks) {
    for (const Operator& op : block.operators) {
      const bool linear = traits(op).runs_in_steps;
      const Dimension* inner = find_role(network, op, is_inner);
      const Dimension* tokens =
          find_role(network, op, [](DimRole role) { return role == DimRole::Sequence; });
      if (!is_layer(block.kind) || !linear || inner == nullptr || tokens == nullptr) continue;
      PlacementEntry entry{{op.name}, {block.name}, {}, {{inner->name, all}}, {}};
      entry.ring = NamedRing{all, tokens->name};
      names.operators.push_back(std::move(entry));
    }
  }
  if (!names.operators.empty()) return names;
  return PlacementFault{false,
                        {},
                        "no linear operator of a layer is cut over the tensor group",
                        "say for single operators what runs in steps: placements: of a plan file, "
                        "with ring:"};
}

std::optional<Placements> ring_choice(const Network& network, const PlanDegrees& degrees,
                                      const Framework& framework) {
  const auto names = ring_placements(network, degrees);
  if (!std::holds_alternative<PlacementNames>(names)) return std::nullopt;
  const auto resolved =
      resolve_placements(std::get<PlacementNames>(names), network, degrees, framework);
  const auto* made = std::get_if<DistinguishedNetwork>(&resolved);
  if (made == nullptr) return std::nullopt;
  // All layers of a block are cut alike: the network is the one that was asked about.
  PLANSEARCH_CHECK(made->network->order == network.order);
  return with_merged_factors(made->placements);
}

}  // namespace plansearch
