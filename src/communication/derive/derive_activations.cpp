// SPDX-License-Identifier: Apache-2.0
// Computes: what moves between the layout in which an activation is produced and every layout in
//           which it is used, forward, and the mirror for gradients.
// Source: the cheapest redistribution between two layouts
//         (communication/redistribution/redistribution.hpp).
// Assumes: the gradient of a tensor moves as the dual of its forward message.
// Units: elements of the whole message.
// Checked by: tests/unit/communication/derivation_test.cpp,
//             tests/unit/communication/closed_forms_test.cpp
#include <algorithm>

#include "communication/derive/derivation.hpp"
#include "communication/derive/tensor_layouts.hpp"
#include "communication/redistribution/redistribution.hpp"

namespace plansearch::derivation {
namespace {

bool is_reduction(CommunicationKind kind) {
  return kind == CommunicationKind::AllReduce || kind == CommunicationKind::ReduceScatter;
}

enum class Moment : std::uint8_t { Start, End };

/// Layouts of one tensor as one operator sees it.
class Touch {
 public:
  Touch(const Context& context, std::size_t op, TensorId tensor)
      : context_(context), op_(op), tensor_(tensor) {}

  [[nodiscard]] MakerLayouts maker() const {
    MakerLayouts layouts{{touched(OperatorPhase::Forward, Moment::End)},
                         {touched(OperatorPhase::InputGradient, Moment::Start)}};
    if (traits(context_.op(op_)).leaves_partial_sums) {
      layouts.made.layout.partial = parts(OperatorPhase::Forward);
    }
    layouts.made.layout.partial = layouts.made.layout.partial | value();
    return layouts;
  }

  [[nodiscard]] ReaderLayouts reader() const {
    ReaderLayouts layouts{{touched(OperatorPhase::Forward, Moment::Start)},
                          {touched(OperatorPhase::InputGradient, Moment::End)}};
    layouts.wanted.layout.partial = value();
    if (traits(context_.op(op_)).leaves_partial_sums && !crosses_orders(context_, op_, tensor_)) {
      layouts.gradient.layout.partial =
          parts(OperatorPhase::InputGradient) |
          repeated_factors(context_.block, context_.index.operators[op_].use(tensor_),
                           context_.placement.operators[op_], OperatorPhase::InputGradient,
                           context_.rules);
    }
    const std::size_t producer = context_.index.producers[static_cast<std::size_t>(tensor_)];
    if (producer != kEdge) {
      Layout& gradient = layouts.gradient.layout;
      gradient.partial = gradient.partial - deferred_axes(context_, producer);
    }
    return layouts;
  }

 private:
  /// The gradient of what is read in parts is that of their sum: whole on every device.
  [[nodiscard]] AxisSet value() const { return context_.placement.operators[op_].value; }

  [[nodiscard]] AxisSet parts(OperatorPhase phase) const {
    return partial_axes(context_, op_, phase, carried_positions(context_, op_, tensor_),
                        context_.placement.operators[op_].stays(tensor_));
  }

  /// As the operator wants the tensor when a phase starts, or leaves it behind.
  [[nodiscard]] Layout touched(OperatorPhase phase, Moment moment) const {
    Layout layout;
    if (crosses_orders(context_, op_, tensor_)) {
      for (const DimId dim : context_.block.tensor(tensor_).dims) {
        layout.dims.push_back(context_.rules.slice(PlacementVariant::TokenExchange, dim));
      }
      return layout;
    }
    layout.dims = moment == Moment::Start ? start_slices(context_, op_, tensor_, phase)
                                          : end_slices(context_, op_, tensor_, phase);
    if (context_.rules.placements == nullptr) return layout;
    for (SliceMap& map : layout.dims) map = map.spelled(context_.mesh());
    return layout;
  }

  const Context& context_;
  std::size_t op_;
  TensorId tensor_;
};

MakerLayouts entering_layouts(const Context& context, TensorId tensor) {
  const Layout layout =
      entering_layout(context.network, context.block, tensor, context.rules, context.placement);
  return {{layout}, {layout}};
}

/// The communication that one tensor causes.
class TensorDeriver {
 public:
  TensorDeriver(const Context& context, TensorId tensor, const TensorLayouts& layouts,
                Demands& demands)
      : context_(context),
        demands_(demands),
        available_(context.scratch.available),
        tensor_(tensor),
        layouts_(layouts),
        producer_(context.index.producers[index(tensor)]),
        consumers_(context.index.consumers[index(tensor)]) {
    for (const DimId dim : context.block.tensor(tensor).dims) {
      extents_.push_back(context.rules.extents[static_cast<std::size_t>(dim)]);
    }
  }

  void run() {
    forward();
    if (context_.block.tensor(tensor_).gradient) backward();
  }

 private:
  static std::size_t index(TensorId id) { return static_cast<std::size_t>(id); }

