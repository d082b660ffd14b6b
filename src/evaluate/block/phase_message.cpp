// SPDX-License-Identifier: Apache-2.0
// Computes: price and name of one communication inside a pass; rates of steps between layouts on
//           the tiers of a cluster.
// Source: collective cost of its process group (cost/collective/collective_cost.hpp), plus launch
//         and skew of a call that a training step issues. A rate is the part of the price that
//         grows with the message, over the elements that a device sends. Names are those of the
//         parameters that a framework sends together (ParameterUnit).
// Assumes: every sister group of the axis is active at the same time; parameters of one launch that
//          end alike (query.weight, key.weight) go together; activations are long messages: only
//          bandwidths decide a path. Rates that differ by less than a thousandth are equal, so that
//          the number of steps decides.
// Units: seconds, bytes; nanoseconds per element.
// Checked by: tests/unit/evaluate/block_profile_test.cpp, link_rates_test.cpp,
//             overlap_report_test.cpp
#include "evaluate/block/phase_message.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "communication/redistribution/redistribution.hpp"
#include "cost/collective/place.hpp"
#include "evaluate/block/price_memo.hpp"

namespace plansearch {

namespace {

/// Adds what a collective in a training step takes beyond an isolated one: launch and skew.
CallPrice issued(const PricingContext& context, CommunicationKind kind,
                 const CollectiveCost& cost) {
  return {cost, context.constants.collective_call +
                    context.constants.collective_rank * latency_steps(kind, cost.local_ranks)};
}

CallPrice compute_call(const PricingContext& context, CommunicationKind kind, Bytes bytes,
                       const ProcessGroup& group) {
  return issued(
      context, kind,
      collective_cost(*context.problem.cluster, kind, bytes, group, Contention::TrainingStep));
}

CallPrice compute_exchange(const PricingContext& context, const TokenDispatcher& dispatcher,
                           Bytes bytes, const ProcessGroup& group) {
  const Routing& routing = *context.problem.network->routing;
  const GroupSpan span = locate(*context.problem.cluster, group);
  const TokenSpread spread{static_cast<double>(routing.top_k), expected_boxes(routing, span.nodes),
                           expected_boxes(routing, span.ranks), dispatcher.fabric_share,
                           dispatcher.link_share};
  return issued(
      context, CommunicationKind::AllToAll,
      exchange_cost(*context.problem.cluster, bytes, group, spread, Contention::TrainingStep));
}

/// Prices of all groups that a key has room for.
template <typename Compute>
CallPrice remembered(const PricingContext& context, std::uint64_t what, Bytes bytes,
                     const ProcessGroup& group, Compute compute) {
  thread_local PriceMemo<CallPrice> memo;
  constexpr std::size_t kFirst = 3;  // of the extents
  constexpr double kStrides = 1 << 24;
  PriceKey key{
      context.id,
      what,
      {bytes.value(), static_cast<double>(group.world), static_cast<double>(group.period)}};
  if (kFirst + group.extents.size() > key.numbers.size()) return compute();
  for (std::size_t i = 0; i < group.extents.size(); ++i) {
    key.numbers[kFirst + i] = group.extents[i].size * kStrides + group.extents[i].stride;
  }
  return memo.get(key, compute);
}

}  // namespace

CallPrice price_call(const PricingContext& context, CommunicationKind kind, Bytes bytes,
                     const ProcessGroup& group) {
  return remembered(context, static_cast<std::uint64_t>(kind), bytes, group,
                    [&] { return compute_call(context, kind, bytes, group); });
}

CallPrice price_exchange(const PricingContext& context, const TokenDispatcher& dispatcher,
                         Bytes bytes, const ProcessGroup& group) {
  constexpr std::uint64_t kExchange = 1U << 8U;  // beyond the kinds of collectives
  return remembered(context, kExchange + static_cast<std::uint64_t>(dispatcher.id), bytes, group,
                    [&] { return compute_exchange(context, dispatcher, bytes, group); });
}

PricingContext pricing_context(const Problem& problem) {
  static std::atomic<std::uint64_t> last{0};
  const Framework& framework = *problem.framework;
  PricingContext context{problem, framework.constants, framework.precision.at(problem.precision),
                         ++last};
  for (std::size_t i = 0; i < kMemoryBoundCount; ++i) {
    context.passes[i] = framework.operators.passes(static_cast<MemoryBound>(i));
  }
  return context;
}

PhaseMessage price_message(const PricingContext& context, const DeviceMesh& mesh,
                           const Communication& communication, double elements, double fullest,
                           DispatcherId dispatcher) {
  const ProcessGroup group = process_group(mesh, communication.axes);
  PhaseMessage message;
  message.communication = communication;
  message.communication.elements = elements;
  message.bytes = wire_size(communication.wire, context.precision) * elements;
  message.purpose = purpose_of(communication);
  const bool tokens = exchanges_tokens(communication);
  const TokenDispatcher& dispatch = dispatcher_of(*context.problem.framework, dispatcher);
  const bool over_nodes = tokens && dispatch.path == TokenPath::Nodes;
  const Bytes moved = message.bytes * (tokens ? fullest : 1.0);
  message.overlap = overlap_class(communication);
  const CallPrice call = over_nodes ? price_exchange(context, dispatch, moved, group)
                                    : price_call(context, communication.kind, moved, group);
  message.dispatcher = dispatcher;
  message.wire_bytes = call.cost.wire_bytes;
  message.time = call.cost.time + call.issue;
  message.transfer = call.cost.transfer;
  message.one_domain = call.cost.one_domain;
  message.between_nodes = group.span() > context.problem.cluster->accelerators_per_node;
  return message;
}

const OverlapRule& rule_of(const PricingContext& context, Overlap kind) {
  return context.problem.framework->overlap[static_cast<std::size_t>(kind)];
}

double hidden_share(const PricingContext& context, const PhaseMessage& message) {
  const OverlapRule& rule = rule_of(context, message.overlap);
  const bool buffers = message.one_domain && context.problem.cluster->accelerator.user_buffers;
  if (message.overlap == Overlap::TensorParallel && !buffers) return 0.0;
  const bool named = message.dispatcher != kOwnDispatcher && !rule.any_dispatcher;
  if (message.overlap == Overlap::ExpertAllToAll && named) return 0.0;
  return rule.share;
}

SharedTime share_of(const PricingContext& context, const PhaseMessage& message, double count,
                    Seconds window) {
  const auto kind = static_cast<std::size_t>(message.overlap);
  const Seconds total = message.time * count;
  const Seconds hidden = std::min(total * hidden_share(context, message), window);
  const Seconds moving = std::min(hidden, message.transfer * count);
  return {hidden, total - hidden + moving * context.constants.contention[kind]};
}

bool spans_nodes(const DeviceMesh& mesh, AxisSet axes, int accelerators_per_node) {
  return process_group(mesh, axes).span() > accelerators_per_node;
}

Overlap overlap_class(const Communication& demand) {
  if (demand.steps > 1 && !(demand.axes & kTensorAxes).empty()) return Overlap::TensorParallel;
  switch (demand.subject) {
    case Subject::Parameter:
      return Overlap::ParameterGather;
    case Subject::Gradient:
    case Subject::Update:  // waits for the gradient, and nothing hides it
      return Overlap::GradientReduction;
    case Subject::Activation:
    case Subject::ActivationGradient:
    case Subject::Statistics:
      break;
  }
  if (demand.axes.contains(Axis::Expert)) return Overlap::ExpertAllToAll;
  if (demand.axes.contains(Axis::Context)) return Overlap::ContextRing;
  return Overlap::TensorParallel;
}

std::string message_name(const Block& block, const Communication& message, ParameterUnit unit) {
  const bool parameter =
      message.subject == Subject::Parameter || message.subject == Subject::Gradient;
  const std::string alone = subject_name(block, message);
  if (!parameter || unit != ParameterUnit::Launch || message.index == kWholeBlock) return alone;
  const std::string& launch = block.operators[message.operator_index].fused_key;
  const std::string& own = block.parameters[message.index].name;
  const std::size_t dot = own.rfind('.');
  if (launch.empty() || dot == std::string::npos) return alone;
  const std::string ending = own.substr(dot);
  std::vector<std::string> names;
  for (const Operator& op : block.operators) {
    if (op.fused_key != launch) continue;
    for (const ParameterId id : op.parameters) {
      const std::string& name = block.parameter(id).name;
      if (name.ends_with(ending)) names.push_back(name.substr(0, name.size() - ending.size()));
    }
  }
  return fmt::format("{}{}{}", message.subject == Subject::Gradient ? "gradient of " : "",
                     fmt::join(names, ", "), ending);
}

namespace {

constexpr double kLongMessage = 1 << 28;  // elements
constexpr double kNanoseconds = 1e9;

/// To a thousandth.
double rounded(double rate) {
  constexpr int kBits = 10;
  int exponent = 0;
  const double mantissa = std::frexp(rate, &exponent);
  return std::ldexp(std::round(std::ldexp(mantissa, kBits)), exponent - kBits);
}

}  // namespace

const StepRates* LinkRates::of_paths() const {
  return tries_all(mesh_) ? this : nullptr;
}

double LinkRates::find(CommunicationKind kind, AxisSet axes) const {
  const ProcessGroup group = process_group(mesh_, axes);
  const Bytes message = wire_size(WireClass::Activation, context_.precision) * kLongMessage;
  const Seconds transfer = price_call(context_, kind, message, group).cost.transfer;
  return rounded(kNanoseconds * transfer.value() /
                 elements_moved(kind, group.size(), kLongMessage));
}

}  // namespace plansearch
