// SPDX-License-Identifier: Apache-2.0
// Kernels of recurrences and causal convolutions with curves of their own, by library and chip.
// Data of frameworks/operators/recurrences.yaml; the equation is in src/cost/kernels/.
#pragma once

#include <string>
#include <vector>

#include "plansearch/quantity.hpp"

namespace plansearch {

/// One pass of a kernel on one chip.
struct ChunkCurve {
  Seconds launch;
  Seconds chunk;            ///< of one chunk: the chunks of a sequence follow each other
  FlopRate rate;            ///< of the FLOPs of the chunk form; 0: they cost nothing
  double byte_share = 1.0;  ///< of memory bandwidth
  bool operator==(const ChunkCurve&) const = default;
};

struct ChunkKernelOnChip {
  std::string accelerator;  ///< a name of hardware_profiles/accelerators
  FlopRate peak;            ///< its bf16 peak: other chips take the curve of the nearest one
  ChunkCurve forward;
  ChunkCurve backward;
  bool operator==(const ChunkKernelOnChip&) const = default;
};

/// FLOPs of the chunk form for a token: N features of a key, P of a value, C tokens of a chunk.
struct ChunkFlops {
  double state = 0.0;       ///< times N P, a head of values
  double key = 0.0;         ///< times C N, a head of values
  double shared_key = 0.0;  ///< times C N, a head of keys
  double value = 0.0;       ///< times C P, a head of values
  double square = 0.0;      ///< times C C, a head of values
  bool operator==(const ChunkFlops&) const = default;
};

/// Implementations of one operator name, the default first.
struct NamedKernel {
  std::string name;      ///< of the operator: mamba2, gdn, ...
  std::string library;   ///< word of --kernels
  double tokens = 64.0;  ///< of a chunk
  ChunkFlops flops;
  std::vector<ChunkKernelOnChip> chips;
  std::string source;
  bool operator==(const NamedKernel&) const = default;
};

}  // namespace plansearch