  void forward() {
    available_.clear();
    available_.push_back(&layouts_.maker->made);
    for (std::size_t i = 0; i < consumers_.size(); ++i) {
      const NumberedLayout& target = layouts_.readers[i]->wanted;
      supply(target, consumers_[i]);
      if (crosses_orders(context_, consumers_[i], tensor_)) exchange(target.layout, consumers_[i]);
    }
    if (layouts_.leaving != nullptr) supply(*layouts_.leaving, kEdge);
  }

  /// Weights of tokens travel with their tokens to the experts, and their gradients back: as
  /// messages of their own, or as a few bytes of the same one.
  void exchange(const Layout& layout, std::size_t consumer) {
    const int size = context_.mesh()[Axis::Expert].size;
    if (size == 1 || context_.tokens == TokenPath::Nodes) return;
    PathStep step;
    step.kind = CommunicationKind::AllToAll;
    step.axes = {Axis::Expert};
    step.group_size = size;
    step.elements = elements(layout);
    emit(step, Subject::Activation, DemandPhase::Forward, consumer, Side::Before, consumer);
    if (!context_.block.tensor(tensor_).gradient) return;
    emit(step, Subject::ActivationGradient, DemandPhase::InputGradient, consumer, Side::After,
         consumer);
  }

  [[nodiscard]] bool is_available(const NumberedLayout& layout) const {
    return std::ranges::any_of(available_,
                               [&](const NumberedLayout* other) { return *other == layout; });
  }

  /// Brings the tensor into the layout of a consumer, from the nearest layout that exists.
  void supply(const NumberedLayout& target, std::size_t consumer) {
    if (is_available(target)) return;
    Path& best = context_.scratch.best;
    std::size_t from = available_.size();
    for (std::size_t i = 0; i < available_.size(); ++i) {
      const Path& steps = path(*available_[i], target);
      if (from == available_.size() || length_of(steps) < length_of(best)) {
        best = steps;
        from = i;
      }
    }
    const Layout& source = available_[from]->layout;
    for (const PathStep& step : best) {
      const bool after = (is_reduction(step.kind) && producer_ != kEdge) || consumer == kEdge;
      emit(step, Subject::Activation, DemandPhase::Forward, after ? producer_ : consumer,
           after ? Side::After : Side::Before, consumer);
    }
    if (consumer != kEdge && source.partial.empty()) regather(source, target, best);
    available_.push_back(&target);
  }

  /// A matmul keeps its input in the smallest layout on the way, so its backward gathers again; so
  /// does attention to the keys and values of other context ranks.
  void regather(const Layout& source, const NumberedLayout& target, const Path& steps) {
    for (std::size_t r = consumers_.size(); r-- > 0;) {
      const std::size_t reader = consumers_[r];
      const ReadsAgain again = reads_again(context_.block, context_.index, reader);
      const auto repeated = steps_again(again, elements(source), steps);
      if (repeated.empty() || !(layouts_.readers[r]->wanted == target)) continue;
      const DemandPhase phase = again == ReadsAgain::FromContextRanks ? DemandPhase::InputGradient
                                                                      : DemandPhase::WeightGradient;
      for (const PathStep& step : repeated) {
        emit(step, Subject::Activation, phase, reader, Side::Before, reader);
      }
      return;
    }
  }

  void backward() {
    if (producer_ != kEdge && traits(context_.op(producer_)).starts_backward) return;
    const NumberedLayout& needed = layouts_.maker->gradient;
    available_.clear();  // contributions already on their way
    if (layouts_.leaving != nullptr) contribute(*layouts_.leaving, needed, kEdge);
    for (std::size_t i = 0; i < consumers_.size(); ++i) {
      contribute(layouts_.readers[i]->gradient, needed, consumers_[i]);
    }
  }

  /// Contributions in one layout are added before they move; they move after the consumer that
  /// comes first in forward order, which backward visits last.
  void contribute(const NumberedLayout& gradient, const NumberedLayout& needed,
                  std::size_t consumer) {
    if (is_available(gradient)) return;
    available_.push_back(&gradient);
    for (const PathStep& step : path(gradient, needed)) {
      const bool after = consumer != kEdge && (is_reduction(step.kind) || producer_ == kEdge);
      const std::size_t place = after || producer_ == kEdge ? consumer : producer_;
      // Handed through the block: moved only where its edges differ, before anything else runs.
      emit(step, Subject::ActivationGradient, DemandPhase::InputGradient, place,
           after ? Side::After : Side::Before, consumer);
    }
  }

  void emit(const PathStep& step, Subject subject, DemandPhase phase, std::size_t op, Side side,
            std::size_t reader) {
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
    if (exchanges_tokens(demand)) route(demand);
    demands_.push_back(demand);
  }

  /// To experts: what the dispatch has made, and the gradient of what the combination reads.
  [[nodiscard]] bool goes_to_experts(const Communication& demand) const {
    const bool forward = demand.phase == DemandPhase::Forward;
    const auto reader = static_cast<std::size_t>(demand.reader);
    const std::size_t maker = forward ? producer_ : reader;
    return maker < context_.block.operators.size() && traits(context_.op(maker)).exchanges_tokens;
  }

