// SPDX-License-Identifier: Apache-2.0
// Computes: time of a kernel that takes a sequence in chunks, forward and backward.
// Source: chunks of one sequence and head follow each other on one multiprocessor; where there are
//         more heads and sequences than multiprocessors they run in waves: launch + waves x chunks x
//         latency of a chunk + FLOPs / rate, at least the bytes at the rate of memory.
//         tools/fit_kernels.py fits launch, latency and rate to published measurements.
// Assumes: sequences of a micro-batch run at once; a chip without a row runs as the one with the
//          nearest bf16 peak, its rate and its latency by the square root of the peaks.
// Units: seconds, FLOPs.
// Checked by: tests/unit/cost/chunk_cost_test.cpp
#include "cost/kernels/chunk_cost.hpp"

#include <algorithm>
#include <cmath>

#include "base/ranges.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

FlopRate peak_of(const Accelerator& accelerator) {
  const auto peak = accelerator.peak_of(DataType::Bf16);
  return peak ? *peak : accelerator.peak_of(DataType::Fp16).value_or(FlopRate(0));
}

/// The curve of a chip, and how much faster it runs than the one the curve is of.
struct Match {
  const ChunkCurve* curve;
  double faster;
};

Match match(const Accelerator& accelerator, const NamedKernel& kernel, Pass pass) {
  PLANSEARCH_CHECK(!kernel.chips.empty());
  const auto curve = [&](const ChunkKernelOnChip& chip) {
    return pass == Pass::Forward ? &chip.forward : &chip.backward;
  };
  for (const ChunkKernelOnChip& chip : kernel.chips) {
    if (chip.accelerator == accelerator.name) return {curve(chip), 1.0};
  }
  const double peak = std::max(peak_of(accelerator).value(), 1.0);
  const auto distance = [&](const ChunkKernelOnChip& chip) {
    return std::abs(std::log(peak / chip.peak.value()));
  };
  const auto nearest =
      std::min_element(kernel.chips.begin(), kernel.chips.end(),
                       [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return {curve(*nearest), std::sqrt(peak / nearest->peak.value())};
}

}  // namespace

const NamedKernel* find_kernel(std::span<const NamedKernel> kernels,
                               std::span<const std::string> libraries, std::string_view name) {
  const NamedKernel* first = nullptr;
  for (const NamedKernel& kernel : kernels) {
    if (kernel.name != name) continue;
    if (contains(libraries, kernel.library)) return &kernel;
    if (first == nullptr) first = &kernel;
  }
  return first;
}

const NamedKernel& kernel_of(const Framework& framework, const Operator& op) {
  const NamedKernel* kernel = find_kernel(framework.named_kernels, framework.libraries, op.kernel);
  PLANSEARCH_CHECK(kernel != nullptr);
  return *kernel;
}

double gathering(const Framework& framework, const Operator& op) {
  if (op.selected == 0.0) return 1.0;
  return (op.selected + kernel_of(framework, op).tokens) / op.selected;
}

ChunkShape chunk_shape(const Network& network, const Operator& op, LocalExtents extents) {
  ChunkShape shape;
  double* feature = &shape.key_size;
  for (const DimId dim : op.loop) {
    const double extent = extents[static_cast<std::size_t>(dim)];
    switch (network.dimension(dim).role) {
      case DimRole::Batch:
        shape.batch *= extent;
        break;
      case DimRole::Sequence:
        shape.tokens *= extent;
        break;
      case DimRole::HeadSize:
        *feature *= extent;
        feature = &shape.value_size;
        break;
      case DimRole::Kernel:
        break;
      default:
        shape.heads *= extent;
        break;
    }
  }
  shape.key_heads = shape.heads;
  return shape;
}

Flops chunk_flops(const NamedKernel& kernel, const ChunkShape& s) {
  const ChunkFlops& f = kernel.flops;
  const double c = kernel.tokens;
  const double of_head = f.state * s.key_size * s.value_size + f.key * c * s.key_size +
                         f.value * c * s.value_size + f.square * c * c;
  return Flops(s.batch * s.tokens *
               (s.heads * of_head + s.key_heads * f.shared_key * c * s.key_size));
}

Seconds chunk_time(const Accelerator& accelerator, const NamedKernel& kernel,
                   const ChunkShape& shape, Pass pass) {
  const Match found = match(accelerator, kernel, pass);
  const ChunkCurve& curve = *found.curve;
  const double processors = std::max(1, accelerator.multiprocessors);
  const double waves = std::ceil(shape.batch * shape.heads / processors);
  const double chunks = std::ceil(shape.tokens / kernel.tokens);
  const Seconds launch = shape.launched ? curve.launch : Seconds(0);
  Seconds time = launch + curve.chunk * (waves * chunks / found.faster);
  if (curve.rate > FlopRate(0)) time += chunk_flops(kernel, shape) / (curve.rate * found.faster);
  return std::max(time, launch + shape.moved / (accelerator.memory_bandwidth * curve.byte_share));
}

}  // namespace plansearch
