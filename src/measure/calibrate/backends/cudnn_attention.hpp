// SPDX-License-Identifier: Apache-2.0
// Fused attention by cuDNN's graph interface: the patterns that it takes for flash attention.
#pragma once

#include <memory>
#include <string>

#include "measure/calibrate/backends/cuda_calls.hpp"

namespace plansearch::calibrate {

class FusedAttention {
 public:
  FusedAttention() = default;
  virtual ~FusedAttention() = default;
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;
  [[nodiscard]] virtual std::string version() const = 0;
  /// Throws Unmeasurable for formats that are not of 16 bits and where cuDNN has no kernel.
  [[nodiscard]] virtual std::unique_ptr<DeviceCall> prepare(const CudaPlace& place,
                                                            const Point& point) = 0;
};

/// Throws Unmeasurable with what is missing: the header when this was built, or the library.
[[nodiscard]] std::unique_ptr<FusedAttention> make_attention();

/// Builds the graph of a point without a device; throws Unmeasurable where cuDNN takes it for
/// wrong.
void check_attention_graph(const Point& point);

}  // namespace plansearch::calibrate
