// SPDX-License-Identifier: Apache-2.0
// Computes: time of a matmul: the best tiling of the result over all multiprocessors, slowed by
//           heat, against the traffic of its operands.
// Source: tile and wave quantisation with split-k (cuBLAS practice), power-sum of compute and
//         memory time.
// Assumes: the tiles below; backward layouts run like forward ones. Rows off the vectors of loads
//          and stores slow forward and both gradients alike, however far off they are.
// Units: seconds, bytes, FLOP.
// Checked by: tests/unit/cost/compute_cost_test.cpp; docs/validation.md (kernel tables).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cost/kernels/compute_cost.hpp"

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
/// Kernels load and store vectors of so many bytes; other rows take slower kernels.
constexpr double kVector = 16.0;
/// Results are written in 16 bits whatever the inputs are.
constexpr Bytes kResult(2.0);

/// (a^3 + b^3)^(1/3), a smooth maximum.
Seconds cubic_maximum(Seconds a, Seconds b) {
  const Seconds high = std::max(a, b);
  if (high <= Seconds(0)) return Seconds(0);
  const double ratio = std::min(a, b) / high;
  return high * std::cbrt(1.0 + ratio * ratio * ratio);
}

double tiles_of(const MatmulShape& shape, Tile tile) {
  return shape.batch * std::ceil(shape.m / tile.rows) * std::ceil(shape.n / tile.columns);
}

/// One product on the multiprocessors of a chip, each at `rate`.
struct Engine {
  const MatmulCurve& curve;
  double processors;
  FlopRate rate;
  Bandwidth memory;
};

Seconds tiling_time(const Engine& engine, const MatmulShape& shape, Tile tile, double split) {
  const MatmulCurve& curve = engine.curve;
  const double load = tiles_of(shape, tile) * split / engine.processors;
  const double q = curve.wave_quantisation;
  const double waves = q * std::ceil(load) + (1.0 - q) * std::max(load, 1.0);
  const double smallness = (128.0 / tile.rows + 128.0 / tile.columns) / 1.5 - 1.0;
  const Flops work(waves * 2.0 * tile.rows * tile.columns *
                   (shape.k / split + curve.prologue_depth));
  Seconds time = work / engine.rate * (1.0 + curve.tile_penalty * smallness);
  if (split > 1.0) {
    const Bytes parts(curve.split_traffic * 4.0 * shape.batch * shape.m * shape.n * split);
    time += curve.split_pass + parts / engine.memory;
  }
  return time;
}

Seconds best_tiling(const Engine& engine, const MatmulShape& shape) {
  Seconds best(std::numeric_limits<double>::infinity());
  for (const Tile tile : kTiles) {
    const double tiles = tiles_of(shape, tile);
    for (const double split : kSplits) {
      if (split > 1.0 && tiles * split > kSplitWaves * engine.processors) break;
      best = std::min(best, tiling_time(engine, shape, tile, split));
    }
  }
  return best;
}

}  // namespace

Rows rows_of(DataType type, const MatmulShape& shape) {
  const double element = std::floor(2.0 * element_size(type).value()) / 2.0;  // scales lie apart
  const auto whole = [&](double elements) {
    return std::fmod(std::ceil(elements) * element, kVector) == 0.0;
  };
  return whole(shape.n) && whole(shape.k) ? Rows::Aligned : Rows::Unaligned;
}

MatmulKernel matmul_kernel(const Accelerator& accelerator, DataType type) {
  require_data_type(accelerator, type);
  const auto index = static_cast<std::size_t>(type);
  return {*accelerator.kernels.matmul[index], *accelerator.peak[index], element_size(type)};
}

Seconds matmul_time(const Accelerator& accelerator, const MatmulKernel& kernel,
                    const MatmulShape& shape, Clock clock, Rows rows) {
  const MatmulCurve& curve = kernel.curve;
  const double processors = accelerator.multiprocessors;
  const Bandwidth memory = accelerator.memory_bandwidth;
  const Engine engine{curve, processors, kernel.peak * curve.flop_efficiency / processors, memory};
  Seconds compute = best_tiling(engine, shape);
  const Seconds warm_up = clock == Clock::Sustained ? curve.warm_up : curve.burst_warm_up;
  compute *= 1.0 + curve.power_droop * (compute / (compute + warm_up));
  const Bytes traffic =
      shape.batch * (kernel.element * shape.k * (shape.m + shape.n) + kResult * shape.m * shape.n);
  const Bytes quantised(curve.quantise_bytes * shape.batch * shape.m * shape.k);
  const double slow = rows == Rows::Aligned ? 1.0 : curve.unaligned_rows;
  return curve.launch + (cubic_maximum(compute, traffic / (memory * curve.byte_efficiency)) * slow +
                         quantised / memory);
}

Seconds matmul_time(const Accelerator& accelerator, DataType type, const MatmulShape& shape,
                    Clock clock, Rows rows) {
  return matmul_time(accelerator, matmul_kernel(accelerator, type), shape, clock, rows);
}

}  // namespace plansearch
