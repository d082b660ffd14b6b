// SPDX-License-Identifier: Apache-2.0
// Facts read off a network: the readers of its tensors across blocks, faults of its routing, the
// unit of its samples.
#pragma once

#include <string>
#include <vector>

#include "plansearch/model_description.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// Copies of one block that read a tensor with the same input.
struct TensorReaders {
  std::int64_t first = 0;  ///< position
  std::int64_t copies = 1;
  std::size_t input = 0;
};

/// A tensor that an edge begins at, with all that read it, the next copy along the chain included.
struct SharedTensor {
  std::int64_t from = 0;  ///< position of the producer
  std::size_t output = 0;
  std::vector<TensorReaders> readers;  ///< by position
  bool handed_on = false;              ///< along the chain
  [[nodiscard]] std::int64_t last_reader() const;
};
[[nodiscard]] std::vector<SharedTensor> shared_tensors(const Network& network);

/// Whether some copy hands an output to the next one along the chain, by block and output.
[[nodiscard]] std::vector<std::vector<bool>> handed_on(const Network& network);

/// The block of every copy.
[[nodiscard]] std::vector<std::size_t> block_of_copies(const Network& network);

/// Faults of the groups and of the number of experts per token; empty if there are none.
[[nodiscard]] std::vector<std::string> routing_faults(const Routing& routing);

/// Whether it is a sequence of tokens: batches and FLOPs are counted by token then, else by sample
/// (an image).
[[nodiscard]] inline bool reads_tokens(const ModelDescription& model) {
  return model.stack != StackKind::Graph || model.embedding.vocab > 0;
}

/// Whether a product multiplies in the activation format where others take fewer bits: scores of
/// words and of experts, and adapters, which are trained beside frozen products
/// (NVIDIA-NeMo/Megatron-Bridge@067f987d src/megatron/bridge/peft/utils.py, ParallelLinearAdapter:
/// linear layers of Megatron-Core in place of Transformer Engine's).
[[nodiscard]] bool multiplies_wide(const Network& network, const Block& block, const Operator& op);

}  // namespace plansearch
