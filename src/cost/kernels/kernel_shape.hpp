// SPDX-License-Identifier: Apache-2.0
// Shapes of the kernels of one operator on one device, after its dimensions have been cut.
#pragma once

#include <span>

#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// `batch` independent products of an (m x k) by a (k x n) matrix.
struct MatmulShape {
  double batch = 1.0;
  double m = 1.0;
  double n = 1.0;
  double k = 1.0;
  bool operator==(const MatmulShape&) const = default;
};

/// batch x heads rows of `queries` tokens, each of which attends to `keys` tokens.
struct AttentionShape {
  double batch = 1.0;
  double heads = 1.0;
  double kv_heads = 1.0;
  double queries = 1.0;
  double keys = 1.0;
  double key_size = 1.0;    ///< features of a query and a key
  double value_size = 1.0;  ///< features of a value
  double useful_fraction = 1.0;
  bool operator==(const AttentionShape&) const = default;
};

/// Local extents of every dimension of the network, as one operator is placed; indexed by DimId.
using LocalExtents = std::span<const double>;

/// Bytes of one element under the precision policy.
[[nodiscard]] Bytes element_size(ElementClass element, const PrecisionPolicy& precision);

/// Matmul, GroupedMatmul and BatchedMatmul: which dimensions become m, n, k and batch follows from
/// the tensors that carry them.
[[nodiscard]] MatmulShape matmul_shape(const Network& network, const Block& block,
                                       const Operator& op, LocalExtents extents);
[[nodiscard]] AttentionShape attention_shape(const Network& network, const Operator& op,
                                             LocalExtents extents);

/// Scores of an indexer: the product of its heads and keys, and the pairs of which it chooses.
struct ScoresShape {
  MatmulShape product;
  double pairs = 0.0;
};
[[nodiscard]] ScoresShape scores_shape(const Network& network, const Operator& op,
                                       LocalExtents extents);

}  // namespace plansearch
