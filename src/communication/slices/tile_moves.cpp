// SPDX-License-Identifier: Apache-2.0
// Computes: the moves of tiles between the steps of an operator, and at the ends of its phases.
//           Operands that are read travel ahead of use, results that travel collect their sum on
//           the way and then go home, and what a phase needs elsewhere than where the one before
//           left it is brought there by one more move, unless its first tile was kept.
// Source: held and used slices by phase (communication/slices/slice_map.hpp); PrimePar (ASPLOS
//         2024, section 3) and ring attention come out as cases.
// Assumes: one tile of an operand per step.
// Units: tiles, steps.
// Checked by: tests/unit/communication/execution_test.cpp,
//             tests/unit/communication/temporal_test.cpp
#include "communication/slices/tile_moves.hpp"

#include <algorithm>

namespace plansearch::derivation {
namespace {

std::span<const SliceMap> view(const Slices& slices) {
  return {slices.begin(), slices.size()};
}

Slices at(const Slices& slices, int step, int steps) {
  Slices fixed;
  for (const SliceMap& map : slices) fixed.push_back(map.varies() ? map.at(step, steps) : map);
  return fixed;
}

bool varies(const Slices& slices) {
  return std::ranges::any_of(slices, [](const SliceMap& map) { return map.varies(); });
}

bool travels(const Slices& slices, int steps) {
  return std::ranges::any_of(
      slices, [&](const SliceMap& map) { return !map.travelling_axes(steps).empty(); });
}

Slices held(const Slices& slices) {
  Slices all;
  for (const SliceMap& map : slices) all.push_back(map.held());
  return all;
}

/// Whether the tensor is needed again in its first layout after the operator is done with it.
enum class Afterwards : std::uint8_t { Forgotten, NeededAgain };

class MoveFinder {
 public:
  MoveFinder(const Context& context, std::size_t op, OperatorMoves& found)
      : context_(context),
        op_(op),
        placed_(context.placement.operators[op]),
        steps_(placed_.steps),
        found_(found) {}

  void run() {
    const Operator& op = context_.op(op_);
    const bool weights = context_.index.operators[op_].trains_weight;
    for (const TensorId id : op.inputs) {
      if (!differentiable(context_.block.tensor(id)) || placed_.stays(id)) continue;
      Visits visits{visit(OperatorPhase::Forward, id)};
      if (traits(op).multiplies_activations()) {
        visits.push_back(visit(OperatorPhase::InputGradient, id));
      }
      if (weights) visits.push_back(visit(OperatorPhase::WeightGradient, id));
      read(about(Subject::Activation, id), visits, Afterwards::Forgotten);
      if (!context_.block.tensor(id).gradient) continue;
      result(about(Subject::ActivationGradient, id), visit(OperatorPhase::InputGradient, id),
             visits[0]);
    }
    for (const TensorId id : op.outputs) {
      if (!differentiable(context_.block.tensor(id)) || placed_.stays(id)) continue;
      const Visit made = visit(OperatorPhase::Forward, id);
      result(about(Subject::Activation, id), made,
             {made.phase, at(made.slices, steps_ - 1, steps_)});
      if (!context_.block.tensor(id).gradient) continue;
      Visits visits{visit(OperatorPhase::InputGradient, id)};
      if (weights) visits.push_back(visit(OperatorPhase::WeightGradient, id));
      read(about(Subject::ActivationGradient, id), visits, Afterwards::Forgotten);
    }
    for (const ParameterId id : op.parameters) parameter(id, id == op.parameters.front());
  }

 private:
  /// One tensor in one phase.
  struct Visit {
    OperatorPhase phase;
    Slices slices;
  };
  using Visits = FixedVector<Visit, kOperatorPhaseCount>;

  [[nodiscard]] Visit visit(OperatorPhase phase, TensorId id) const {
    return {phase, context_.slices(op_, id, phase)};
  }

  [[nodiscard]] Visit visit(OperatorPhase phase, ParameterId id) const {
    const auto& loop = placed_.slices(phase);
    Visit result{phase, {}};
    for (const std::int8_t position : context_.index.operators[op_].use(id).positions) {
      result.slices.push_back(loop[static_cast<std::size_t>(position)]);
    }
    return result;
  }

  template <typename Id>
  static TileMove about(Subject subject, Id id) {
    TileMove move;
    move.subject = subject;
    move.index = static_cast<std::uint32_t>(id);
    return move;
  }

