// SPDX-License-Identifier: Apache-2.0
// Computes: kernels, traffic and memory of expanding a quantised weight in front of its product.
// Source: one kernel that writes the format of the product, in forward and for the input gradient
//         (bitsandbytes autograd/_functions.py: MatMul4Bit). int4: tensor operations of PyTorch,
//         whose result autograd keeps (AutoGPTQ nn_modules/qlinear/qlinear_cuda_old.py@179776bd:
//         QuantLinear.forward from 128 tokens on).
// Assumes: every kernel moves its tensors once; tensors of scales and zero points are small. The
//          host time of a kernel was fitted to calls of modules: a dozen bare tensor operations
//          take about as long as one.
// Units: bytes per element of a weight.
// Checked by: tests/unit/cost/weight_expansion_test.cpp
#include "cost/kernels/weight_expansion.hpp"

namespace plansearch {
namespace {

/// Shift of eight values out of an int32 each (4 bytes), cast to a byte, mask, minus the zero
/// point, times the scale. Most is alive while the cast runs.
WeightExpansion by_tensor_operations(DataType kept, Bytes result) {
  constexpr double kWord = 4.0;
  constexpr double kByte = 1.0;
  const Bytes shift = element_size(kept) + Bytes(kWord);
  const Bytes cast(kWord + kByte);
  const Bytes mask(kByte + kByte);
  const Bytes minus_zero_point(kByte + kByte);
  const Bytes times_scale = Bytes(kByte) + result;
  return {1, shift + cast + mask + minus_zero_point + times_scale, Bytes(kWord + kByte), true};
}

}  // namespace

WeightExpansion weight_expansion(DataType kept, DataType product) {
  const Bytes result = element_size(product);
  if (kept == product) return {};
  if (kept == DataType::Int4) return by_tensor_operations(kept, result);
  return {1, element_size(kept) + result, result, false};
}

}  // namespace plansearch
