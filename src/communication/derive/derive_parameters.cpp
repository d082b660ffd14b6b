// SPDX-License-Identifier: Apache-2.0
// Computes: gathers (storage to use), reductions (as backward produced it to storage) and updates
// (optimizer state to storage) of parameters and gradients; what updates of whole matrices need.
// Source: flat cuts of the tensor policies (communication/derive/tensor_policy.hpp); slices of a
// matrix: NVIDIA-NeMo/Emerging-Optimizers@fd772926 muon_utils.py: newton_schulz_tp, pieces:
// pytorch/torchtitan@b5bcd76c distributed/flex_shard/dist_muon.py.
// Assumes: local parameters cut into equal pieces, the last one padded.
// Units: elements of the whole message.
// Checked by: tests/unit/communication/derivation_test.cpp,
// tests/unit/communication/micro_batch_test.cpp
#include <algorithm>

#include "communication/derive/derivation.hpp"

namespace plansearch::derivation {
namespace {

AxisSet without(AxisSet axes, AxisSet used) {
  return axes - used;
}

class ParameterDeriver {
 public:
  ParameterDeriver(const Context& context, const TensorPolicies& policies, Demands& demands,
                   std::size_t op, ParameterId id)
      : context_(context), policies_(policies), demands_(demands), op_(op), id_(id) {
    const auto& positions = context.index.operators[op].use(id).positions;
    const auto& loop = context.placement.operators[op].loop;
    bool on_expert_grid = false;
    if (const MatrixUpdates* updates = policies.updates) {
      matrix_ = matrix_dims(context.network, context.block, context.op(op), id, *updates);
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const DimId dim = context.block.parameter(id).dims[i];
      const SliceMap& map = loop[static_cast<std::size_t>(positions[i])];
      note_side(i, context.rules.extents[static_cast<std::size_t>(dim)], map);
      used_ = used_ | map.axes();
      elements_ *= context.rules.extents[static_cast<std::size_t>(dim)] / map.slices();
      on_expert_grid = on_expert_grid || context.network.dimension(dim).role == DimRole::Expert;
      for (const SliceDigit& digit : map.digits()) note_repetition(digit);
    }
    if (!depth_cuts(context.network, context.block, context.op(op), id, context.sharding)) {
      used_.insert(Axis::Depth);  // copies, as of every axis that the operator does not cut
    }
    policy_ = on_expert_grid ? &policies.expert : &policies.dense;
  }

  void run() {
    gather();
    if (context_.block.parameter(id_).trainable == Trainable::No) return;
    reduce();
    update();
    if (matrix_) whole_update(*policies_.updates);
  }

 private:
  /// Notes the length and the cuts of a side of the matrices that an optimizer updates.
  void note_side(std::size_t dim, double extent, const SliceMap& map) {
    if (!matrix_) return;
    const bool row = matrix_->is_row(dim);
    if (row || matrix_->is_column(dim)) {
      (row ? rows_ : columns_) *= extent;
      (row ? row_axes_ : column_axes_) = (row ? row_axes_ : column_axes_) | map.axes();
    }
  }

  /// Fewer slices than ranks: groups of ranks hold the same slice and see different heads.
  void note_repetition(const SliceDigit& digit) {
    if (digit.terms.size() != 1) return;
    const Axis axis = digit.terms[0].axis;
    const int size = context_.mesh()[axis].size;
    if (digit.modulus < size) {
      repeated_.insert(axis);
      repetition_ *= size / digit.modulus;
    }
  }

  /// Quantised weights travel as they are kept: counted in elements of the format of gathers.
  [[nodiscard]] double wire_elements() const {
    const bool quantised = policy_->quantised_wire < 1.0 &&
                           is_quantisable(context_.network, context_.block, context_.op(op_), id_);
    return quantised ? elements_ * policy_->quantised_wire : elements_;
  }

  void gather() {
    const FlatCut& cut = policy_->parameter.storage;
    const Scope scope = policy_->parameter.gather;
    for (std::size_t i = cut.size(); i-- > 0;) {
      const AxisSet axes = without(cut[i], used_);
      if (axes.empty()) continue;
      const double message = wire_elements() / tiles(cut, i);
      Communication demand = about(Subject::Parameter, CommunicationKind::AllGather, axes, message,
                                   DemandPhase::Forward, scope);
      demand.cut = cut_axes(cut, i);
      demand.side = Side::Before;
      demand.on_recompute =
          scope == Scope::Step ? RecomputeGather::Shared : context_.sharding.recompute_gather;
      demands_.push_back(demand);
      if (scope != Scope::Use) continue;
      demand.phase = DemandPhase::InputGradient;
      demand.on_recompute = RecomputeGather::Shared;
      demands_.push_back(demand);
    }
  }

