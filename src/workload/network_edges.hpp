// SPDX-License-Identifier: Apache-2.0
// Who reads what across blocks: along the chain, and along edges.
#pragma once

#include <vector>

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

}  // namespace plansearch
