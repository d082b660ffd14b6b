// SPDX-License-Identifier: Apache-2.0
// Computes: every communication of a block under a placement, and the peers of a stage edge.
// Source: how tensors are produced against how they are used; one file per subject (derive_*.cpp).
// Assumes: placement and policies are legal.
// Units: elements of the whole message.
// Checked by: tests/unit/communication/derivation_test.cpp,
// tests/unit/communication/conservation_test.cpp
#include "communication/derive/derive.hpp"

#include <algorithm>

#include "communication/derive/derivation.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace derivation {

AxisSet partial_axes(const Context& context, std::size_t op_index, OperatorPhase phase,
                     PositionMask carried, bool stays) {
  const std::vector<SliceMap>& slices = context.placement.operators[op_index].slices(phase);
  const int steps = context.placement.operators[op_index].steps;
  AxisSet partial;
  AxisSet travelled;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if ((carried >> i & 1U) == 0) {
      partial = partial | slices[i].spatial_axes(steps);
    } else if (!stays) {
      travelled = travelled | slices[i].travelling_axes(steps);
    }
  }
  return partial - travelled;
}

bool crosses_orders(const Context& context, std::size_t op_index, TensorId tensor) {
  const OperatorIndex& op = context.index.operators[op_index];
  return op.routed && !op.exchanges && op.use(tensor).carried == 0;
}

AxisSet deferred_axes(const Context& context, std::size_t op_index) {
  const OperatorIndex& op = context.index.operators[op_index];
  return op.from_parameters && op.trains ? replica_axes(context.mesh()) | AxisSet{Axis::Depth}
                                         : AxisSet{};
}

WireClass wire_class(ElementClass element) {
  switch (element) {
    case ElementClass::Activation:
      return WireClass::Activation;
    case ElementClass::Statistic:
      return WireClass::Statistic;
    case ElementClass::Mask:
      return WireClass::Mask;
    case ElementClass::Index:
      return WireClass::Index;
    case ElementClass::Logit:
      return WireClass::Logit;
  }
  throw InternalError("unknown element class");
}

namespace {

/// In order; few enough for insertion, and equals stay as they are.
void sort_from(Demands& demands, std::size_t first) {
  const auto begin = demands.begin() + static_cast<std::ptrdiff_t>(first);
  for (auto it = begin; it != demands.end(); ++it) {
    std::rotate(std::upper_bound(begin, it, *it, comes_before), it, it + 1);
  }
}

bool grows(const Network& network, const std::vector<DimId>& dims) {
  return std::ranges::any_of(dims, [&](DimId dim) {
    const DimRole role = network.dimension(dim).role;
    return role == DimRole::Batch || role == DimRole::Routed;
  });
}

}  // namespace
}  // namespace derivation

void DerivationScratchDeleter::operator()(DerivationScratch* scratch) const {
  delete scratch;
}

DerivationScratchPtr make_derivation_scratch() {
  return make_derivation_scratch(make_redistribution_scratch());
}

DerivationScratchPtr make_derivation_scratch(RedistributionScratchPtr redistribution) {
  DerivationScratchPtr scratch(new DerivationScratch);
  scratch->redistribution = std::move(redistribution);
  return scratch;
}

/// Forward visits operators upwards, the others downwards.
bool comes_before(const Communication& a, const Communication& b) {
  if (a.phase != b.phase) return a.phase < b.phase;
  if (a.operator_index != b.operator_index) {
    const bool upwards = a.phase == DemandPhase::Forward || a.phase == DemandPhase::Step;
    return upwards == (a.operator_index < b.operator_index);
  }
  return a.side < b.side;
}

bool grows_with_micro_batch(const Network& network, const Block& block,
                            const Communication& demand) {
  switch (demand.subject) {
    case Subject::Activation:
    case Subject::ActivationGradient:
      return derivation::grows(network, block.tensors[demand.index].dims);
    case Subject::Statistics:
      return derivation::grows(network, block.operators[demand.index].loop);
    case Subject::Parameter:
    case Subject::Gradient:
    case Subject::Update:
      return false;
  }
  throw InternalError("unknown subject");
}

