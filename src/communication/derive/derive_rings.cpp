// SPDX-License-Identifier: Apache-2.0
// Computes: the messages of operators that run in steps: equal moves of a tile are one message that
//           is sent several times.
// Source: communication/slices/tile_moves.hpp.
// Assumes: a tile has the size that the forward phase uses.
// Units: elements of one transfer.
// Checked by: tests/unit/communication/temporal_test.cpp
#include <algorithm>

#include "communication/derive/derivation.hpp"
#include "communication/slices/tile_moves.hpp"

namespace plansearch::derivation {
namespace {

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
  return std::find(before.inputs.begin(), before.inputs.end(), static_cast<TensorId>(move.index)) !=
         before.inputs.end();
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

}  // namespace

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

void derive_rings(const Context& context, Demands& demands) {
  for (std::size_t i = 0; i < context.block.operators.size(); ++i) {
    derive_rings(context, i, demands);
  }
}

}  // namespace plansearch::derivation
