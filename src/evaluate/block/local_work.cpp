// SPDX-License-Identifier: Apache-2.0
// Computes: kernel sums of a block by pass, prices of the messages of its operators.
// Source: evaluate/block/operator_time.hpp, evaluate/block/phase_message.hpp.
// Assumes: messages grow with the sequences of a micro-batch or do not depend on them.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/block_profile_test.cpp
#include "evaluate/block/local_work.hpp"

#include "evaluate/block/rank_load.hpp"
#include "plan/primitives/recompute.hpp"

namespace plansearch {
namespace {

void add(KernelSum& sum, Seconds time, double launches) {
  sum.time += time;
  sum.launches += launches;
}

}  // namespace

RepeatedShares repeated_shares(const Block& block, const SelectiveRecompute& selective) {
  RepeatedShares shares;
  for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
    shares[level] = repeated_shares(block, static_cast<Recompute>(level), selective);
  }
  return shares;
}

KernelSum repeated_kernels(const BlockKernels& kernels, const std::vector<double>& shares) {
  KernelSum sum;
  for (std::size_t i = 0; i < kernels.operators.size(); ++i) {
    const OperatorTime& time = kernels.operators[i];
    add(sum, time.forward * shares[i], time.forward_kernels * shares[i]);
  }
  return sum;
}

void add_block_kernels(const PricingContext& context, const LocalBlock& local,
                       LocalKernels& kernels) {
  BlockKernels& own = kernels.blocks.emplace_back();
  const std::size_t first_operator = kernels.operators.size();
  append_operator_times(context, local.block, local.sizes, local.kernels, kernels.operators);
  own.operators = std::span(kernels.operators).subspan(first_operator);
  for (std::size_t i = 0; i < own.operators.size(); ++i) {
    const OperatorTime& time = own.operators[i];
    add(own.forward, time.forward, time.forward_kernels);
    add(own.backward, time.backward, time.backward_kernels);
    add(own.weight_gradient, time.weight_gradient, time.weight_kernels);
    for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
      const double share = local.repeated[level][i];
      add(own.repeated[level], time.forward * share, time.forward_kernels * share);
    }
  }
}

void add_block_messages(const PricingContext& context, const PlacedBlock& placed, int micro_batch,
                        DispatcherId dispatcher, LocalWork& work) {
  BlockWork& own =
      work.blocks.emplace_back(BlockWork{work.kernels->blocks[work.blocks.size()], {}});
  const std::size_t first_message = work.messages.size();
  const DeviceMesh& mesh = work.placed->mesh;
  const double fullest = fullest_rank(*context.problem.network, mesh, micro_batch);
  for (const SequenceMessage& message : placed.messages) {
    work.messages.push_back(price_message(context, mesh, message.communication,
                                          message.elements(micro_batch), fullest, dispatcher));
  }
  own.messages = std::span(work.messages).subspan(first_message);
}

}  // namespace plansearch