  /// Pieces of the first `count` groups of a cut.
  [[nodiscard]] double tiles(const FlatCut& cut, std::size_t count) const {
    double product = 1.0;
    for (std::size_t i = 0; i < count; ++i) product *= context_.mesh().size(without(cut[i], used_));
    return product;
  }

  [[nodiscard]] AxisSet cut_axes(const FlatCut& cut, std::size_t count) const {
    AxisSet axes;
    for (std::size_t i = 0; i < count; ++i) axes = axes | without(cut[i], used_);
    return axes;
  }

  /// Loop positions that no output carries: what the operator sums over.
  [[nodiscard]] PositionMask contracted() const {
    const Operator& op = context_.op(op_);
    PositionMask carried = 0;
    for (const TensorId id : op.outputs) carried |= carried_positions(context_, op_, id);
    return ~carried & context_.index.operators[op_].all;
  }

  /// Axes over which backward leaves the gradient in parts. A parameter that takes no part in the
  /// operator's own sum (a bias) is added to the summed output: it never sees the summed
  /// dimensions, but the layout the output has after its parts were summed.
  [[nodiscard]] AxisSet partial_gradient() const {
    const PositionMask own = carried_positions(context_, op_, id_);
    const PositionMask summed = contracted();
    if (summed == 0 || (own & summed) != 0) {
      return partial_axes(context_, op_, OperatorPhase::WeightGradient, own) | value();
    }
    const AxisSet seen = partial_axes(context_, op_, OperatorPhase::WeightGradient, own | summed);
    if (context_.rules.placements != nullptr) return seen | scattered_factors(summed);
    const bool scattered = context_.rules.sequence_parallel == SequenceParallel::On;
    return scattered ? seen | (AxisSet{Axis::Out} &
                               partial_axes(context_, op_, OperatorPhase::Forward, ~summed))
                     : seen;
  }

  /// Along these a product with the weight has parts of its input, whose gradient is whole.
  [[nodiscard]] AxisSet value() const { return context_.placement.operators[op_].value; }

  /// Factors over which the parts of the output were summed and scattered: what reads the summed
  /// output sees a part of its rows.
  [[nodiscard]] AxisSet scattered_factors(PositionMask summed) const {
    const std::vector<DimId>& own = context_.block.parameter(id_).dims;
    const TensorId output = context_.op(op_).outputs.front();
    const auto& readers = context_.index.consumers[static_cast<std::size_t>(output)];
    const auto slices = readers.empty()
                            ? leaving_layout(context_.network, context_.block, output,
                                             context_.rules, context_.placement)
                                  .dims
                            : context_.slices(readers.front(), output, OperatorPhase::Forward);
    const std::vector<DimId>& dims = context_.block.tensor(output).dims;
    AxisSet axes;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (std::ranges::find(own, dims[i]) == own.end()) axes = axes | slices[i].axes();
    }
    const AxisSet parts = partial_axes(context_, op_, OperatorPhase::Forward, ~summed) | value();
    return axes & kFactorAxes & parts;
  }

  /// Parts of the output's gradient that the operator hands on to its parameters.
  [[nodiscard]] AxisSet deferred_partials() const {
    const Operator& op = context_.op(op_);
    const AxisSet deferred = deferred_axes(context_, op_);
    AxisSet result;
    if (deferred.empty()) return result;
    for (std::size_t i = op_ + 1; i < context_.block.operators.size(); ++i) {
      for (const TensorId id : context_.op(i).inputs) {
        if (std::ranges::find(op.outputs, id) == op.outputs.end()) continue;
        result = result | partial_axes(context_, i, OperatorPhase::InputGradient,
                                       carried_positions(context_, i, id));
      }
    }
    return result & deferred;
  }

