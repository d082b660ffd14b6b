// SPDX-License-Identifier: Apache-2.0
// Computes: loop dimensions to mesh axes for every operator and phase of a block.
// Source: the rules of communication/derive/placement_rules.cpp; what the plan says of an operator
//         first.
// Assumes: an axis cuts at most one dimension of an operator.
// Units: mesh axes.
// Checked by: tests/unit/communication/derivation_test.cpp,
// tests/unit/communication/closed_forms_test.cpp
#include "communication/derive/placement.hpp"

#include <numeric>

#include "communication/slices/square.hpp"
#include "plan/placements/check_placements.hpp"
#include "plansearch/error.hpp"
#include "workload/operator_traits.hpp"
#include "workload/window.hpp"

namespace plansearch {
namespace {

static_assert(kMostFactorsOfDimension + 3 <= kMaxDigits && kMostCutsOfDimension <= kMaxDigits);

std::size_t find_dim(const std::vector<DimId>& dims, DimId dim) {
  return static_cast<std::size_t>(std::ranges::find(dims, dim) - dims.begin());
}

std::optional<std::size_t> find_role(const Network& network, const std::vector<DimId>& dims,
                                     DimRole role) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (network.dimension(dims[i]).role == role) return i;
  }
  return std::nullopt;
}

bool carries_out(const PlacementRules& rules, const std::vector<DimId>& dims) {
  return std::ranges::any_of(dims, [&](DimId dim) {
    const AxisSet axes = rules.slice(PlacementVariant::Plain, dim).axes();
    return axes.contains(Axis::Out) || !(axes & kFactorAxes).empty();
  });
}

bool in_expert_order(const Network& network, const std::vector<DimId>& dims) {
  return find_role(network, dims, DimRole::Expert).has_value() ||
         find_role(network, dims, DimRole::Routed).has_value();
}

PlacementVariant surroundings(const Network& network, const PlacementRules& rules,
                              const std::vector<DimId>& dims) {
  const bool spread = rules.sequence_parallel == SequenceParallel::On &&
                      !carries_out(rules, dims) && !in_expert_order(network, dims);
  return spread ? PlacementVariant::SequenceSpread : PlacementVariant::Plain;
}

PlacementVariant variant_of(const OperatorIndex& index, const PlacementRules& rules,
                            const Operator& op) {
  if (index.exchanges) return PlacementVariant::TokenExchange;
  if (index.attends) return PlacementVariant::Attention;
  if (op.whole_sequence) return PlacementVariant::WholeSequence;
  const bool spread = rules.sequence_parallel == SequenceParallel::On && !index.expert_order &&
                      !carries_out(rules, op.loop);
  return spread ? PlacementVariant::SequenceSpread : PlacementVariant::Plain;
}

/// The loop dimension under which the operator reads a dimension of one of its inputs: as it says,
/// or as its own; keys and values have their tokens read as KeySequence. A window moves with one
/// dimension.
DimId read_as(const Network& network, const Block& block, const Operator& op, std::size_t input,
              const Tensor& tensor, std::size_t place) {
  const DimId dim = tensor.dims[place];
  if (input < op.reads.size() && !op.reads[input].empty()) {
    const IndexExpression& index = op.reads[input][place];
    return index.terms.empty() ? dim : moving_dimension(block, op, index);
  }
  const bool second_operand = input >= 1 && input < op.inputs.size();
  if (!second_operand || !traits(op).multiplies_activations()) return dim;
  if (network.dimension(dim).role != DimRole::Sequence) return dim;
  const auto key = find_role(network, op.loop, DimRole::KeySequence);
  if (!key || find_role(network, tensor.dims, DimRole::KeySequence)) return dim;
  return op.loop[*key];
}

/// Drops a map whose axes the operator already uses for another dimension.
void keep_axes_disjoint(std::vector<SliceMap>& loop) {
  AxisSet used;
  for (SliceMap& map : loop) {
    if (!map.varies() && !(map.axes() & used).empty()) map = SliceMap{};
    used = used | map.axes();
  }
}

