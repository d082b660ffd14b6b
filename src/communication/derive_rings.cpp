// SPDX-License-Identifier: Apache-2.0
// Computes: rings: the holder of a slice at step t + 1 differs from the holder at step t. Operands
// that are read travel ahead of use, results that travel collect their sum on the way, and what is
// needed again elsewhere than where a phase left it is brought there by one more move. Source: the
// time coefficient of slices (communication/slice_map.hpp). Assumes: one slice travels per step and
// operand. Units: elements of one transfer. Checked by: tests/unit/communication/temporal_test.cpp
#include <algorithm>

#include "communication/derivation.hpp"

namespace plansearch {
namespace {

AxisSet moved_axes(const Shift& shift) {
  AxisSet axes;
  for (std::size_t i = 0; i < shift.size(); ++i) {
    if (shift[i] != 0) axes.insert(static_cast<Axis>(i));
  }
  return axes;
}

void add_moves(RingMoves& moves, AxisSet axes, int count) {
  if (axes.empty()) return;
  for (RingMove& move : moves) {
    if (move.axes == axes) {
      move.count += count;
      return;
    }
  }
  moves.push_back({axes, count});
}

}  // namespace

RingMoves ring_moves(std::span<const SliceMap> slices, int steps, const DeviceMesh& mesh) {
  RingMoves moves;
  const bool varies =
      std::any_of(slices.begin(), slices.end(), [](const SliceMap& map) { return map.varies(); });
  if (!varies) return moves;
  // Offsets grow by the same amount with every step but the last.
  if (steps > 2) {
    add_moves(moves, moved_axes(ring_shift(slices, 0, steps, mesh)), steps - 2);
  }
  if (steps > 1) add_moves(moves, moved_axes(ring_shift(slices, steps - 2, steps, mesh)), 1);
  return moves;
}

namespace derivation {
namespace {

using Slices = FixedVector<SliceMap, kMaxTensorRank>;

std::span<const SliceMap> view(const Slices& slices) {
  return {slices.begin(), slices.size()};
}

Slices at(const Slices& slices, int step, int steps) {
  Slices fixed;
  for (const SliceMap& map : slices) fixed.push_back(map.at(step, steps));
  return fixed;
}

/// One tensor in one phase.
struct Visit {
  OperatorPhase phase;
  Slices slices;
};
using Visits = FixedVector<Visit, kOperatorPhaseCount>;

/// Whether the tensor is needed again in its first layout after the operator is done with it.
enum class Afterwards : std::uint8_t { Forgotten, NeededAgain };

class RingDeriver {
 public:
  RingDeriver(const Context& context, Demands& demands, std::size_t op)
      : context_(context),
        demands_(demands),
        op_(op),
        steps_(context.placement.operators[op].steps) {}

  void run() {
    const Operator& op = context_.op(op_);
    const bool weights = context_.index.operators[op_].trains_weight;
    for (const TensorId id : op.inputs) {
      if (!differentiable(context_.block.tensor(id))) continue;
      const Communication demand = about(Subject::Activation, id);
      Visits visits{visit(OperatorPhase::Forward, id)};
      if (input_gradient_reads_inputs(op.kind)) {
        visits.push_back(visit(OperatorPhase::InputGradient, id));
      }
      if (weights) visits.push_back(visit(OperatorPhase::WeightGradient, id));
      read(demand, visits, Afterwards::Forgotten);
      if (!context_.block.tensor(id).gradient) continue;
      result(about(Subject::ActivationGradient, id), visit(OperatorPhase::InputGradient, id));
    }
    for (const TensorId id : op.outputs) {
      if (!differentiable(context_.block.tensor(id))) continue;
      result(about(Subject::Activation, id), visit(OperatorPhase::Forward, id));
      if (!context_.block.tensor(id).gradient) continue;
      Visits visits{visit(OperatorPhase::InputGradient, id)};
      if (weights) visits.push_back(visit(OperatorPhase::WeightGradient, id));
      read(about(Subject::ActivationGradient, id), visits, Afterwards::Forgotten);
    }
    for (const ParameterId id : op.parameters) parameter(id);
  }

 private:
  [[nodiscard]] Visit visit(OperatorPhase phase, TensorId id) const {
    return {phase, context_.slices(op_, id, phase)};
  }

