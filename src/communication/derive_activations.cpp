// SPDX-License-Identifier: Apache-2.0
// Computes: what moves between the layout in which an activation is produced and every layout in
// which it is used, forward, and the mirror for gradients. Source: the cheapest redistribution
// between two layouts (communication/redistribution.hpp). Assumes: the gradient of a tensor moves
// as the dual of its forward message. Units: elements of the whole message. Checked by:
// tests/unit/communication/derivation_test.cpp, tests/unit/communication/closed_forms_test.cpp
#include <algorithm>

#include "communication/derivation.hpp"
#include "communication/redistribution.hpp"

namespace plansearch::derivation {
namespace {

/// Relabelling between token order and expert order contracts nothing; normalisations resolve
/// their reductions as row statistics.
bool contracts(OperatorKind kind) {
  return kind != OperatorKind::Dispatch && kind != OperatorKind::Combine &&
         kind != OperatorKind::Norm && kind != OperatorKind::Softmax &&
         kind != OperatorKind::CrossEntropy;
}

double total_price(const std::vector<RedistributionStep>& steps) {
  double sum = 0.0;
  for (const RedistributionStep& step : steps) {
    sum += elements_moved(step.kind, step.group_size, step.elements);
  }
  return sum;
}

bool is_reduction(CommunicationKind kind) {
  return kind == CommunicationKind::AllReduce || kind == CommunicationKind::ReduceScatter;
}

enum class Moment : std::uint8_t { Start, End };

class ActivationDeriver {
 public:
  ActivationDeriver(const Context& context, Demands& demands)
      : context_(context), demands_(demands), available_(context.scratch.available) {}

  void run() {
    const Block& block = context_.block;
    for (std::size_t t = 0; t < block.tensors.size(); ++t) {
      if (!differentiable(block.tensors[t])) continue;
      tensor_ = static_cast<TensorId>(t);
      set_extents();
      forward();
      if (block.tensors[t].gradient) backward();
    }
  }

 private:
  static std::size_t index(TensorId id) { return static_cast<std::size_t>(id); }

  void set_extents() {
    extents_.clear();
    for (const DimId dim : context_.block.tensor(tensor_).dims) {
      extents_.push_back(context_.rules.extents[static_cast<std::size_t>(dim)]);
    }
  }

  [[nodiscard]] bool leaves_block() const { return context_.index.leaves[index(tensor_)]; }

  /// The layout in which an operator wants the tensor when a phase starts, or leaves it behind.
  [[nodiscard]] Layout touched(std::size_t op, OperatorPhase phase,
                               Moment moment = Moment::Start) const {
    Layout layout;
    if (crosses_orders(context_, op, tensor_)) {
      for (const DimId dim : context_.block.tensor(tensor_).dims) {
        layout.dims.push_back(context_.rules.slice(PlacementVariant::TokenExchange, dim));
      }
      return layout;
    }
    layout.dims = moment == Moment::Start ? start_slices(context_, op, tensor_, phase)
                                          : end_slices(context_, op, tensor_, phase);
    return layout;
  }

  [[nodiscard]] Layout produced() const {
    const std::size_t producer = context_.index.producers[index(tensor_)];
    if (producer == kEdge) return entering();
    Layout layout = touched(producer, OperatorPhase::Forward, Moment::End);
    if (contracts(context_.op(producer).kind)) {
      layout.partial = partial_axes(context_, producer, OperatorPhase::Forward,
                                    carried_positions(context_, producer, tensor_),
                                    context_.placement.operators[producer].stays(tensor_));
    }
    return layout;
  }

  [[nodiscard]] Layout entering() const {
    return entering_layout(context_.network, context_.block, tensor_, context_.rules,
                           context_.placement);
  }
  [[nodiscard]] Layout leaving() const {
    return leaving_layout(context_.network, context_.block, tensor_, context_.rules,
                          context_.placement);
  }

  void forward() {
    available_.clear();
    available_.push_back(produced());
    for (const std::size_t consumer : context_.index.consumers[index(tensor_)]) {
      const Layout target = touched(consumer, OperatorPhase::Forward);
      supply(target, consumer);
      if (crosses_orders(context_, consumer, tensor_)) exchange(target, consumer);
    }
    if (leaves_block()) supply(leaving(), kEdge);
  }

  /// Weights of tokens travel with their tokens to the experts, and their gradients back.
  void exchange(const Layout& layout, std::size_t consumer) {
    const int size = context_.mesh()[Axis::Expert].size;
    if (size == 1) return;
    RedistributionStep step;
    step.kind = CommunicationKind::AllToAll;
    step.axes = {Axis::Expert};
    step.group_size = size;
    step.elements = elements(layout);
    emit(step, Subject::Activation, DemandPhase::Forward, consumer, Side::Before, consumer);
    if (!context_.block.tensor(tensor_).gradient) return;
    emit(step, Subject::ActivationGradient, DemandPhase::InputGradient, consumer, Side::After,
         consumer);
  }

  /// Brings the tensor into the layout of a consumer, from the nearest layout that exists.
  void supply(const Layout& target, std::size_t consumer) {
    if (std::find(available_.begin(), available_.end(), target) != available_.end()) return;
    auto& best = context_.scratch.best;
    std::size_t from = available_.size();
    for (std::size_t i = 0; i < available_.size(); ++i) {
      const auto& steps = path(available_[i], target);
      if (from == available_.size() || total_price(steps) < total_price(best)) {
        std::swap(best, context_.scratch.steps);
        from = i;
      }
    }
    const Layout& source = available_[from];
    for (const RedistributionStep& step : best) {
      const std::size_t producer = context_.index.producers[index(tensor_)];
      const bool after = (is_reduction(step.kind) && producer != kEdge) || consumer == kEdge;
      emit(step, Subject::Activation, DemandPhase::Forward, after ? producer : consumer,
           after ? Side::After : Side::Before, consumer);
    }
    if (consumer != kEdge && source.partial.empty()) regather(source, target, best);
    available_.push_back(target);
  }