const FactorList* find_cut(const FactorCuts& cuts, DimId dim) {
  const auto found = std::ranges::find(cuts, dim, &DimensionCut::dim);
  return found == cuts.end() ? nullptr : &found->factors;
}

SliceMap cut_as(const FactorCuts& cuts, DimId dim, const SliceMap& by_role,
                const DeviceMesh& mesh) {
  const FactorList* factors = find_cut(cuts, dim);
  return chosen_cut(by_role, mesh, factors == nullptr ? FactorList{} : *factors);
}

/// Heads of keys and values lie where their query heads lie, as far as there are enough of them.
SliceMap grouped_under(const SliceMap& heads, std::int64_t extent) {
  SliceMap map;
  for (SliceDigit digit : heads.digits()) {
    digit.modulus = static_cast<std::int32_t>(std::gcd<std::int64_t>(extent, digit.modulus));
    extent /= digit.modulus;
    map.push_back(digit);
  }
  return map;
}

/// The digits of a square among the factors that cut a dimension besides.
SliceMap with_square(const SliceMap& around, const SliceDigit& square, std::uint8_t outermost) {
  SliceMap map;
  bool placed = false;
  for (const SliceDigit& digit : around.digits()) {
    const Axis axis = digit.terms[0].axis;
    if (!placed && kFactorAxes.contains(axis) && axis < factor_axis(outermost)) {
      map.push_back(square);
      placed = true;
    }
    map.push_back(digit);
  }
  if (!placed) map.push_back(square);
  return map;
}

/// The cuts of nested squares in every phase. A square stands still while those inside turn once.
void place_squares(const Operator& op, const PlacementRules& rules,
                   std::span<const SquareCut> squares, OperatorPlacement& placed) {
  for (std::size_t phase = 1; phase < kOperatorPhaseCount; ++phase) {
    placed.overrides[phase] = placed.loop;
  }
  placed.steps = 1;
  for (const SquareCut& square : squares) placed.steps *= pieces_of(rules.mesh, square.rows);
  int period = placed.steps;
  for (const SquareCut& square : squares) {
    period /= pieces_of(rules.mesh, square.rows);
    const auto digits = square_digits(rules.mesh, square.rows, square.columns, period);
    for (std::size_t phase = 0; phase < kOperatorPhaseCount; ++phase) {
      std::vector<SliceMap>& loop = phase == 0 ? placed.loop : placed.overrides[phase];
      const auto add = [&](DimId dim, const SliceDigit& digit) {
        SliceMap& map = loop[find_dim(op.loop, dim)];
        map = with_square(map, digit, square.rows[0]);
      };
      add(square.m, digits[phase].m);
      add(square.n, digits[phase].n);
      add(square.k, digits[phase].k);
    }
  }
}

bool carries(const Tensor& tensor, DimId dim) {
  return std::ranges::find(tensor.dims, dim) != tensor.dims.end();
}

/// Rows in turn, by phase. A gather starts with the own tile, a scatter ends with it: the input is
/// gathered where an inner feature of the result is cut and the sums are scattered where it is
/// contracted, and vice versa for the gradients. A tensor that carries both stays.
void place_ring(const Block& block, const Operator& op, const PlacementRules& rules,
                const FactorCuts& cuts, const RingCut& ring, OperatorPlacement& placed) {
  const auto cut = std::ranges::find_if(cuts, [&](const DimensionCut& one) {
    return one.dim != ring.rows && one.factors == ring.factors;
  });
  PLANSEARCH_CHECK(cut != cuts.end());
  const bool gathers = carries(block.tensor(op.outputs.front()), cut->dim);
  placed.steps = pieces_of(rules.mesh, ring.factors);
  const auto rows = find_dim(op.loop, ring.rows);
  const std::vector<SliceMap> around = placed.loop;
  const auto turned = [&](bool own_first) {
    std::vector<SliceMap> loop = around;
    loop[rows].push_back(ring_digit(rules.mesh, ring.factors, own_first));
    return loop;
  };
  placed.overrides[1] = turned(!gathers);
  placed.overrides[2] = turned(true);
  placed.loop = turned(gathers);
  for (const auto* tensors : {&op.inputs, &op.outputs}) {
    for (const TensorId id : *tensors) {
      const Tensor& tensor = block.tensor(id);
      if (carries(tensor, cut->dim) && carries(tensor, ring.rows)) placed.resident.push_back(id);
    }
  }
}

