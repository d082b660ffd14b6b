// SPDX-License-Identifier: Apache-2.0
// Fitted speed of the kernels of one accelerator: constants with a physical meaning, measured or
// derived from the datasheet. The equations are in src/cost/.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/data_type.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// Quantiles of ln(measured / predicted) on measurements the fit did not see.
struct Residual {
  double p10 = 0.0;
  double p50 = 0.0;
  double p90 = 0.0;
  bool operator==(const Residual&) const = default;
};

/// Matmul kernels of one input format. Shares are of the datasheet peak.
struct MatmulCurve {
  Seconds launch;                  ///< of a captured launch, device side
  double flop_efficiency = 1.0;    ///< of peak, inside a full wave of tiles
  double byte_efficiency = 1.0;    ///< of memory bandwidth
  double prologue_depth = 0.0;     ///< k steps a tile pays to start and to drain
  double tile_penalty = 0.0;       ///< extra time of smaller tiles, relative
  double wave_quantisation = 0.0;  ///< 0: waves overlap freely, 1: whole waves only
  double split_traffic = 0.0;      ///< extra passes over the result when k is split
  Seconds split_pass;              ///< second kernel that sums the parts of a split
  double power_droop = 0.0;        ///< slow-down of a chip that is hot
  Seconds warm_up;        ///< kernel length at half the droop inside a step; 0: hot throughout
  Seconds burst_warm_up;  ///< the same when kernels run one by one
  double quantise_bytes = 0.0;  ///< moved per input element to change its format
  double row_scaled = 1.0;      ///< rate with one scale a row, over that with one a tensor
  double unaligned_rows = 1.0;  ///< time when rows are not multiples of 16 bytes, relative
  std::optional<Residual> residual;
  bool operator==(const MatmulCurve&) const = default;
};

/// Fused attention in one direction.
struct AttentionCurve {
  Seconds launch;
  double flop_efficiency = 1.0;    ///< of the bf16 peak
  double exponentials_per_us = 0;  ///< softmax scores per microsecond and multiprocessor
  Seconds block;                   ///< start of one block of queries
  double longest = 0.0;            ///< weight of the longest block (tail of the last wave)
  double query_byte_efficiency = 1.0;
  double key_byte_efficiency = 1.0;
  double wide_head = 1.0;  ///< efficiency left for heads above 256
  Seconds token;           ///< per token: cache append of serving kernels, else zero
  std::optional<Residual> residual;
  bool operator==(const AttentionCurve&) const = default;
};

/// A named attention implementation: "flash2", "flash3", "serving" (forward only).
struct AttentionKernel {
  std::string name;
  AttentionCurve forward;
  std::optional<AttentionCurve> backward;
  bool operator==(const AttentionKernel&) const = default;
};

/// Memory-bound kernels.
struct StreamCurve {
  Seconds launch;
  double efficiency = 1.0;             ///< of memory bandwidth
  double reduction_efficiency = 0.85;  ///< further factor of norms and softmax
  double optimizer_efficiency = 0.9;   ///< further factor of fused multi-tensor updates
  Seconds graph_launch;                ///< launch inside a captured graph
  std::optional<Bandwidth> l2_bandwidth;
  bool operator==(const StreamCurve&) const = default;
};

struct KernelCurves {
  std::array<std::optional<MatmulCurve>, kDataTypeCount> matmul;
  std::optional<AttentionCurve> attention_forward;  ///< absent: no fused kernel on this chip
  std::optional<AttentionCurve> attention_backward;
  /// Every implementation by name; the two curves above are those of the first with a backward.
  std::vector<AttentionKernel> attention;
  std::optional<MatmulCurve> matmul_fp8_block;  ///< fp8 inputs, one scale per 128 elements
  StreamCurve stream;

  [[nodiscard]] const AttentionKernel* find_attention(const std::string& name) const {
    for (const AttentionKernel& kernel : attention) {
      if (kernel.name == name) return &kernel;
    }
    return nullptr;
  }
  bool operator==(const KernelCurves&) const = default;
};

}  // namespace plansearch
