// SPDX-License-Identifier: Apache-2.0
// One micro-batch of one block on one device, before recomputation and policies are chosen: kernel
// times, the messages of its operators, the bytes it keeps, the tokens of the fullest rank of
// experts.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluate/block/operator_time.hpp"
#include "evaluate/block/phase_message.hpp"
#include "evaluate/block/placed_network.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// The same for all plans that run no operators piece by piece.
[[nodiscard]] RepeatedShares repeated_shares(const Block& block,
                                             const SelectiveRecompute& selective);

/// The memory of one micro-batch of one block on one device.
struct BlockMemory {
  Bytes saved;        ///< kept from forward to backward
  Bytes offloaded;    ///< the same, in memory of the host
  Bytes working_set;  ///< kept in addition while its own backward runs
  Bytes loss;         ///< share of `saved` that the loss needs (head block)
  /// Inputs and output gradients of linear operators with trainable weights, which stay from the
  /// input gradient to a weight gradient that runs later.
  Bytes kept_for_weights;
  Bytes cached;                ///< gathered inputs, freed after use
  double gathered_unit = 0.0;  ///< elements of the largest launch's weights, gathered over depth
  Bytes gathered_for_step;     ///< weights gathered over depth that stay until the next step
  Bytes boundary;              ///< outputs handed on along the chain, the message to the next stage
  double stream = 0.0;         ///< elements of the residual stream as matmuls read it
  double logits = 0.0;         ///< local elements of vocabulary scores (head block)
};

/// Kernels of one pass.
struct KernelSum {
  Seconds time;
  double launches = 0.0;
};

/// Operators lie in the LocalKernels that the block stands in.
struct BlockKernels {
  std::span<const OperatorTime> operators;
  KernelSum forward;
  KernelSum backward;         ///< both gradients
  KernelSum weight_gradient;  ///< the part of `backward` that a schedule may run later
  ByRecompute<KernelSum> repeated;
};

/// The kernels of a block and the messages of its operators, in the order of derivation. Messages
/// lie in the LocalWork that the block stands in.
struct BlockWork : BlockKernels {
  std::span<const PhaseMessage> messages;
};

/// Kernels of all blocks of a network: they depend on local sizes, not on where ranks lie. Blocks
/// point into it.
struct LocalKernels {
  LocalKernels() = default;
  LocalKernels(const LocalKernels&) = delete;
  LocalKernels& operator=(const LocalKernels&) = delete;

  std::vector<BlockKernels> blocks;
  std::vector<OperatorTime> operators;  ///< of all blocks, one after the other
};

/// Kernels and messages of all blocks of a network. Blocks point into it.
struct LocalWork {
  LocalWork() = default;
  LocalWork(const LocalWork&) = delete;
  LocalWork& operator=(const LocalWork&) = delete;

  std::shared_ptr<const PlacedNetwork> placed;
  std::shared_ptr<const LocalKernels> kernels;
  std::vector<BlockWork> blocks;
  std::vector<PhaseMessage> messages;
};

/// A tensor at the border of a block, as part of what one copy of it keeps.
struct PortBytes {
  ByRecompute<Bytes> kept{};  ///< part of BlockMemory::saved
  Bytes for_weights;          ///< part of BlockMemory::kept_for_weights
  Bytes tile;                 ///< as a message
};
/// By port: inputs, then outputs (BlockPort).
using BlockPorts = std::vector<PortBytes>;

/// Bytes of all blocks, wherever ranks lie: known before any time is.
struct LocalMemory {
  std::shared_ptr<const PlacedBlocks> placed;
  std::vector<ByRecompute<BlockMemory>> blocks;
  std::vector<BlockPorts> ports{};  ///< by block; none where no edge leads anywhere
};

/// One block of a placed network with `micro_batch` sequences per device.
struct LocalBlock {
  const Block& block;
  const BlockIndex& index;
  const PlacedBlock& placed;
  const RepeatedShares& repeated;
  LocalSizes sizes;
  LocalSizes kernels;  ///< of one kernel of an operator: of a piece, where it runs in pieces
  int micro_batch = 1;
  const SelectiveRecompute& selective;
  HostTensors host;
};

/// Kernels of a block that run again, by the share of every operator.
[[nodiscard]] KernelSum repeated_kernels(const BlockKernels& kernels,
                                         const std::vector<double>& shares);

/// Appends a block to `kernels`, which has room for all its operators.
void add_block_kernels(const PricingContext& context, const LocalBlock& local,
                       LocalKernels& kernels);
/// Appends a block to `work`, which has its kernels and room for all its messages.
void add_block_messages(const PricingContext& context, const PlacedBlock& placed, int micro_batch,
                        DispatcherId dispatcher, LocalWork& work);
[[nodiscard]] ByRecompute<BlockMemory> block_memory(const PricingContext& context,
                                                    const LocalBlock& local);
[[nodiscard]] BlockPorts block_ports(const PricingContext& context, const LocalBlock& local);

/// A tensor that one micro-batch of one block keeps from forward to backward.
struct SavedTensor {
  std::string name;
  Bytes bytes;
};
/// Those that have a name, under a level of recomputation; none where a policy by operator or
/// pieces on one device decide what is kept.
[[nodiscard]] std::vector<SavedTensor> saved_of(const PricingContext& context,
                                                const LocalBlock& local, Recompute level);

/// Tokens of the fullest rank over the mean, for micro-batches of `sequences`. 1 where nothing is
/// routed, and where experts are padded to a capacity.
[[nodiscard]] double fullest_rank(const Network& network, const DeviceMesh& mesh, int sequences);

/// Lets the dimensions of routed tokens have the size that they have on that rank. `extents`: by
/// DimId, of a micro-batch of `sequences`.
void fill_fullest_rank(const Network& network, const DeviceMesh& mesh, int sequences,
                       std::vector<double>& extents);

}  // namespace plansearch