  [[nodiscard]] Visit visit(OperatorPhase phase, ParameterId id) const {
    const auto& loop = context_.placement.operators[op_].slices(phase);
    Visit result{phase, {}};
    for (const std::int8_t position : context_.index.operators[op_].use(id).positions) {
      result.slices.push_back(loop[static_cast<std::size_t>(position)]);
    }
    return result;
  }

  [[nodiscard]] double elements(const std::vector<DimId>& dims, const Slices& slices) const {
    double count = 1.0;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      count *= context_.rules.extents[static_cast<std::size_t>(dims[i])] / slices[i].slices();
    }
    return count;
  }

  [[nodiscard]] Communication about(Subject subject, TensorId id) const {
    const Tensor& tensor = context_.block.tensor(id);
    Communication demand;
    demand.subject = subject;
    demand.kind = CommunicationKind::SendReceive;
    demand.wire = wire_class(tensor.element);
    demand.index = static_cast<std::uint32_t>(id);
    demand.operator_index = static_cast<std::uint32_t>(op_);
    demand.elements = elements(tensor.dims, context_.slices(op_, id, OperatorPhase::Forward));
    return demand;
  }

  void parameter(ParameterId id) {
    const Parameter& parameter = context_.block.parameter(id);
    const Visit forward = visit(OperatorPhase::Forward, id);
    Communication demand;
    demand.subject = Subject::Parameter;
    demand.kind = CommunicationKind::SendReceive;
    demand.wire = WireClass::Parameter;
    demand.index = static_cast<std::uint32_t>(id);
    demand.operator_index = static_cast<std::uint32_t>(op_);
    demand.elements = elements(parameter.dims, forward.slices);
    read(demand, {forward, visit(OperatorPhase::InputGradient, id)}, Afterwards::NeededAgain);
    if (parameter.trainable == Trainable::No) return;
    demand.subject = Subject::Gradient;
    demand.wire = WireClass::Gradient;
    result(demand, visit(OperatorPhase::WeightGradient, id));
  }

  /// An operand: it moves between steps; where the next phase starts elsewhere, either the first
  /// layout was kept for it, or one more move brings the travelling copy there.
  void read(const Communication& demand, const Visits& visits, Afterwards afterwards) {
    const Slices home = at(visits[0].slices, 0, steps_);
    bool home_kept = false;
    for (std::size_t i = 0; i < visits.size(); ++i) {
      const Visit& here = visits[i];
      RingMoves moves = ring_moves(view(here.slices), steps_, context_.mesh());
      const Slices end = at(here.slices, steps_ - 1, steps_);
      const bool last = i + 1 == visits.size();
      const Slices next = last ? home : at(visits[i + 1].slices, 0, steps_);
      const bool wanted = !last || afterwards == Afterwards::NeededAgain;
      if (wanted && !(end == next)) {
        if (!last && next == home) {
          home_kept = true;
        } else if (!(last && home_kept)) {
          align(moves, end, next);
        }
      }
      emit(demand, here.phase, moves);
    }
  }

  /// A result: a tile that travels is complete when it has visited everyone, and then goes home.
  void result(const Communication& demand, const Visit& visit) {
    RingMoves moves = ring_moves(view(visit.slices), steps_, context_.mesh());
    const bool travels =
        std::any_of(visit.slices.begin(), visit.slices.end(),
                    [](const SliceMap& map) { return !map.travelling_axes().empty(); });
    if (travels) align(moves, at(visit.slices, steps_ - 1, steps_), at(visit.slices, 0, steps_));
    emit(demand, visit.phase, moves);
  }

  void align(RingMoves& moves, const Slices& from, const Slices& to) const {
    const auto shift = alignment_shift(view(from), view(to), context_.mesh());
    if (shift) add_moves(moves, moved_axes(*shift), 1);
  }

  void emit(Communication demand, OperatorPhase phase, const RingMoves& moves) {
    demand.phase = static_cast<DemandPhase>(phase);
    for (const RingMove& move : moves) {
      demand.axes = move.axes;
      demand.group_size = context_.mesh().size(move.axes);
      demand.count = move.count;
      demands_.push_back(demand);
    }
  }

  const Context& context_;
  Demands& demands_;
  std::size_t op_;
  int steps_;
};

}  // namespace

void derive_rings(const Context& context, Demands& demands) {
  for (std::size_t i = 0; i < context.block.operators.size(); ++i) {
    if (context.placement.operators[i].steps > 1) RingDeriver(context, demands, i).run();
  }
}

}  // namespace derivation
}  // namespace plansearch
