// SPDX-License-Identifier: Apache-2.0
// Computes: time of a matmul, of fused attention and of a memory-bound kernel.
// Source: tile and wave quantisation with split-k (cuBLAS practice), power-sum of compute and
//         memory time; attention per block of queries (Dao, FlashAttention-2, arXiv 2307.08691).
// Assumes: the tiles below, 128 queries a block; backward layouts run like forward ones.
// Units: seconds, bytes, FLOP.
// Checked by: tests/unit/cost/compute_cost_test.cpp; docs/validation.md (kernel tables).
#include "cost/compute_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

struct Tile {
  double rows;
  double columns;
};
/// Output tiles that matmul libraries choose from, and how far they split the depth.
constexpr std::array<Tile, 6> kTiles{
    {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}}};
constexpr std::array<double, 4> kSplits{1, 2, 4, 8};
/// A split is tried only while the whole product stays below this many waves.
constexpr double kSplitWaves = 4.0;
/// Second kernel that sums the parts of a split.
constexpr Seconds kSplitPass(2e-6);
/// Kernel length at which half of the clock drop is reached when kernels run one by one.
constexpr Seconds kPowerTime(3000e-6);
/// Results are written in 16 bits whatever the inputs are.
constexpr double kResultBytes = 2.0;
constexpr double kQueryBlock = 128.0;
constexpr double kWideHead = 256.0;

/// (a^3 + b^3)^(1/3), a smooth maximum.
double cubic_maximum(double a, double b) {
  const double high = std::max(a, b);
  if (high <= 0.0) return 0.0;
  const double ratio = std::min(a, b) / high;
  return high * std::cbrt(1.0 + ratio * ratio * ratio);
}

/// (a^1.5 + b^1.5)^(1/1.5): several blocks of queries share a multiprocessor near the end.
double blunt_maximum(double a, double b) {
  const double sum = a * std::sqrt(a) + b * std::sqrt(b);
  return std::cbrt(sum * sum);
}

/// Time of one tiling, with every multiprocessor at `rate` FLOP/s.
double tiling_time(const MatmulCurve& curve, const MatmulShape& shape, Tile tile, double split,
                   double processors, double rate, double memory) {
  const double tiles =
      shape.batch * std::ceil(shape.m / tile.rows) * std::ceil(shape.n / tile.columns) * split;
  const double load = tiles / processors;
  const double q = curve.wave_quantisation;
  const double waves = q * std::ceil(load) + (1.0 - q) * std::max(load, 1.0);
  const double smallness = (128.0 / tile.rows + 128.0 / tile.columns) / 1.5 - 1.0;
  double time = waves * 2.0 * tile.rows * tile.columns * (shape.k / split + curve.prologue_depth) /
                rate * (1.0 + curve.tile_penalty * smallness);
  if (split > 1.0) {
    time += kSplitPass.value() +
            curve.split_traffic * 4.0 * shape.batch * shape.m * shape.n * split / memory;
  }
  return time;
}

double best_tiling(const MatmulCurve& curve, const MatmulShape& shape, double processors,
                   double rate, double memory) {
  double best = std::numeric_limits<double>::infinity();
  for (const Tile tile : kTiles) {
    const double tiles =
        shape.batch * std::ceil(shape.m / tile.rows) * std::ceil(shape.n / tile.columns);
    for (const double split : kSplits) {
      if (split > 1.0 && tiles * split > kSplitWaves * processors) break;
      best = std::min(best, tiling_time(curve, shape, tile, split, processors, rate, memory));
    }
  }
  return best;
}

const AttentionCurve& attention_curve(const Accelerator& accelerator, Pass pass) {
  const auto& curve = pass == Pass::Forward ? accelerator.kernels.attention_forward
                                            : accelerator.kernels.attention_backward;
  if (!curve) {
    throw InputError({}, fmt::format("{} has no fused attention kernel", accelerator.name),
                     "use --attention unfused");
  }
  return *curve;
}

}  // namespace

MatmulKernel matmul_kernel(const Accelerator& accelerator, DataType type) {
  require_data_type(accelerator, type);
  const auto index = static_cast<std::size_t>(type);
  return {*accelerator.kernels.matmul[index], *accelerator.peak[index], element_size(type)};
}

Seconds matmul_time(const Accelerator& accelerator, const MatmulKernel& kernel,
                    const MatmulShape& shape, Clock clock) {
  const MatmulCurve& curve = kernel.curve;
  const double processors = accelerator.multiprocessors;
  const double rate = kernel.peak.value() * curve.flop_efficiency / processors;
  const double memory = accelerator.memory_bandwidth.value();
  double compute = best_tiling(curve, shape, processors, rate, memory);
  const Seconds warm_up = clock == Clock::Sustained ? curve.warm_up : kPowerTime;
  const double heat = compute / (compute + warm_up.value());
  compute *= 1.0 + curve.power_droop * heat;
  const double bytes = shape.batch * (kernel.element.value() * shape.k * (shape.m + shape.n) +
                                      kResultBytes * shape.m * shape.n);
  const double quantise = curve.quantise_bytes * shape.batch * shape.m * shape.k / memory;
  return curve.launch +
         Seconds(cubic_maximum(compute, bytes / (memory * curve.byte_efficiency)) + quantise);
}

Seconds matmul_time(const Accelerator& accelerator, DataType type, const MatmulShape& shape,
                    Clock clock) {
  return matmul_time(accelerator, matmul_kernel(accelerator, type), shape, clock);
}

Seconds attention_time(const Accelerator& accelerator, DataType type, const AttentionShape& shape,
                       Pass pass) {
  return attention_time(accelerator, attention_curve(accelerator, pass), type, shape, pass);
}

Seconds attention_time(const Accelerator& accelerator, const AttentionCurve& curve, DataType type,
                       const AttentionShape& shape, Pass pass) {
  const auto peak = accelerator.peak[static_cast<std::size_t>(type)];
  if (!peak) require_data_type(accelerator, type);
  const double processors = accelerator.multiprocessors;
  const double head = 0.5 * (shape.key_size + shape.value_size);
  const double rate = peak->value() * curve.flop_efficiency / processors *
                      (head > kWideHead ? curve.wide_head : 1.0);
  // Two products forward (scores, context), five backward (scores again and four gradients).
  const double products = pass == Pass::Forward ? 4.0 : 10.0;
  const double per_key = kQueryBlock * (products * head / rate + 1e-6 / curve.exponentials_per_us);
  const double seen = shape.keys * shape.useful_fraction;
  const double blocks = shape.batch * shape.heads * std::ceil(shape.queries / kQueryBlock);
  const double work = blocks * (per_key * seen + curve.block.value()) / processors;
  const double tail = curve.longest * (per_key * shape.keys + curve.block.value());
  // Backward reads q, k, v, the output and its gradient and writes three gradients.
  const double passes = pass == Pass::Forward ? 1.0 : 2.0;
  const double memory = accelerator.memory_bandwidth.value();
  const double query_bytes = 2.0 * shape.batch * shape.queries * shape.heads *
                             (shape.key_size + shape.value_size) / curve.query_byte_efficiency;
  const double key_bytes = 2.0 * shape.batch * shape.keys * shape.kv_heads *
                           (shape.key_size + shape.value_size) / curve.key_byte_efficiency;
  return curve.launch + curve.token * (shape.batch * shape.queries) +
         Seconds(blunt_maximum(work, tail) + passes * (query_bytes + key_bytes) / memory);
}

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