void place_chosen(const Operator& op, const PlacementRules& rules, const FactorCuts& cuts,
                  OperatorPlacement& placed) {
  if (placed.variant == PlacementVariant::SequenceSpread) placed.variant = PlacementVariant::Plain;
  for (std::size_t p = 0; p < op.loop.size(); ++p) {
    placed.loop.push_back(
        cut_as(cuts, op.loop[p], rules.slice(placed.variant, op.loop[p]), rules.mesh));
  }
  const FactorList* parts = find_cut(cuts, kValue);
  if (parts == nullptr) return;
  for (const std::uint8_t factor : *parts) placed.value.insert(factor_axis(factor));
}

}  // namespace

SliceMap chosen_cut(const SliceMap& by_role, const DeviceMesh& mesh, const FactorList& factors) {
  SliceMap map;
  bool placed = false;
  const auto place = [&] {
    if (placed) return;
    placed = true;
    for (const std::uint8_t factor : factors) {
      SliceDigit digit;
      digit.modulus = mesh[factor_axis(factor)].size;
      digit.terms.push_back({factor_axis(factor), 1});
      map.push_back(digit);
    }
  };
  for (const SliceDigit& digit : by_role.digits()) {
    if ((digit.axes() & kTensorAxes).empty()) {
      map.push_back(digit);
    } else {
      place();
    }
  }
  place();
  return map;
}

void place_operator(const Block& block, const BlockIndex& index, const PlacementRules& rules,
                    BlockPlacement& placement, std::size_t i) {
  const Operator& op = block.operators[i];
  OperatorPlacement& placed = placement.operators[i];
  placed.variant = variant_of(index.operators[i], rules, op);
  for (auto& own : placed.overrides) own.clear();
  placed.loop.clear();
  placed.value = {};
  placed.resident.clear();
  placed.chosen = placement.choice != nullptr && placement.choice->operators[i].has_value();
  if (placed.chosen) {
    place_chosen(op, rules, *placement.choice->operators[i], placed);
  } else {
    for (const DimId dim : op.loop) placed.loop.push_back(rules.slice(placed.variant, dim));
  }
  bool varies = false;
  for (const SliceMap& map : placed.loop) varies = varies || map.varies();
  placed.steps = varies ? rules.ring_steps : 1;
  keep_axes_disjoint(placed.loop);
  if (!placed.chosen) return;
  const std::span<const SquareCut> squares = placement.choice->squares_of(i);
  if (!squares.empty()) place_squares(op, rules, squares, placed);
  const RingCut* ring = placement.choice->ring(i);
  if (ring != nullptr) place_ring(block, op, rules, *placement.choice->operators[i], *ring, placed);
}

void place_block(const Block& block, const BlockIndex& index, const PlacementRules& rules,
                 BlockPlacement& placement, std::size_t number) {
  placement.operators.resize(block.operators.size());
  placement.choice = rules.placements == nullptr ? nullptr : &rules.placements->blocks[number];
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    place_operator(block, index, rules, placement, i);
  }
}

BlockPlacement place_block(const Network& network, const Block& block,
                           const PlacementRules& rules) {
  BlockPlacement placement;
  place_block(block, index_block(network, block), rules, placement);
  return placement;
}

