// SPDX-License-Identifier: Apache-2.0
// Computes: the share of one operator, and of one edge, in the work of a block.
// Source: evaluate/block/local_work.hpp; who pays for a message follows from its derivation.
// Assumes: nothing is hidden.
// Units: seconds.
// Checked by: tests/unit/evaluate/operator_price_test.cpp (the parts sum to the block)
#include "evaluate/block/operator_price.hpp"

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

void add(PhaseTimes& times, const PhaseMessage& message) {
  const Seconds all = message.time * static_cast<double>(message.communication.count);
  switch (message.communication.phase) {
    case DemandPhase::Forward:
      times.forward += all;
      return;
    case DemandPhase::InputGradient:
      times.input_gradient += all;
      return;
    case DemandPhase::WeightGradient:
      times.weight_gradient += all;
      return;
    case DemandPhase::Step:
      break;
  }
  throw InternalError("a message of operators at the end of a step");
}

}  // namespace

PhaseTimes& PhaseTimes::operator+=(const PhaseTimes& other) {
  forward += other.forward;
  input_gradient += other.input_gradient;
  weight_gradient += other.weight_gradient;
  return *this;
}

PhaseTimes operator_price(const BlockWork& work, std::size_t op) {
  const OperatorTime& kernels = work.operators[op];
  PhaseTimes times{kernels.forward, kernels.backward - kernels.weight_gradient,
                   kernels.weight_gradient};
  for (const PhaseMessage& message : work.messages) {
    const Communication& c = message.communication;
    if (c.reader == kNoReader && c.operator_index == op) add(times, message);
  }
  return times;
}

PhaseTimes edge_price(const BlockWork& work, const BlockIndex& index, std::size_t producer,
                      std::size_t consumer) {
  PhaseTimes times;
  for (const PhaseMessage& message : work.messages) {
    const Communication& c = message.communication;
    if (c.reader == kNoReader || c.reader != consumer) continue;
    if (index.producers[c.index] == producer) add(times, message);
  }
  return times;
}

}  // namespace plansearch
