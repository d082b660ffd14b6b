// SPDX-License-Identifier: Apache-2.0
// Computes: rates of steps between layouts on the tiers of a cluster.
// Source: the price of a collective inside a step (evaluate/block/phase_message.hpp): the part that
//         grows with the message, over the elements that a device sends.
// Assumes: activations are long messages: of a path only bandwidths decide. Rates that differ by
//          less than a thousandth are one, so that then the number of steps decides.
// Units: nanoseconds per element.
// Checked by: tests/unit/evaluate/link_rates_test.cpp
#include "evaluate/block/link_rates.hpp"

#include <cmath>

#include "communication/redistribution/redistribution.hpp"

namespace plansearch {
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
