// SPDX-License-Identifier: Apache-2.0
// Computes: messages between the devices of one operator while it runs. Row statistics (partial
//           means and variances of a norm, maxima and sums of a softmax, maxima, sums and target
//           logits of a loss); states of a recurrence over slices of its tokens; borders between slices of a tensor that is read through windows:
//           places needed and not held, dimension by dimension; tiles of operators in steps.
// Source: the reduced dimension of an operator and its spatial axes; workload/window.hpp: in
//         training the borders come again for the weight gradient, and parts of the input gradient
//         go back to who holds the place, as in torch/distributed/tensor/_tp_conv.py
//         (tp_convolution, tp_convolution_backward, torch 2.9);
//         communication/slices/tile_moves.hpp.
// Assumes: one all-reduce per round of statistics; an operator normalises over all its sharded
//          dimensions at once; the slice with the widest border receives as much as each device
//          sends at once; a tile has the size that the forward phase uses.
// Units: elements of the whole message, of borders and tiles those of one transfer.
// Checked by: tests/unit/communication/derivation_test.cpp, halo_test.cpp, temporal_test.cpp,
//             tests/graphs/graph_test.py
#include <algorithm>

#include "communication/derive/derivation.hpp"
#include "communication/slices/tile_moves.hpp"
#include "workload/operator_traits.hpp"
#include "workload/window.hpp"

