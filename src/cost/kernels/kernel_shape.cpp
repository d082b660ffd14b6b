// SPDX-License-Identifier: Apache-2.0
// Computes: local matrix and attention shapes of an operator.
// Source: einsum reading of a loop nest: a dimension of both operands and not of the result is k,
//         of one operand and the result m or n, of all three batch.
// Assumes: activations come first among the operands.
// Units: elements.
// Checked by: tests/unit/cost/kernel_shape_test.cpp
#include "cost/kernels/kernel_shape.hpp"

#include <algorithm>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

bool carries(const std::vector<DimId>& dims, DimId dim) {
  return std::ranges::find(dims, dim) != dims.end();
}

double extent(LocalExtents extents, DimId dim) {
  return extents[static_cast<std::size_t>(dim)];
}

/// Whether an operator reads an input along a dimension of its loop nest.
bool reads_along(const Block& block, const Operator& op, std::size_t input, DimId dim) {
  if (input >= op.reads.size() || op.reads[input].empty()) {
    return carries(block.tensor(op.inputs[input]).dims, dim);
  }
  return std::ranges::any_of(op.reads[input], [&](const IndexExpression& index) {
    return std::ranges::any_of(index.terms, [&](const IndexTerm& term) { return term.dim == dim; });
  });
}

/// Activations times parameters: what is read, the weight and the result decide.
MatmulShape parametric_shape(const Block& block, const Operator& op, LocalExtents extents) {
  const auto& right = block.parameter(op.parameters.front()).dims;
  const auto& out = block.tensor(op.outputs.front()).dims;
  MatmulShape shape;
  for (const DimId dim : op.loop) {
    const bool in_right = carries(right, dim);
    const bool in_out = carries(out, dim);
    if (!in_out) {
      shape.k *= extent(extents, dim);
    } else if (!in_right) {
      shape.m *= extent(extents, dim);
    } else if (reads_along(block, op, 0, dim)) {
      shape.batch *= extent(extents, dim);
    } else {
      shape.n *= extent(extents, dim);
    }
  }
  return shape;
}

/// Two activations whose reads are written out: what all three tensors carry is a product each.
MatmulShape indexed_product_shape(const Block& block, const Operator& op, LocalExtents extents) {
  const auto& out = block.tensor(op.outputs.front()).dims;
  MatmulShape shape;
  for (const DimId dim : op.loop) {
    const bool left = reads_along(block, op, 0, dim);
    const bool right = reads_along(block, op, 1, dim);
    if (!carries(out, dim)) {
      shape.k *= extent(extents, dim);
    } else if (left && right) {
      shape.batch *= extent(extents, dim);
    } else {
      (left ? shape.m : shape.n) *= extent(extents, dim);
    }
  }
  return shape;
}

/// Activations times activations (attention): rows are query tokens, one product per head.
MatmulShape attention_product_shape(const Network& network, const Block& block, const Operator& op,
                                    LocalExtents extents) {
  if (!op.reads.empty()) return indexed_product_shape(block, op, extents);
  const auto& out = block.tensor(op.outputs.front()).dims;
  MatmulShape shape;
  for (const DimId dim : op.loop) {
    const DimRole role = network.dimension(dim).role;
    if (!carries(out, dim)) {
      shape.k *= extent(extents, dim);
    } else if (role == DimRole::Batch || role == DimRole::Head) {
      shape.batch *= extent(extents, dim);
    } else if (role == DimRole::Sequence) {
      shape.m *= extent(extents, dim);
    } else {
      shape.n *= extent(extents, dim);
    }
  }
  return shape;
}

}  // namespace

Bytes element_size(ElementClass element, const PrecisionPolicy& precision) {
  switch (element) {
    case ElementClass::Activation:
      return element_size(precision.activation);
    case ElementClass::Statistic:
    case ElementClass::Logit:
      return Bytes(4);
    case ElementClass::Mask:
      return Bytes(1);
    case ElementClass::Index:
      return Bytes(8);
  }
  throw InternalError("element class without a size");
}

MatmulShape matmul_shape(const Network& network, const Block& block, const Operator& op,
                         LocalExtents extents) {
  return op.parameters.empty() ? attention_product_shape(network, block, op, extents)
                               : parametric_shape(block, op, extents);
}

AttentionShape attention_shape(const Network& network, const Operator& op, LocalExtents extents) {
  AttentionShape shape;
  shape.useful_fraction = op.useful_fraction;
  for (const DimId dim : op.loop) {
    switch (network.dimension(dim).role) {
      case DimRole::Batch:
        shape.batch *= extent(extents, dim);
        break;
      case DimRole::Head:
        shape.heads *= extent(extents, dim);
        break;
      case DimRole::Sequence:
      case DimRole::Pixel:
        shape.queries *= extent(extents, dim);
        break;
      case DimRole::KeySequence:
        shape.keys *= extent(extents, dim);
        break;
      default:
        shape.value_size *= extent(extents, dim);
        break;
    }
  }
  // FLOPs per point of the nest are 2 (key_size + value_size) / value_size.
  shape.key_size = shape.value_size * (op.flops_per_point / 2.0 - 1.0);
  shape.kv_heads = shape.heads;
  return shape;
}

ScoresShape scores_shape(const Network& network, const Operator& op, LocalExtents extents) {
  ScoresShape shape;
  shape.product.n = op.useful_fraction;
  double heads = 1.0;
  for (const DimId dim : op.loop) {
    const double size = extent(extents, dim);
    switch (network.dimension(dim).role) {
      case DimRole::Batch:
        shape.product.batch *= size;
        break;
      case DimRole::Sequence:
        shape.product.m *= size;
        break;
      case DimRole::KeySequence:
        shape.product.n *= size;
        break;
      case DimRole::HeadSize:
        shape.product.k *= size;
        break;
      default:
        heads *= size;
        break;
    }
  }
  shape.pairs = shape.product.batch * shape.product.m * shape.product.n;
  shape.product.m *= heads;
  return shape;
}

}  // namespace plansearch
