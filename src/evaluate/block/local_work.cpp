// SPDX-License-Identifier: Apache-2.0
// Computes: kernel sums of a block by pass, prices of the messages of its operators, tokens of the
//           fullest rank of a layer's experts over the mean.
// Source: evaluate/block/operator_time.hpp, evaluate/block/phase_message.hpp;
//         cost/collective/token_spread.hpp: ranks that share experts wait for each other at every
//         exchange, so that each layer takes as long as its fullest rank.
// Assumes: messages grow with the sequences of a micro-batch or do not depend on them; the fullest
//          rank of every layer is one and the same for memory: an upper limit; experts that are
//          padded to a capacity hold as many rows everywhere.
// Units: seconds, bytes, tokens.
// Checked by: tests/unit/evaluate/block_profile_test.cpp, rank_load_test.cpp
#include "evaluate/block/local_work.hpp"

#include "cost/collective/collective_cost.hpp"
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

namespace {

/// Rows of a rank that its experts hold between them; sequences of data and depth ranks cancel.
double rows_of_rank(const Network& network, const DeviceMesh& mesh, const Dimension& routed,
                    int sequences) {
  const auto size = [&](Axis axis) { return static_cast<double>(mesh[axis].size); };
  const double all = static_cast<double>(network.routing->experts * routed.extent) * sequences;
  return all * size(Axis::ExpertTensor) / (size(Axis::Context) * size(Axis::In) * size(Axis::Out));
}

double fullest(const Network& network, const DeviceMesh& mesh, const Dimension& routed,
               int sequences) {
  return fullest_rank(*network.routing, static_cast<double>(mesh[Axis::Expert].size),
                      rows_of_rank(network, mesh, routed, sequences));
}

bool spreads(const Network& network) {
  return network.routing && !network.routing->capacity_factor;
}

}  // namespace

double fullest_rank(const Network& network, const DeviceMesh& mesh, int sequences) {
  if (!spreads(network)) return 1.0;
  for (const Dimension& dimension : network.dimensions) {
    if (dimension.role == DimRole::Routed) return fullest(network, mesh, dimension, sequences);
  }
  return 1.0;
}

void fill_fullest_rank(const Network& network, const DeviceMesh& mesh, int sequences,
                       std::vector<double>& extents) {
  if (!spreads(network)) return;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const Dimension& dimension = network.dimensions[d];
    if (dimension.role != DimRole::Routed) continue;
    extents[d] *= fullest(network, mesh, dimension, sequences);
  }
}

}  // namespace plansearch
