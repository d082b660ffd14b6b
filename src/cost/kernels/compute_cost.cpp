// SPDX-License-Identifier: Apache-2.0
// Computes: time of memory-bound kernels (launches and traffic over memory bandwidth), which number formats an
//           accelerator has, and kernels, traffic and memory of expanding a quantised weight in front of its product.
// Source: STREAM-like rates of the accelerator's profile. Expansion: one kernel that writes the format of the product, in
//         forward and for the input gradient (bitsandbytes autograd/_functions.py: MatMul4Bit). int4: tensor operations
//         of PyTorch, whose result autograd keeps (AutoGPTQ nn_modules/qlinear/qlinear_cuda_old.py@179776bd:
//         QuantLinear.forward from 128 tokens on).
// Assumes: kernels in a row do not overlap; every kernel of an expansion moves its tensors once; tensors of scales and
//          zero points are small. The host time of a kernel was fitted to calls of modules: a dozen bare tensor
//          operations take about as long as one.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/compute_cost_test.cpp, weight_expansion_test.cpp
#include "cost/kernels/compute_cost.hpp"

#include <fmt/format.h>

#include <string>

#include "plansearch/error.hpp"

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

Seconds stream_time(const Accelerator& accelerator, Bytes traffic, int kernels) {
  const StreamCurve& curve = accelerator.kernels.stream;
  return curve.launch * static_cast<double>(kernels) +
         traffic / (accelerator.memory_bandwidth * curve.efficiency);
}

void require_data_type(const Accelerator& accelerator, DataType type) {
  const auto index = static_cast<std::size_t>(type);
  if (accelerator.peak[index] && accelerator.kernels.matmul[index]) return;
  std::string known;
  for (std::size_t i = 0; i < kDataTypeCount; ++i) {
    if (!accelerator.peak[i]) continue;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", to_text(static_cast<DataType>(i)));
  }
  throw InputError({}, fmt::format("{} has no {} rate", accelerator.name, to_text(type)),
                   fmt::format("it has {}", known));
}

Scaling scaling_of(std::optional<Fp8Recipe> recipe) {
  if (recipe == Fp8Recipe::Delayed) return {.bytes = -2.0};
  if (recipe == Fp8Recipe::Rowwise) return {.bytes = 2.0, .by_row = true};
  return {};
}

WeightExpansion weight_expansion(DataType kept, DataType product) {
  const Bytes result = element_size(product);
  if (kept == product) return {};
  if (kept == DataType::Int4) return by_tensor_operations(kept, result);
  return {1, element_size(kept) + result, result, false};
}

}  // namespace plansearch