void derive_operator_communication(const DerivationInput& input, DerivationScratch& scratch,
                                   std::vector<Communication>& demands) {
  const derivation::Context context{input, scratch};
  const std::size_t first = demands.size();
  derivation::derive_activations(context, demands);
  for (std::size_t op = 0; op < input.block.operators.size(); ++op) {
    derivation::derive_inside(context, op, demands);
  }
  derivation::sort_from(demands, first);
}

void derive_parameter_communication(const DerivationInput& input, const TensorPolicies& policies,
                                    DerivationScratch& scratch,
                                    std::vector<Communication>& demands) {
  const derivation::Context context{input, scratch};
  const std::size_t first = demands.size();
  derivation::derive_parameters(context, policies, demands);
  derivation::sort_from(demands, first);
}

namespace {

/// A parameter with a key, and how many stages hold it.
struct SharedPlace {
  std::string_view key;
  std::size_t last_stage = 0;
  int stages = 0;
  double elements = 0.0;
  std::uint32_t index = 0;
};

/// The choice of the plan for the operator that uses a parameter; null: by role.
const FactorCuts* chosen_cuts(const PlacementRules& rules, const Block& block, std::size_t number,
                              ParameterId id) {
  if (rules.placements == nullptr) return nullptr;
  const BlockChoice& choice = rules.placements->blocks[number];
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    const auto& used = block.operators[i].parameters;
    if (std::ranges::find(used, id) == used.end()) continue;
    return choice.operators[i] ? &*choice.operators[i] : nullptr;
  }
  return nullptr;
}

double plain_elements(const PlacementRules& rules, const Block& block, std::size_t number,
                      std::size_t index) {
  const Parameter& parameter = block.parameters[index];
  const FactorCuts* cuts = chosen_cuts(rules, block, number, static_cast<ParameterId>(index));
  double elements = 1.0;
  for (const DimId dim : parameter.dims) {
    SliceMap map = rules.slice(PlacementVariant::Plain, dim);
    if (cuts != nullptr) {
      const auto found = std::ranges::find(*cuts, dim, &DimensionCut::dim);
      map = chosen_cut(map, rules.mesh, found == cuts->end() ? FactorList{} : found->factors);
    }
    elements *= rules.extents[static_cast<std::size_t>(dim)] / map.slices();
  }
  return elements;
}

/// Sorted by key.
std::vector<SharedPlace> shared_places(const Network& network, const PlacementRules& rules,
                                       const StageBlocks& stages) {
  std::vector<SharedPlace> places;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (const std::size_t b : stages[stage]) {
      const Block& block = network.blocks[b];
      for (std::size_t p = 0; p < block.parameters.size(); ++p) {
        const Parameter& parameter = block.parameters[p];
        if (parameter.shared_key.empty() || parameter.trainable == Trainable::No) continue;
        auto place = std::ranges::lower_bound(places, std::string_view(parameter.shared_key), {},
                                              &SharedPlace::key);
        if (place == places.end() || place->key != parameter.shared_key) {
          place = places.insert(place, {.key = parameter.shared_key});
        }
        if (place->stages == 0 || place->last_stage != stage) ++place->stages;
        place->last_stage = stage;
        place->index = static_cast<std::uint32_t>(p);
        place->elements = plain_elements(rules, block, b, p);
      }
    }
  }
  return places;
}

}  // namespace

std::vector<SharedGradient> derive_shared_parameters(const Network& network,
                                                     const PlacementRules& rules,
                                                     const StageBlocks& stages,
                                                     const TensorPolicies& policies) {
  std::vector<SharedGradient> demands;
  for (const SharedPlace& place : shared_places(network, rules, stages)) {
    if (place.stages < 2) continue;
    Communication demand;
    demand.subject = Subject::Gradient;
    demand.kind = CommunicationKind::AllReduce;
    demand.wire = WireClass::Gradient;
    demand.phase = DemandPhase::Step;
    demand.scope = Scope::Step;
    demand.on_recompute = RecomputeGather::Shared;
    demand.axes = {Axis::Pipeline};
    demand.index = place.index;
    demand.group_size = place.stages;
    demand.elements = place.elements / policies.dense.gradient.pieces;
    for (const AxisSet axes : policies.dense.gradient.storage) demand.cut = demand.cut | axes;
    demands.push_back({place.key, demand});
  }
  return demands;
}

}  // namespace plansearch