namespace plansearch {
namespace derivation {
namespace {

/// The axes that cut dimensions of these roles in the loop of an operator, but between groups, and
/// how many elements of the other dimensions and groups a device has.
struct CutRoles {
  AxisSet axes;
  double others = 1.0;
};

CutRoles cut_roles(const Context& context, std::size_t i, const RoleSet& roles) {
  const Operator& op = context.op(i);
  const OperatorPlacement& placed = context.placement.operators[i];
  CutRoles cut;
  for (std::size_t p = 0; p < op.loop.size(); ++p) {
    const DimRole role = context.network.dimension(op.loop[p]).role;
    const int slices = placed.loop[p].slices();
    if (!roles.contains(role)) {
      cut.others *= context.rules.extents[static_cast<std::size_t>(op.loop[p])] / slices;
      continue;
    }
    if (lies_in_groups(role)) {
      cut.others *= std::max(1.0, static_cast<double>(op.groups) / slices);
      if (!reduces_over(op, role, slices)) continue;
    }
    cut.axes = cut.axes | placed.loop[p].spatial_axes(placed.steps);
  }
  return cut;
}

/// A message of statistics behind an operator.
Communication of_statistics(const Context& context, std::size_t i, CommunicationKind kind,
                            AxisSet axes) {
  Communication demand;
  demand.subject = Subject::Statistics;
  demand.kind = kind;
  demand.wire = WireClass::Statistic;
  demand.side = Side::After;
  demand.axes = axes;
  demand.index = static_cast<std::uint32_t>(i);
  demand.operator_index = static_cast<std::uint32_t>(i);
  demand.group_size = context.mesh().size(axes);
  return demand;
}

/// Row statistics, where the operator normalises over sharded dimensions.
void derive_statistics(const Context& context, std::size_t i, Demands& demands) {
  const Operator& op = context.op(i);
  const RowStatistics& statistics = traits(op).statistics;
  if (statistics.over.empty()) return;
  const CutRoles cut = cut_roles(context, i, statistics.over);
  if (cut.axes.empty()) return;
  Communication demand = of_statistics(context, i, CommunicationKind::AllReduce, cut.axes);
  demand.elements = cut.others * statistics.values;
  demand.count = statistics.forward;
  demands.push_back(demand);
  if (statistics.backward == 0 || !needs_input_gradient(context.block, op)) return;
  demand.phase = DemandPhase::InputGradient;
  demand.count = statistics.backward;
  demands.push_back(demand);
}

/// States that slices of the tokens take over from those before them: every one gets all of them,
/// whatever their length; their gradients come back the same way.
void derive_states(const Context& context, std::size_t i, Demands& demands) {
  const Operator& op = context.op(i);
  if (op.carried == 0.0) return;
  const CutRoles cut = cut_roles(context, i, {DimRole::Sequence});
  if (cut.axes.empty()) return;
  Communication demand = of_statistics(context, i, CommunicationKind::AllGather, cut.axes);
  demand.elements = op.carried * cut.others * demand.group_size;
  demands.push_back(demand);
  if (!needs_input_gradient(context.block, op)) return;
  demand.phase = DemandPhase::InputGradient;
  demands.push_back(demand);
}

struct Border {
  AxisSet axes;
  double elements = 0.0;  ///< that the device with the widest one receives
};

Border border_of(const Context& context, std::size_t op_index, std::size_t input) {
  const Operator& op = context.op(op_index);
  const TensorId id = op.inputs[input];
  const std::vector<DimId>& dims = context.block.tensor(id).dims;
  const TensorUse& use = context.index.operators[op_index].use(id);
  const auto slices = used_slices(context.block, use, context.placement.operators[op_index],
                                  OperatorPhase::Forward, context.rules);
  const std::vector<double>& extents = context.rules.extents;
  Border border;
  double held = 1.0;
  double needed = 1.0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const double extent = extents[static_cast<std::size_t>(dims[i])];
    const double own = extent / slices[i].slices();
    const IndexExpression& index = op.reads[input][i];
    held *= own;
    if (index.plain() || slices[i].whole() || use.positions[i] < 0) {
      needed *= own;
      continue;
    }
    const DimId moving = op.loop[static_cast<std::size_t>(use.positions[i])];
    const WindowPlaces places = window_places({index, moving, extent, extents}, slices[i].slices());
    needed *= places.most;
    if (places.most > places.held) border.axes = border.axes | slices[i].axes();
  }
  border.elements = needed - held;
  return border;
}

/// Borders of slices that the operator reads through windows.
void derive_halos(const Context& context, std::size_t op_index, Demands& demands) {
  const Operator& op = context.op(op_index);
  for (std::size_t input = 0; input < op.reads.size(); ++input) {
    if (op.reads[input].empty()) continue;
    const Border border = border_of(context, op_index, input);
    if (border.elements <= 0.0) continue;
    const Tensor& tensor = context.block.tensor(op.inputs[input]);
    Communication demand;
    demand.kind = CommunicationKind::SendReceive;
    demand.wire = wire_class(tensor.element);
    demand.axes = border.axes;
    demand.index = static_cast<std::uint32_t>(op.inputs[input]);
    demand.operator_index = static_cast<std::uint32_t>(op_index);
    demand.reader = demand.operator_index;
    demand.group_size = context.mesh().size(border.axes);
    demand.elements = border.elements;
    demands.push_back(demand);
    if (traits(op).multiplies_weight() && context.index.operators[op_index].trains_weight) {
      demand.phase = DemandPhase::WeightGradient;
      demands.push_back(demand);
    }
    if (!tensor.gradient || !differentiable(tensor)) continue;
    demand.subject = Subject::ActivationGradient;
    demand.phase = DemandPhase::InputGradient;
    demand.side = Side::After;
    demands.push_back(demand);
  }
}

double elements(const Context& context, const std::vector<DimId>& dims, const Slices& slices) {
  double count = 1.0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    count *= context.rules.extents[static_cast<std::size_t>(dims[i])] / slices[i].slices();
  }
  return count;
}

bool is_parameter(Subject subject) {
  return subject == Subject::Parameter || subject == Subject::Gradient;
}

WireClass wire_of(const Context& context, const TileMove& move) {
  if (move.subject == Subject::Parameter) return WireClass::Parameter;
  if (move.subject == Subject::Gradient) return WireClass::Gradient;
  return wire_class(context.block.tensors[move.index].element);
}

Communication message(const Context& context, std::size_t op, const TileMove& move) {
  Communication demand;
  demand.subject = move.subject;
  demand.kind = CommunicationKind::SendReceive;
  demand.wire = wire_of(context, move);
  demand.phase = static_cast<DemandPhase>(move.phase);
  demand.axes = move.axes;
  demand.index = move.index;
  demand.operator_index = static_cast<std::uint32_t>(op);
  demand.group_size = context.mesh().size(move.axes);
  demand.count = move.count;
  demand.steps = context.placement.operators[op].steps;
  const auto& dims = is_parameter(move.subject) ? context.block.parameters[move.index].dims
                                                : context.block.tensors[move.index].dims;
  demand.elements = elements(context, dims, move.used);
  return demand;
}

/// Operators of one launch read one copy of their input, which travels once.
bool travels_already(const Context& context, std::size_t op, const TileMove& move) {
  if (op == 0 || move.subject != Subject::Activation) return false;
  const Operator& before = context.op(op - 1);
  const std::string& key = context.op(op).fused_key;
  if (key.empty() || key != before.fused_key) return false;
  return std::ranges::find(before.inputs, static_cast<TensorId>(move.index)) != before.inputs.end();
}

/// Adds to a message that is sent several times, or is the first one of its kind.
void add(Demands& demands, std::size_t first, const Communication& demand) {
  for (std::size_t i = first; i < demands.size(); ++i) {
    Communication& known = demands[i];
    if (known.subject != demand.subject || known.index != demand.index ||
        known.phase != demand.phase || !(known.axes == demand.axes)) {
      continue;
    }
    known.count += demand.count;
    return;
  }
  demands.push_back(demand);
}

/// Tiles that travel between the steps of the operator: equal moves are one message that is sent
/// several times.
void derive_rings(const Context& context, std::size_t op, Demands& demands) {
  thread_local OperatorMoves found;
  if (context.placement.operators[op].steps == 1) return;
  found.clear();
  find_tile_moves(context, op, found);
  const std::size_t first = demands.size();
  for (const TileMove& move : found.moves) {
    if (!travels_already(context, op, move)) add(demands, first, message(context, op, move));
  }
}

}  // namespace

void derive_inside(const Context& context, std::size_t op, Demands& demands) {
  derive_statistics(context, op, demands);
  derive_states(context, op, demands);
  derive_halos(context, op, demands);
  derive_rings(context, op, demands);
}

}  // namespace derivation

void derive_inside(const DerivationInput& input, DerivationScratch& scratch, std::size_t op,
                   std::vector<Communication>& demands) {
  derivation::derive_inside({input, scratch}, op, demands);
}

}  // namespace plansearch
