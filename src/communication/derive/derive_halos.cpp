// SPDX-License-Identifier: Apache-2.0
// Computes: exchanges of borders between devices that hold slices of a tensor which is read through
//           windows: places needed and not held, dimension by dimension.
// Source: workload/window.hpp. In training the borders come again for the weight
//         gradient, and parts of the input gradient go back to who holds the place, as in
//         torch/distributed/tensor/_tp_conv.py (tp_convolution, tp_convolution_backward,
//         torch 2.9).
// Assumes: what the slice with the widest border receives is what each device sends at once.
// Units: elements that one device receives.
// Checked by: tests/unit/communication/halo_test.cpp, tests/graphs/graph_test.py
#include "communication/derive/derivation.hpp"
#include "workload/operator_traits.hpp"
#include "workload/window.hpp"

namespace plansearch::derivation {
namespace {

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

}  // namespace

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

void derive_halos(const Context& context, Demands& demands) {
  for (std::size_t i = 0; i < context.block.operators.size(); ++i) {
    derive_halos(context, i, demands);
  }
}

}  // namespace plansearch::derivation
