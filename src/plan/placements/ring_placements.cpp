// SPDX-License-Identifier: Apache-2.0
// Computes: the cuts of the linear operators of layers whose rows travel over the tensor group; the
//           cuts of all operators of layers around squares of devices for the linear ones.
// Source: torch/_inductor/fx_passes/micro_pipeline_tp.py (fused_all_gather_matmul,
//         fused_matmul_reduce_scatter); collective matmul (Wang et al., ASPLOS 2023). Squares:
//         PrimePar (ASPLOS 2024, sections 3.2 and 6: {K, P2x2} and {N, P2x2}, the bit outside the
//         square cutting as Megatron does).
// Assumes: tokens are cut over the tensor group between the operators of rings (sequence
//          parallelism); dimensions of a block have names of their own.
// Units: numbers of factors; of squares the innermost first: columns, rows, the rest.
// Checked by: tests/unit/evaluate/operator_steps_test.cpp, tests/unit/search/rings_test.cpp,
//             tests/unit/plan/square_placements_test.cpp
#include "plan/placements/ring_placements.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/ranges.hpp"
#include "plan/legality/legality_parts.hpp"
#include "plan/placements/check_placements.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

using legality::broken;

/// Dimensions that Megatron cuts over the tensor group.
bool is_inner(DimRole role) {
  return role == DimRole::Head || role == DimRole::KvHead || role == DimRole::Ffn;
}

bool is_sequence(DimRole role) {
  return role == DimRole::Sequence;
}

const DimId* find_role(const Network& network, const Operator& op, bool (*wanted)(DimRole)) {
  const auto dim =
      std::ranges::find_if(op.loop, [&](DimId id) { return wanted(network.dimension(id).role); });
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

namespace {

constexpr std::uint8_t kColumns = 0;
constexpr std::uint8_t kRows = 1;
constexpr std::uint8_t kRest = 2;

class Squares {
 public:
  Squares(const Network& network, const PlanDegrees& degrees, int side)
      : network_(network), side_(side), rest_(degrees.tensor_out / (side * side)) {
    row_role_ = degrees.micro_batch % side == 0 ? DimRole::Batch : DimRole::Sequence;
  }

  std::variant<PlacementNames, PlacementFault> run() {
    names_.factors = {side_, side_};
    if (rest_ > 1) names_.factors.push_back(rest_);
    for (const Block& block : network_.blocks) {
      if (is_layer(block.kind)) {
        for (const Operator& op : block.operators) {
          if (!of_experts(op) && !place(block, op)) return *std::move(fault_);
        }
      }
      hand_on(block);
    }
    return std::move(names_);
  }

 private:
  [[nodiscard]] DimRole role(DimId dim) const { return network_.dimension(dim).role; }

  [[nodiscard]] bool has(const Operator& op, DimRole wanted) const {
    return std::ranges::any_of(op.loop, [&](DimId dim) { return role(dim) == wanted; });
  }
  [[nodiscard]] bool of_experts(const Operator& op) const {
    return has(op, DimRole::Expert) || has(op, DimRole::Routed) || has(op, DimRole::ExpertFfn) ||
           has(op, DimRole::ExpertChoice);
  }

  /// Dimensions of weights that may be cut: heads stay whole, gates beside what they gate.
  static bool is_feature(DimRole role) {
    return is_inner(role) || role == DimRole::Hidden || role == DimRole::Latent;
  }

  bool place(const Block& block, const Operator& op) {
    PlacementEntry entry{{op.name}, {block.name}, {}, {}, {}};
    const bool linear = traits(op).runs_in_steps;
    if (linear) {
      const auto square = square_of(block, op);
      if (!square) return false;
      entry.squares.push_back(*square);
    }
    const bool attends = has(op, DimRole::KeySequence);
    for (const DimId dim : op.loop) {
      FactorList factors;
      if (rest_ > 1 && is_inner(role(dim))) factors.push_back(kRest);
      if (!linear) add_inside(role(dim), attends, factors);
      if (!factors.empty()) entry.cut.push_back({network_.dimension(dim).name, factors});
    }
    names_.operators.push_back(std::move(entry));
    return true;
  }

  /// Over the factors of the square, where an operator is not in steps itself. Attention reads all
  /// keys of a sequence: instead of tokens it takes more heads.
  void add_inside(DimRole role, bool attends, FactorList& factors) const {
    const bool tokens = row_role_ == DimRole::Sequence;
    if (role == row_role_ && !(attends && tokens)) factors.push_back(kRows);
    if (is_inner(role) && attends && tokens) factors.push_back(kRows);
    if (is_inner(role) || (role == DimRole::Hidden && !attends)) factors.push_back(kColumns);
  }

  [[nodiscard]] std::optional<NamedSquare> square_of(const Block& block, const Operator& op) {
    const auto& weight = block.parameter(op.parameters.front()).dims;
    const auto& input = block.tensor(op.inputs.front()).dims;
    const auto& output = block.tensor(op.outputs.front()).dims;
    std::optional<DimId> m;
    std::optional<DimId> n;
    std::optional<DimId> k;
    for (const DimId dim : op.loop) {
      const bool in = contains(input, dim);
      const bool out = contains(output, dim);
      if (role(dim) == row_role_ && in && out) m = dim;
      if (!is_feature(role(dim)) || !contains(weight, dim)) continue;
      if (in && !out && !n) n = dim;
      if (out && !in && !k) k = dim;
    }
    if (!m || !n || !k) {
      fault_ = PlacementFault{
          fmt::format("{} has no {} to cut over a square", op.name,
                      !m   ? "rows"
                      : !n ? "contracted dimension"
                           : "features"),
          "say for single operators what runs in steps: placements: of a plan file, with square:"};
      return std::nullopt;
    }
    const auto name = [&](DimId dim) { return network_.dimension(dim).name; };
    return NamedSquare{{kRows}, {kColumns}, name(*m), name(*n), name(*k)};
  }

  /// The residual stream, from the embedding on.
  void hand_on(const Block& block) {
    PlacementEntry entry{{}, {block.name}, {}, {}, {}};
    for (const TensorId id : block.outputs) {
      for (const DimId dim : block.tensor(id).dims) {
        const bool known = std::ranges::any_of(entry.cut, [&](const NamedCut& cut) {
          return cut.dimension == network_.dimension(dim).name;
        });
        if (known) continue;
        FactorList factors;
        add_inside(role(dim), false, factors);
        if (!factors.empty()) entry.cut.push_back({network_.dimension(dim).name, factors});
      }
    }
    if (!entry.cut.empty()) names_.edges.push_back(std::move(entry));
  }

  const Network& network_;
  int side_;
  int rest_;
  DimRole row_role_ = DimRole::Batch;
  PlacementNames names_;
  std::optional<PlacementFault> fault_;
};

}  // namespace

std::variant<PlacementNames, PlacementFault> square_placements(const Network& network,
                                                               const PlanDegrees& degrees,
                                                               int side) {
  const int group = degrees.tensor_out;
  if (group % (side * side) != 0) {
    return PlacementFault{fmt::format("{} devices of a square are not part of a tensor group of {}",
                                      side * side, group),
                          fmt::format("--tp {}, or a multiple of it", side * side)};
  }
  return Squares(network, degrees, side).run();
}

}  // namespace plansearch