  void reduce() {
    AxisSet partial = partial_gradient() | deferred_partials();
    double elements = elements_;
    const FlatCut& kept = policy_->gradient.storage;
    const FlatCut& states = policy_->moment.storage;
    for (std::size_t i = 0; i < states.size(); ++i) {
      const AxisSet axes = without(states[i], used_);
      const bool is_data = !(axes & policy_->data).empty();
      const Scope scope = i >= kept.size() ? Scope::Step
                          : is_data        ? policy_->gradient.reduce
                                           : context_.sharding.depth_reduce;
      const AxisSet summed = axes & partial;
      if (!summed.empty()) {
        demands_.push_back(about(Subject::Gradient, CommunicationKind::ReduceScatter, summed,
                                 elements, phase_of(scope), scope));
        demands_.back().cut = cut_axes(states, i);
      }
      elements /= context_.mesh().size(axes);
      partial = partial - axes;
    }
    const Scope scope = policy_->gradient.reduce;
    all_reduce(partial & policy_->data, elements, scope);
    const AxisSet others = partial - policy_->data;
    all_reduce(others & kFactorAxes, elements, Scope::Step);
    for_each_axis(others - kFactorAxes,
                  [&](Axis axis) { all_reduce({axis}, elements, Scope::Step); });
    if (repetition_ > 1) {
      all_reduce(repeated_, elements, Scope::Step);
      demands_.back().group_size = repetition_;
    }
  }

  void all_reduce(AxisSet axes, double elements, Scope scope) {
    if (axes.empty()) return;
    demands_.push_back(about(Subject::Gradient, CommunicationKind::AllReduce, axes, elements,
                             phase_of(scope), scope));
    const FlatCut& states = policy_->moment.storage;
    demands_.back().cut = cut_axes(states, states.size());
  }

  /// The optimizer updates its own piece of the parameters; the others need to see it.
  void update() {
    const FlatCut& storage = policy_->parameter.storage;
    const FlatCut& states = policy_->moment.storage;
    for (std::size_t i = states.size(); i-- > storage.size();) {
      const AxisSet axes = without(states[i], used_);
      if (axes.empty()) continue;
      demands_.push_back(about(Subject::Parameter, CommunicationKind::AllGather, axes,
                               elements_ / tiles(states, i), DemandPhase::Step, Scope::Step));
      demands_.back().cut = cut_axes(states, i);
    }
  }

  /// Messages for the whole matrix: it is gathered or summed over the ranks that slice it, or
  /// brought to the one that updates it and back.
  void whole_update(const MatrixUpdates& updates) {
    const FlatCut& states = policy_->moment.storage;
    const AxisSet slices = context_.mesh().active(row_axes_ | column_axes_);
    const AxisSet shards = cut_axes(states, states.size());
    const bool dealt = updates.slices == UpdateSlices::Dealt;
    AxisSet travels = updates.shards == UpdateShards::Cut ? shards : AxisSet{};
    if (dealt) travels = travels | slices;
    if (!travels.empty()) {  // a rank's own pieces leave, and as much comes back
      const double own = elements_ / context_.mesh().size(shards);
      update_message(CommunicationKind::AllToAll, WireClass::Moment, travels, own, 2);
    }
    if (slices.empty() || dealt || updates.slices == UpdateSlices::Apart) return;
    const bool owned = updates.shards != UpdateShards::Replicated;
    const double owners = owned ? context_.mesh().size(shards) : 1.0;
    if (updates.slices == UpdateSlices::Gathered) {
      const double whole = elements_ * context_.mesh().size(slices) / owners;
      update_message(CommunicationKind::AllGather, WireClass::Moment, slices, whole, 1);
    } else {
      const double whole = elements_ * context_.mesh().size(slices) / (rows_ * columns_);
      const double side = row_axes_.empty() ? rows_ : columns_;  // the one that nothing cuts
      update_message(CommunicationKind::AllReduce, WireClass::Product, slices,
                     whole * side * side / owners, updates.iterations);
    }
    if (owned) demands_.back().cut = shards;
  }

  void update_message(CommunicationKind kind, WireClass wire, AxisSet axes, double elements,
                      int count) {
    demands_.push_back(
        about(Subject::Update, kind, axes, elements, DemandPhase::Step, Scope::Step));
    demands_.back().wire = wire;
    demands_.back().count = count;
  }

  static DemandPhase phase_of(Scope scope) {
    return scope == Scope::Step ? DemandPhase::Step : DemandPhase::WeightGradient;
  }

