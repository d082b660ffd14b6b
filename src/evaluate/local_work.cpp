// SPDX-License-Identifier: Apache-2.0
// Computes: kernel sums of a block by pass, prices of the messages of its operators.
// Source: evaluate/operator_time.hpp, evaluate/pass_message.hpp.
// Assumes: messages grow with the sequences of a micro-batch or do not depend on them.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/block_profile_test.cpp
#include "evaluate/local_work.hpp"

#include "plan/recompute.hpp"

namespace plansearch {
namespace {

void add(KernelSum& sum, Seconds time, double launches) {
  sum.time += time;
  sum.launches += launches;
}

}  // namespace

RepeatedShares repeated_shares(const Block& block, SelectiveRule rule) {
  RepeatedShares shares;
  for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
    shares[level] = repeated_shares(block, static_cast<Recompute>(level), rule);
  }
  return shares;
}

BlockWork block_work(const PricingContext& context, const DeviceMesh& mesh,
                     const LocalBlock& local) {
  BlockWork work;
  work.operators = operator_times(context, local.block, local.sizes);
  for (std::size_t i = 0; i < work.operators.size(); ++i) {
    const OperatorTime& time = work.operators[i];
    add(work.forward, time.forward, time.forward_kernels);
    add(work.backward, time.backward, time.backward_kernels);
    add(work.weight_gradient, time.weight_gradient, time.weight_kernels);
    for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
      const double share = local.repeated[level][i];
      add(work.repeated[level], time.forward * share, time.forward_kernels * share);
    }
  }
  work.messages.reserve(local.placed.messages.size());
  for (const SequenceMessage& message : local.placed.messages) {
    work.messages.push_back(
        price_message(context, mesh, message.communication, message.elements(local.micro_batch)));
  }
  return work;
}

}  // namespace plansearch
