// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backends/cpu_trials.hpp"

#include <algorithm>
#include <cmath>

#include "measure/calibrate/backends/cpu_loops.hpp"
#include "measure/calibrate/probe.hpp"

namespace plansearch::calibrate {
namespace {

constexpr int kQueries = 128;  // of a block

/// c (m x n) = or += scale a b, rows of each one after the other.
struct Product {
  int m;
  int n;
  int k;
  float scale = 1.0F;
  float kept = 0.0F;
};

enum class Turn { None, First, Second };

void multiply(const Blas& blas, Turn turn, const Product& shape, const float* a, int lda,
              const float* b, int ldb, float* c, int ldc) {
  constexpr int kRowMajor = 101;
  constexpr int kPlain = 111;
  constexpr int kTransposed = 112;
  blas.sgemm(kRowMajor, turn == Turn::First ? kTransposed : kPlain,
             turn == Turn::Second ? kTransposed : kPlain, shape.m, shape.n, shape.k, shape.scale, a,
             lda, b, ldb, shape.kept, c, ldc);
}

/// Queries from `first` on, and the keys that any of them sees.
struct QueryBlock {
  int first;
  int queries;
  int keys;
};

QueryBlock block_at(const HeadShape& shape, int first) {
  const int queries = std::min(kQueries, shape.length - first);
  return {first, queries, shape.causal ? first + queries : shape.length};
}

/// The weights of a block of queries on its keys.
void weights(const Blas& blas, const HeadShape& shape, const HeadInput& input,
             const QueryBlock& block, float* scores) {
  const int size = shape.size;
  const float scale = 1.0F / std::sqrt(static_cast<float>(size));
  multiply(blas, Turn::Second, {block.queries, block.keys, size, scale},
           input.queries + area(block.first, size), size, input.keys, size, scores, block.keys);
  softmax_rows(scores, block.queries, block.keys, shape.causal ? block.first : block.keys);
}

}  // namespace

void AttentionScratch::hold(const HeadShape& shape) {
  scores_.resize(area(kQueries, shape.length));
  slopes_.resize(area(kQueries, shape.length));
}

void attention_forward(const Blas& blas, const HeadShape& shape, const HeadInput& input,
                       float* context, AttentionScratch& scratch) {
  scratch.hold(shape);
  for (int first = 0; first < shape.length; first += kQueries) {
    const QueryBlock block = block_at(shape, first);
    weights(blas, shape, input, block, scratch.scores());
    multiply(blas, Turn::None, {block.queries, shape.size, block.keys}, scratch.scores(),
             block.keys, input.values, shape.size, context + area(first, shape.size), shape.size);
  }
}

void attention_backward(const Blas& blas, const HeadShape& shape, const HeadInput& input,
                        const float* context, const float* slope, const HeadGradients& gradients,
                        AttentionScratch& scratch) {
  scratch.hold(shape);
  const int size = shape.size;
  const float scale = 1.0F / std::sqrt(static_cast<float>(size));
  for (int first = 0; first < shape.length; first += kQueries) {
    const QueryBlock block = block_at(shape, first);
    const std::size_t from = area(first, size);
    float* weight = scratch.scores();
    float* change = scratch.slopes();
    weights(blas, shape, input, block, weight);
    multiply(blas, Turn::First, {block.keys, size, block.queries, 1.0F, 1.0F}, weight, block.keys,
             slope + from, size, gradients.values, size);
    multiply(blas, Turn::Second, {block.queries, block.keys, size}, slope + from, size,
             input.values, size, change, block.keys);
    softmax_slopes(change, weight, slope + from, context + from, {block.queries, block.keys, size});
    multiply(blas, Turn::None, {block.queries, size, block.keys, scale, 1.0F}, change, block.keys,
             input.keys, size, gradients.queries + from, size);
    multiply(blas, Turn::First, {block.keys, size, block.queries, scale, 1.0F}, change, block.keys,
             input.queries + from, size, gradients.keys, size);
  }
}

std::unique_ptr<Trial> cpu_attention(const CpuPlace& place, const Point& point) {
  if (point.word("dtype") != "fp32") throw Unmeasurable{"only attention in fp32"};
  const AttentionShape shape = attention_shape(point);
  const HeadShape head{static_cast<int>(shape.queries), static_cast<int>(shape.key_size),
                       shape.useful_fraction < 1.0};
  const bool backward = point.word("direction") == "backward";
  const auto heads = static_cast<std::size_t>(shape.batch * shape.heads);
  const std::size_t sharing =  // heads of queries to one of keys
      std::max<std::size_t>(1, static_cast<std::size_t>(shape.heads / shape.kv_heads));
  const std::size_t pairs = heads / sharing;
  const std::size_t part = area(head.length, head.size);
  // Queries, keys, values; backward also what forward made and its gradient.
  const std::size_t read_set = part * (heads * (backward ? 3 : 1) + 2 * pairs);
  const std::size_t written_set = part * (heads + (backward ? 2 * pairs : 0));
  Rotation rotation = place.rotation;
  const float* all_read = place.read.at_least(read_set * rotation.sets());
  float* all_written = place.written.at_least(written_set * rotation.sets());
  return clocked([=, &blas = place.blas, scratch = AttentionScratch()]() mutable {
    const std::size_t set = rotation.next();
    const float* read = all_read + set * read_set;
    float* written = all_written + set * written_set;
    for (std::size_t i = 0; i < heads; ++i) {
      const std::size_t keys = (heads + i / sharing) * part;
      const std::size_t values = keys + pairs * part;
      const HeadInput input{read + i * part, read + keys, read + values};
      if (!backward) {
        attention_forward(blas, head, input, written + i * part, scratch);
        continue;
      }
      const float* context = read + (heads + 2 * pairs + i) * part;
      const float* slope = context + heads * part;
      attention_backward(blas, head, input, context, slope,
                         {written + i * part, written + keys, written + values}, scratch);
    }
  });
}

}  // namespace plansearch::calibrate