  /// Only the weight, which comes first, is read again by the input gradient.
  void parameter(ParameterId id, bool weight) {
    const Visit forward = visit(OperatorPhase::Forward, id);
    Visits visits{forward};
    if (weight) visits.push_back(visit(OperatorPhase::InputGradient, id));
    read(about(Subject::Parameter, id), visits, Afterwards::NeededAgain);
    if (context_.block.parameter(id).trainable == Trainable::No) return;
    result(about(Subject::Gradient, id), visit(OperatorPhase::WeightGradient, id), forward);
  }

  /// An operand: it moves between steps; where the next phase starts elsewhere, either the first
  /// tile was kept for it, or one more move brings the travelling one there.
  void read(TileMove move, const Visits& visits, Afterwards afterwards) {
    const Slices home = at(visits[0].slices, 0, steps_);
    bool home_kept = false;
    for (std::size_t i = 0; i < visits.size(); ++i) {
      const Visit& here = visits[i];
      between_steps(move, here);
      const Slices end = at(here.slices, steps_ - 1, steps_);
      const bool last = i + 1 == visits.size();
      const Slices next = last ? home : at(visits[i + 1].slices, 0, steps_);
      const bool wanted = !last || afterwards == Afterwards::NeededAgain;
      if (!wanted || end == next) continue;
      if (!last && next == home) {
        if (!home_kept) found_.kept.push_back({move.subject, move.index});
        home_kept = true;
      } else if (!(last && home_kept)) {
        align(move, here, end, next);
      }
    }
  }

  /// A result: a tile that travels is complete when it has visited everyone, and then goes home.
  void result(const TileMove& move, const Visit& visit, const Visit& home) {
    between_steps(move, visit);
    if (!travels(visit.slices, steps_)) return;
    align(move, visit, at(visit.slices, steps_ - 1, steps_), at(home.slices, 0, steps_));
  }

  /// Offsets grow by the same amount with every step but the last; in nested squares not every step
  /// moves the outer one.
  void between_steps(const TileMove& move, const Visit& visit) {
    if (!varies(visit.slices)) return;
    if (!std::ranges::all_of(visit.slices, [](const SliceMap& map) { return map.steady(); })) {
      for (int step = 0; step + 1 < steps_; ++step) between_steps(move, visit, step, 1);
      return;
    }
    if (steps_ > 2) between_steps(move, visit, 0, steps_ - 2);
    if (steps_ > 1) between_steps(move, visit, steps_ - 2, 1);
  }

  void between_steps(TileMove move, const Visit& visit, int step, int count) {
    const auto axes = moved_axes(view(at(visit.slices, step, steps_)),
                                 view(at(visit.slices, step + 1, steps_)), context_.mesh());
    PLANSEARCH_CHECK(axes.has_value());
    move.step = step;
    move.count = count;
    add(move, visit, *axes);
  }

  void align(TileMove move, const Visit& visit, const Slices& from, const Slices& to) {
    if (from == to) return;
    const auto axes = moved_axes(view(from), view(to), context_.mesh());
    if (!axes) return;
    move.step = steps_ - 1;
    move.target = to;
    add(move, visit, *axes);
  }

  void add(TileMove& move, const Visit& visit, AxisSet axes) {
    if (axes.empty()) return;
    move.phase = visit.phase;
    move.axes = axes;
    move.used = visit.slices;
    found_.moves.push_back(move);
  }

  const Context& context_;
  std::size_t op_;
  const OperatorPlacement& placed_;
  int steps_;
  OperatorMoves& found_;
};

}  // namespace

Slices start_slices(const Context& context, std::size_t op_index, TensorId tensor,
                    OperatorPhase phase) {
  const OperatorPlacement& placed = context.placement.operators[op_index];
  const Slices used = context.slices(op_index, tensor, phase);
  if (!varies(used)) return used;
  return placed.stays(tensor) ? held(used) : at(used, 0, placed.steps);
}

Slices end_slices(const Context& context, std::size_t op_index, TensorId tensor,
                  OperatorPhase phase) {
  const OperatorPlacement& placed = context.placement.operators[op_index];
  const Slices used = context.slices(op_index, tensor, phase);
  if (!varies(used)) return used;
  if (placed.stays(tensor)) return held(used);
  const Slices left = at(used, placed.steps - 1, placed.steps);
  if (phase == OperatorPhase::Forward || !travels(used, placed.steps)) return left;
  const Slices home = start_slices(context, op_index, tensor, OperatorPhase::Forward);
  return moved_axes(view(left), view(home), context.mesh()) ? home : left;
}

void find_tile_moves(const Context& context, std::size_t op_index, OperatorMoves& found) {
  if (context.placement.operators[op_index].steps > 1) MoveFinder(context, op_index, found).run();
}

}  // namespace plansearch::derivation
