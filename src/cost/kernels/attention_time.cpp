// SPDX-License-Identifier: Apache-2.0
// Computes: time of fused attention: all blocks of queries over all multiprocessors, or the longest
//           block at the end, and the traffic of queries, keys and values.
// Source: FlashAttention-2 (Dao, arXiv 2307.08691): one block of queries runs over all its keys;
//         products and exponentials follow one another.
// Assumes: 128 queries a block; backward layouts run like forward ones.
// Units: seconds, bytes, FLOP.
// Checked by: tests/unit/cost/compute_cost_test.cpp; docs/validation.md (kernel tables).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost/kernels/compute_cost.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr double kQueryBlock = 128.0;
constexpr double kWideHead = 256.0;
/// Queries, keys and values are 16-bit.
constexpr double kElement = 2.0;

/// (a^1.5 + b^1.5)^(1/1.5): several blocks of queries share a multiprocessor near the end.
Seconds blunt_maximum(Seconds first, Seconds second) {
  const double a = first.value();
  const double b = second.value();
  const double sum = a * std::sqrt(a) + b * std::sqrt(b);
  return Seconds(std::cbrt(sum * sum));
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
  const FlopRate rate =
      *peak * curve.flop_efficiency / processors * (head > kWideHead ? curve.wide_head : 1.0);
  // Two products forward (scores, context), five backward (scores again and four gradients).
  const Flops products((pass == Pass::Forward ? 4.0 : 10.0) * head);
  const Seconds exponential(1e-6 / curve.exponentials_per_us);
  const Seconds per_key = kQueryBlock * (products / rate + exponential);
  const double seen = shape.keys * shape.useful_fraction;
  const double blocks = shape.batch * shape.heads * std::ceil(shape.queries / kQueryBlock);
  const Seconds work = blocks * (per_key * seen + curve.block) / processors;
  // Below the diagonal the last block of queries sees twice as many keys as the mean one.
  const double most = std::min(shape.keys, 2.0 * seen);
  const Seconds tail = curve.longest * (per_key * most + curve.block);
  // Backward reads q, k, v, the output and its gradient and writes three gradients.
  const double passes = pass == Pass::Forward ? 1.0 : 2.0;
  const double features = shape.key_size + shape.value_size;
  const Bytes queries(kElement * shape.batch * shape.queries * shape.heads * features /
                      curve.query_byte_efficiency);
  const Bytes keys(kElement * shape.batch * shape.keys * shape.kv_heads * features /
                   curve.key_byte_efficiency);
  return curve.launch + curve.token * (shape.batch * shape.queries) +
         (blunt_maximum(work, tail) + passes * (queries + keys) / accelerator.memory_bandwidth);
}

}  // namespace plansearch