  [[nodiscard]] Communication about(Subject subject, CommunicationKind kind, AxisSet axes,
                                    double elements, DemandPhase phase, Scope scope) const {
    Communication demand;
    demand.subject = subject;
    demand.kind = kind;
    demand.wire = subject == Subject::Parameter ? WireClass::Parameter : WireClass::Gradient;
    demand.phase = phase;
    demand.scope = scope;
    demand.side = Side::After;
    demand.on_recompute = RecomputeGather::Shared;
    demand.axes = axes;
    demand.index = static_cast<std::uint32_t>(id_);
    demand.operator_index = static_cast<std::uint32_t>(op_);
    demand.group_size = context_.mesh().size(axes);
    demand.elements = elements;
    return demand;
  }

  const Context& context_;
  const TensorPolicies& policies_;
  Demands& demands_;
  std::size_t op_;
  ParameterId id_;
  const ParameterPolicy* policy_ = nullptr;
  AxisSet used_;
  AxisSet repeated_;
  int repetition_ = 1;
  double elements_ = 1.0;
  std::optional<MatrixDims> matrix_;
  double rows_ = 1.0;  ///< of one matrix, whole
  double columns_ = 1.0;
  AxisSet row_axes_;
  AxisSet column_axes_;
};

bool same_message(const Communication& a, const Communication& b) {
  return a.subject == b.subject && a.kind == b.kind && a.phase == b.phase && a.scope == b.scope &&
         a.wire == b.wire && a.count == b.count && a.side == b.side && a.axes == b.axes &&
         a.group_size == b.group_size && (a.cut == b.cut || a.scope != Scope::Step);
}

/// The message of several parameters stands where its first use, or its last result, is.
void merge(Communication& whole, const Communication& part) {
  whole.elements += part.elements;
  whole.operator_index = whole.phase == DemandPhase::InputGradient
                             ? std::max(whole.operator_index, part.operator_index)
                             : std::min(whole.operator_index, part.operator_index);
}

/// At the end of a step: another block may add to the same gradient, so it is a message of its own.
bool is_shared(const Block& block, const Communication& demand) {
  return demand.scope == Scope::Step && demand.index != kWholeBlock &&
         !block.parameters[demand.index].shared_key.empty();
}

/// Whether a framework sends two parameters as one message.
bool same_unit(const Block& block, ParameterUnit unit, const Communication& a,
               const Communication& b) {
  if (unit == ParameterUnit::Block) return true;
  const std::string& launch = block.operators[a.operator_index].fused_key;
  return !launch.empty() && launch == block.operators[b.operator_index].fused_key;
}

/// Adds up, in place, the messages from `first` on that a framework sends as one.
void merge_units(const Block& block, ParameterUnit unit, Demands& demands, std::size_t first) {
  std::size_t end = first;
  for (std::size_t i = first; i < demands.size(); ++i) {
    if (is_shared(block, demands[i])) {
      demands[end++] = demands[i];
      continue;
    }
    const auto begin = demands.begin() + static_cast<std::ptrdiff_t>(first);
    const auto known = std::find_if(
        begin, demands.begin() + static_cast<std::ptrdiff_t>(end), [&](const auto& whole) {
          return !is_shared(block, whole) && same_message(whole, demands[i]) &&
                 same_unit(block, unit, whole, demands[i]);
        });
    if (known != demands.begin() + static_cast<std::ptrdiff_t>(end)) {
      merge(*known, demands[i]);
      if (unit == ParameterUnit::Block) known->index = kWholeBlock;
    } else {
      demands[end++] = demands[i];
    }
  }
  demands.resize(end);
}

}  // namespace

void derive_parameters(const Context& context, const TensorPolicies& policies, Demands& demands) {
  const std::size_t first = demands.size();
  std::vector<char>& seen = context.scratch.seen;
  seen.assign(context.block.parameters.size(), 0);
  for (std::size_t i = 0; i < context.block.operators.size(); ++i) {
    for (const ParameterId id : context.op(i).parameters) {
      const auto index = static_cast<std::size_t>(id);
      if (seen[index] != 0) continue;
      seen[index] = 1;
      ParameterDeriver(context, policies, demands, i, id).run();
    }
  }
  if (context.sharding.unit != ParameterUnit::Parameter) {
    merge_units(context.block, context.sharding.unit, demands, first);
  }
}

}  // namespace plansearch::derivation

namespace plansearch {

void derive_own_parameters(const DerivationInput& input, const TensorPolicies& policies,
                           DerivationScratch& scratch, std::size_t op,
                           std::vector<Communication>& demands) {
  const derivation::Context context{input, scratch};
  for (const ParameterId id : context.op(op).parameters) {
    derivation::ParameterDeriver(context, policies, demands, op, id).run();
  }
}

}  // namespace plansearch