  /// On the way of the dispatcher.
  void route(Communication& demand) const {
    const bool copies = wire_class(context_.block.tensor(tensor_).element) == WireClass::Activation;
    const bool to_experts = copies ? goes_to_experts(demand)
                                   : demand.phase == DemandPhase::Forward;  // weights of tokens
    if (copies && to_experts) demand.wire = WireClass::Token;
    if (context_.tokens != TokenPath::Gather) return;
    demand.kind = to_experts ? CommunicationKind::AllGather : CommunicationKind::ReduceScatter;
    demand.elements *= demand.group_size;
    if (copies) demand.elements /= static_cast<double>(context_.network.routing->top_k);
  }

  /// The steps from one layout to another, until the next path is asked for. Parts that are wanted
  /// stay parts; of what is whole one device takes the value, and the others nothing.
  [[nodiscard]] const Path& path(const NumberedLayout& from, const NumberedLayout& to) const {
    if (to.layout.partial.empty()) return path(from.layout, to.layout);
    Layout source = from.layout;
    Layout target = to.layout;
    source.partial = source.partial - target.partial;
    target.partial = {};
    return path(source, target);
  }

  [[nodiscard]] const Path& path(const Layout& from, const Layout& to) const {
    const TensorMove move{context_.mesh(), extents_span(), from, to, context_.rates};
    redistribute(move, *context_.scratch.redistribution, context_.scratch.steps);
    write_path(context_.scratch.steps, move, context_.scratch.path);
    return context_.scratch.path;
  }

  [[nodiscard]] std::span<const double> extents_span() const {
    return {extents_.begin(), extents_.size()};
  }
  [[nodiscard]] double elements(const Layout& layout) const {
    return local_elements(layout, context_.mesh(), extents_span());
  }

  const Context& context_;
  Demands& demands_;
  std::vector<const NumberedLayout*>&
      available_;  ///< layouts, or contributions, that exist already
  FixedVector<double, kMaxTensorRank> extents_;
  TensorId tensor_;
  const TensorLayouts& layouts_;
  std::size_t producer_;
  const std::vector<std::size_t>& consumers_;
};

}  // namespace

void derive_activations(const Context& context, Demands& demands) {
  DerivationScratch& scratch = context.scratch;
  TensorLayouts& layouts = scratch.layouts;
  for (std::size_t t = 0; t < context.block.tensors.size(); ++t) {
    if (!differentiable(context.block.tensors[t])) continue;
    const auto tensor = static_cast<TensorId>(t);
    const std::size_t producer = context.index.producers[t];
    scratch.maker = producer == kEdge ? entering_layouts(context, tensor)
                                      : Touch(context, producer, tensor).maker();
    layouts.maker = &scratch.maker;
    scratch.readers.clear();
    for (const std::size_t reader : context.index.consumers[t]) {
      scratch.readers.push_back(Touch(context, reader, tensor).reader());
    }
    layouts.readers.clear();
    for (const ReaderLayouts& reader : scratch.readers) layouts.readers.push_back(&reader);
    layouts.leaving = nullptr;
    if (context.index.leaves[t]) {
      scratch.leaving.layout =
          leaving_layout(context.network, context.block, tensor, context.rules, context.placement);
      layouts.leaving = &scratch.leaving;
    }
    TensorDeriver(context, tensor, layouts, demands).run();
  }
}

}  // namespace plansearch::derivation

namespace plansearch {
namespace {

/// Layouts need no buffers.
DerivationScratch& no_scratch() {
  thread_local DerivationScratch scratch;
  return scratch;
}

}  // namespace

MakerLayouts maker_layouts(const DerivationInput& input, std::size_t op, TensorId tensor) {
  const derivation::Context context{input, no_scratch()};
  return op == kEdge ? derivation::entering_layouts(context, tensor)
                     : derivation::Touch(context, op, tensor).maker();
}

ReaderLayouts reader_layouts(const DerivationInput& input, std::size_t op, TensorId tensor) {
  return derivation::Touch({input, no_scratch()}, op, tensor).reader();
}

double length_of(const Path& path) {
  double sum = 0.0;
  for (const PathStep& step : path) sum += step.length;
  return sum;
}

ReadsAgain reads_again(const Block& block, const BlockIndex& index, std::size_t op) {
  const ReadsAgain row = traits(block.operators[op]).reads_again;
  const bool frozen = row == ReadsAgain::Always && !index.operators[op].trains_weight;
  return frozen ? ReadsAgain::Never : row;
}

std::span<const PathStep> steps_again(ReadsAgain reader, double held, const Path& path) {
  const bool repeats =
      reader == ReadsAgain::Always || (reader == ReadsAgain::FromContextRanks && !path.empty() &&
                                       path.back().axes.contains(Axis::Context));
  if (!repeats) return {};
  std::size_t kept = 0;  // steps to the smallest layout, the last one among equals
  double least = held;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i].after > least) continue;
    least = path[i].after;
    kept = i + 1;
  }
  return std::span(path).subspan(kept);
}

}  // namespace plansearch
