// SPDX-License-Identifier: Apache-2.0
// Computes: row statistics of operators that normalise over a sharded dimension: partial means and
//           variances of a norm, maxima and sums of a softmax, maxima, sums and target logits of a
//           loss.
// Source: the reduced dimension of the operator and its spatial axes.
// Assumes: one all-reduce per round of statistics; an operator normalises over all its sharded
//          dimensions at once.
// Units: elements of the whole message.
// Checked by: tests/unit/communication/derivation_test.cpp
#include "communication/derive/derivation.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::derivation {

void derive_statistics(const Context& context, std::size_t i, Demands& demands) {
  const Operator& op = context.op(i);
  const RowStatistics& statistics = traits(op).statistics;
  if (statistics.over.empty()) return;
  const auto& slices = context.placement.operators[i].loop;
  AxisSet axes;
  double rows = 1.0;
  for (std::size_t p = 0; p < op.loop.size(); ++p) {
    if (statistics.over.contains(context.network.dimension(op.loop[p]).role)) {
      axes = axes | slices[p].spatial_axes(context.placement.operators[i].steps);
    } else {
      rows *= context.rules.extents[static_cast<std::size_t>(op.loop[p])] / slices[p].slices();
    }
  }
  if (axes.empty()) return;
  Communication demand;
  demand.subject = Subject::Statistics;
  demand.kind = CommunicationKind::AllReduce;
  demand.wire = WireClass::Statistic;
  demand.side = Side::After;
  demand.axes = axes;
  demand.index = static_cast<std::uint32_t>(i);
  demand.operator_index = static_cast<std::uint32_t>(i);
  demand.group_size = context.mesh().size(axes);
  demand.elements = rows * statistics.values;
  demand.count = statistics.forward;
  demands.push_back(demand);
  if (statistics.backward == 0 || !needs_input_gradient(context.block, op)) return;
  demand.phase = DemandPhase::InputGradient;
  demand.count = statistics.backward;
  demands.push_back(demand);
}

void derive_statistics(const Context& context, Demands& demands) {
  for (std::size_t i = 0; i < context.block.operators.size(); ++i) {
    derive_statistics(context, i, demands);
  }
}

}  // namespace plansearch::derivation