FixedVector<SliceMap, kMaxTensorRank> used_slices(const Block& block, const TensorUse& use,
                                                  const OperatorPlacement& placed,
                                                  OperatorPhase phase,
                                                  const PlacementRules& rules) {
  const std::vector<DimId>& dims = block.tensor(use.tensor).dims;
  FixedVector<SliceMap, kMaxTensorRank> slices;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool grouped = (use.grouped >> i & 1U) != 0;
    const bool own_rule = use.positions[i] < 0 || grouped;
    if (!own_rule) {
      slices.push_back(placed.slices(phase)[static_cast<std::size_t>(use.positions[i])]);
      continue;
    }
    const SliceMap& by_role = rules.slice(placed.variant, dims[i]);
    if (!placed.chosen) {
      slices.push_back(by_role);
    } else if (grouped && use.positions[i] >= 0) {
      const auto heads = static_cast<std::size_t>(use.positions[i]);
      const double extent = rules.extents[static_cast<std::size_t>(dims[i])];
      slices.push_back(
          grouped_under(placed.slices(phase)[heads], static_cast<std::int64_t>(extent)));
    } else {
      slices.push_back(chosen_cut(by_role, rules.mesh, {}));
    }
  }
  return slices;
}

AxisSet repeated_factors(const Block& block, const TensorUse& use, const OperatorPlacement& placed,
                         OperatorPhase phase, const PlacementRules& rules) {
  AxisSet repeated;
  if (use.grouped == 0 || rules.placements == nullptr) return repeated;
  const auto slices = used_slices(block, use, placed, phase, rules);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if ((use.grouped >> i & 1U) == 0 || use.positions[i] < 0) continue;
    const SliceMap& heads = placed.slices(phase)[static_cast<std::size_t>(use.positions[i])];
    repeated = repeated | ((heads.axes() - slices[i].axes()) & kFactorAxes);
  }
  return repeated;
}

FixedVector<int, kMaxTensorRank> loop_positions(const Network& network, const Block& block,
                                                std::size_t operator_index, TensorId id) {
  const Operator& op = block.operators[operator_index];
  const Tensor& tensor = block.tensor(id);
  const auto input = static_cast<std::size_t>(std::ranges::find(op.inputs, id) - op.inputs.begin());
  FixedVector<int, kMaxTensorRank> positions;
  for (std::size_t place = 0; place < tensor.dims.size(); ++place) {
    const DimId own = tensor.dims[place];
    std::optional<std::size_t> position =
        find_dim(op.loop, read_as(network, block, op, input, tensor, place));
    if (*position == op.loop.size() && network.dimension(own).role == DimRole::KvHead) {
      position = find_role(network, op.loop, DimRole::Head);
    }
    const bool known = position && *position < op.loop.size();
    positions.push_back(known ? static_cast<int>(*position) : -1);
  }
  return positions;
}

Layout edge_layout(const Network& network, const Block& block, TensorId id,
                   const PlacementRules& rules, const std::optional<FactorCuts>& cuts) {
  const std::vector<DimId>& dims = block.tensor(id).dims;
  Layout layout;
  if (cuts) {
    for (const DimId dim : dims) {
      layout.dims.push_back(
          cut_as(*cuts, dim, rules.slice(PlacementVariant::Plain, dim), rules.mesh));
    }
    return layout;
  }
  const PlacementVariant variant = surroundings(network, rules, dims);
  for (const DimId dim : dims) layout.dims.push_back(rules.slice(variant, dim));
  return layout;
}

Layout entering_layout(const Network& network, const Block& block, TensorId id,
                       const PlacementRules& rules, const BlockPlacement& placement) {
  if (placement.choice == nullptr) return edge_layout(network, block, id, rules);
  return edge_layout(network, block, id, rules, placement.choice->entering);
}

Layout leaving_layout(const Network& network, const Block& block, TensorId id,
                      const PlacementRules& rules, const BlockPlacement& placement) {
  if (placement.choice == nullptr) return edge_layout(network, block, id, rules);
  return edge_layout(network, block, id, rules, placement.choice->leaving);
}

}  // namespace plansearch
