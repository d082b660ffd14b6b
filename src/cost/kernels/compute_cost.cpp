// SPDX-License-Identifier: Apache-2.0
// Computes: time of memory-bound kernels (launches and traffic over memory bandwidth), and which
//           number formats an accelerator has.
// Source: STREAM-like rates of the accelerator's profile.
// Assumes: kernels in a row do not overlap.
// Units: seconds, bytes.
// Checked by: tests/unit/cost/compute_cost_test.cpp
#include "cost/kernels/compute_cost.hpp"

#include <fmt/format.h>

#include <string>

#include "plansearch/error.hpp"

namespace plansearch {

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

}  // namespace plansearch
