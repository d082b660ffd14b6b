// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backends/cpu_trials.hpp"

#include <algorithm>
#include <cmath>

#include "measure/calibrate/backends/cpu_loops.hpp"
#include "measure/calibrate/probe.hpp"

namespace plansearch::calibrate {
namespace {

constexpr int kQueries = 128;  // of a block

std::size_t area(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

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

class AttentionTrial final : public Trial {
 public:
  AttentionTrial(const CpuPlace& place, const Point& point)
      : blas_(place.blas),
        backward_(point.word("direction") == "backward"),
        rotation_(place.rotation) {
    const AttentionShape shape = attention_shape(point);
    head_ = {static_cast<int>(shape.queries), static_cast<int>(shape.key_size),
             shape.useful_fraction < 1.0};
    heads_ = static_cast<std::size_t>(shape.batch * shape.heads);
    sharing_ = std::max<std::size_t>(1, static_cast<std::size_t>(shape.heads / shape.kv_heads));
    part_ = area(head_.length, head_.size);
    const std::size_t pairs = heads_ / sharing_;
    // Queries, keys, values; backward also what forward made and its gradient.
    read_set_ = part_ * (heads_ * (backward_ ? 3 : 1) + 2 * pairs);
    written_set_ = part_ * (heads_ + (backward_ ? 2 * pairs : 0));
    read_ = place.read.at_least(read_set_ * rotation_.sets());
    written_ = place.written.at_least(written_set_ * rotation_.sets());
  }

  double run(int calls) override {
    const auto begin = std::chrono::steady_clock::now();
    for (int call = 0; call < calls; ++call) {
      const std::size_t set = rotation_.next();
      for (std::size_t head = 0; head < heads_; ++head) one(set, head);
    }
    return seconds_since(begin);
  }

 private:
  void one(std::size_t set, std::size_t head) {
    const float* read = read_ + set * read_set_;
    float* written = written_ + set * written_set_;
    const std::size_t pair = head / sharing_;
    const std::size_t pairs = heads_ / sharing_;
    const HeadInput input{read + head * part_, read + (heads_ + pair) * part_,
                          read + (heads_ + pairs + pair) * part_};
    if (!backward_) {
      attention_forward(blas_, head_, input, written + head * part_, scratch_);
      return;
    }
    const float* context = read + (heads_ + 2 * pairs + head) * part_;
    const float* slope = read + (2 * heads_ + 2 * pairs + head) * part_;
    const HeadGradients gradients{written + head * part_, written + (heads_ + pair) * part_,
                                  written + (heads_ + pairs + pair) * part_};
    attention_backward(blas_, head_, input, context, slope, gradients, scratch_);
  }

  const Blas& blas_;
  bool backward_;
  Rotation rotation_;
  HeadShape head_;
  std::size_t heads_ = 0;
  std::size_t sharing_ = 1;  ///< heads of queries to one of keys
  std::size_t part_ = 0;
  std::size_t read_set_ = 0;
  std::size_t written_set_ = 0;
  const float* read_ = nullptr;
  float* written_ = nullptr;
  AttentionScratch scratch_;
};

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
  return std::make_unique<AttentionTrial>(place, point);
}

}  // namespace plansearch::calibrate