  /// A matmul keeps its input in the smallest layout on the way, so its backward gathers again.
  void regather(const Layout& source, const Layout& target,
                const std::vector<RedistributionStep>& steps) {
    const std::size_t kept = smallest(source, steps);
    if (kept == steps.size()) return;
    const auto& consumers = context_.index.consumers[index(tensor_)];
    for (auto it = consumers.rbegin(); it != consumers.rend(); ++it) {
      const Operator& op = context_.op(*it);
      if (op.kind != OperatorKind::Matmul || !context_.index.operators[*it].trains_weight) {
        continue;
      }
      if (!(touched(*it, OperatorPhase::Forward) == target)) continue;
      for (std::size_t i = kept; i < steps.size(); ++i) {
        emit(steps[i], Subject::Activation, DemandPhase::WeightGradient, *it, Side::Before, *it);
      }
      return;
    }
  }

  /// How many steps lead to the smallest layout (the last one among equals).
  [[nodiscard]] std::size_t smallest(const Layout& source,
                                     const std::vector<RedistributionStep>& steps) const {
    std::size_t best = 0;
    double least = elements(source);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double here = elements(steps[i].result);
      if (here > least) continue;
      least = here;
      best = i + 1;
    }
    return best;
  }

  void backward() {
    const std::size_t producer = context_.index.producers[index(tensor_)];
    if (producer != kEdge && context_.op(producer).kind == OperatorKind::CrossEntropy) return;
    const Layout needed =
        producer == kEdge ? entering() : touched(producer, OperatorPhase::InputGradient);
    const AxisSet deferred = producer == kEdge ? AxisSet{} : deferred_axes(context_, producer);
    available_.clear();  // contributions already on their way
    if (leaves_block()) contribute(leaving(), needed, kEdge);
    for (const std::size_t consumer : context_.index.consumers[index(tensor_)]) {
      Layout gradient = touched(consumer, OperatorPhase::InputGradient, Moment::End);
      if (contracts(context_.op(consumer).kind) && !crosses_orders(context_, consumer, tensor_)) {
        gradient.partial = partial_axes(context_, consumer, OperatorPhase::InputGradient,
                                        carried_positions(context_, consumer, tensor_),
                                        context_.placement.operators[consumer].stays(tensor_)) -
                           deferred;
        gradient.partial =
            gradient.partial |
            repeated_factors(context_.block, context_.index.operators[consumer].use(tensor_),
                             context_.placement.operators[consumer], OperatorPhase::InputGradient,
                             context_.rules);
      }
      contribute(gradient, needed, consumer);
    }
  }

  /// Contributions in one layout are added before they move; they move after the consumer that
  /// comes first in forward order, which backward visits last.
  void contribute(const Layout& gradient, const Layout& needed, std::size_t consumer) {
    if (std::find(available_.begin(), available_.end(), gradient) != available_.end()) return;
    available_.push_back(gradient);
    const std::size_t producer = context_.index.producers[index(tensor_)];
    for (const RedistributionStep& step : path(gradient, needed)) {
      const bool after = consumer != kEdge && (is_reduction(step.kind) || producer == kEdge);
      const std::size_t place = after || producer == kEdge ? consumer : producer;
      // Handed through the block: moved only where its edges differ, before anything else runs.
      emit(step, Subject::ActivationGradient, DemandPhase::InputGradient, place,
           after ? Side::After : Side::Before, consumer);
    }
  }

  void emit(const RedistributionStep& step, Subject subject, DemandPhase phase, std::size_t op,
            Side side, std::size_t reader) {
    if (step.kind == CommunicationKind::Slice) return;
    if (op == kEdge) op = 0;
    Communication demand;
    demand.subject = subject;
    demand.kind = step.kind;
    demand.wire = wire_class(context_.block.tensor(tensor_).element);
    demand.phase = phase;
    demand.side = side;
    demand.axes = step.axes;
    demand.index = static_cast<std::uint32_t>(tensor_);
    demand.operator_index = static_cast<std::uint32_t>(op);
    demand.reader = reader == kEdge ? kNextBlock : static_cast<std::uint32_t>(reader);
    demand.group_size = step.group_size;
    demand.elements = step.elements;
    demands_.push_back(demand);
  }

  /// The steps from one layout to another, until the next path is asked for.
  [[nodiscard]] const std::vector<RedistributionStep>& path(const Layout& from,
                                                            const Layout& to) const {
    redistribute(context_.mesh(), extents_span(), from, to, *context_.scratch.redistribution,
                 context_.scratch.steps);
    return context_.scratch.steps;
  }

  [[nodiscard]] std::span<const double> extents_span() const {
    return {extents_.begin(), extents_.size()};
  }
  [[nodiscard]] double elements(const Layout& layout) const {
    return local_elements(layout, context_.mesh(), extents_span());
  }

  const Context& context_;
  Demands& demands_;
  std::vector<Layout>& available_;  ///< layouts, or contributions, that exist already
  FixedVector<double, kMaxTensorRank> extents_;
  TensorId tensor_{};
};

}  // namespace

void derive_activations(const Context& context, Demands& demands) {
  ActivationDeriver(context, demands).run();
}

}  // namespace plansearch::derivation
