// SPDX-License-Identifier: Apache-2.0
// Computes: time of the products that orthogonalise the update of a matrix, and the share of the
//           rank with most of them.
// Source: K. Jordan et al., Muon (https://kellerjordan.github.io/posts/muon): quintic iteration of
//         Newton and Schulz, A = X X^T, B = b A + c A A, X <- a X + B X with X on its shorter side;
//         KellerJordan/Muon@857d1adc muon.py: zeropower_via_newtonschulz5. On the Gram matrix:
//         deepspeedai/DeepSpeed@edaa7221 runtime/zero/muon/original_muon.py:
//         zeropower_via_gram_newtonschulz, with its restart. Deals: NVIDIA/Megatron-LM@d98e8a64
//         core/optimizer/layer_wise_optimizer.py: _emit_bucket;
//         AI-Hypercomputer/maxtext@e591f30c src/maxtext/optimizers/reshape_utils.py.
// Assumes: kernels of 16 bits (bf16, or activations where a chip has none) as any product of these
//          shapes; sums and scalings ride on them; a balanced deal reaches the mean or the longest
//          matrix.
// Units: seconds.
// Checked by: tests/unit/evaluate/matrix_update_test.cpp
#include "evaluate/states/matrix_update.hpp"

#include <algorithm>
#include <cmath>

#include "cost/kernels/compute_cost.hpp"

namespace plansearch {
namespace {

/// Whole sides of a matrix, what a device has of them, and how many there are.
struct Sides {
  double rows = 1.0;
  double columns = 1.0;
  double own_rows = 1.0;
  double own_columns = 1.0;
  double count = 1.0;
};

Sides sides_of(const Block& block, const BlockIndex& index, std::size_t op, ParameterId id,
               const MatrixDims& matrix, const LocalSizes& sizes, std::span<const double> extents) {
  const auto& positions = index.operators[op].use(id).positions;
  const std::vector<DimId>& dims = block.parameter(id).dims;
  Sides sides;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const double whole = extents[static_cast<std::size_t>(dims[i])];
    const double own = sizes.loop(op, static_cast<std::size_t>(positions[i]));
    if (matrix.is_row(i)) {
      sides.rows *= whole;
      sides.own_rows *= own;
    } else if (matrix.is_column(i)) {
      sides.columns *= whole;
      sides.own_columns *= own;
    } else {
      sides.count *= own;
    }
  }
  return sides;
}

DataType product_type(const PricingContext& context) {
  const Accelerator& chip = context.problem.cluster->accelerator;
  const auto bf16 = static_cast<std::size_t>(DataType::Bf16);
  const bool has = chip.peak[bf16].has_value() && chip.kernels.matmul[bf16].has_value();
  return has ? DataType::Bf16 : context.precision.activation;
}

/// The time for a matrix with `side` rows as the iteration sees it.
Seconds update_time(const PricingContext& context, const MatrixUpdates& updates, double side,
                    double other) {
  const Accelerator& chip = context.problem.cluster->accelerator;
  const DataType type = product_type(context);
  const UpdateProducts n = update_products(updates.iteration, updates.iterations, side == other);
  return n.gram * matmul_time(chip, type, {1.0, side, side, other}) +
         n.square * matmul_time(chip, type, {1.0, side, side, side}) +
         n.apply * matmul_time(chip, type, {1.0, side, other, side});
}

Seconds update_time(const PricingContext& context, const MatrixUpdates& updates, const Sides& s) {
  if (updates.slices == UpdateSlices::Apart) {
    return update_time(context, updates, std::min(s.own_rows, s.own_columns),
                       std::max(s.own_rows, s.own_columns));
  }
  // The side that is cut is summed over, whichever is shorter.
  if (updates.slices == UpdateSlices::Summed && s.own_columns < s.columns) {
    return update_time(context, updates, s.rows, s.own_columns);
  }
  if (updates.slices == UpdateSlices::Summed && s.own_rows < s.rows) {
    return update_time(context, updates, s.columns, s.own_rows);
  }
  return update_time(context, updates, std::min(s.rows, s.columns), std::max(s.rows, s.columns));
}

}  // namespace

UpdateProducts update_products(UpdateIteration iteration, int iterations, bool square) {
  const double steps = iterations;
  if (iteration == UpdateIteration::Direct || square) return {steps, steps, steps};
  constexpr int kRestart = 2;  // the Gram matrix is formed anew before this iteration
  UpdateProducts products{1.0, 0.0, 1.0};
  bool first = true;  // since the Gram matrix was formed: nothing to multiply the new factor with
  for (int i = 0; i < iterations; ++i) {
    if (i == kRestart) {
      products.apply += 1.0;
      products.gram += 1.0;
      first = true;
    }
    products.square += first ? 1.0 : 2.0;
    first = false;
    const bool goes_on = i + 1 < iterations && i + 1 != kRestart;
    if (goes_on) products.square += 2.0;
  }
  return products;
}

MatrixUpdate matrix_update(const PricingContext& context, const Block& block,
                           const BlockIndex& index, std::size_t op, ParameterId id,
                           const MatrixDims& matrix, const LocalSizes& sizes,
                           std::span<const double> extents, const MatrixUpdates& updates) {
  const Network& network = *context.problem.network;
  const Sides sides = sides_of(block, index, op, id, matrix, sizes, extents);
  const std::vector<DimId>& dims = block.parameter(id).dims;
  const bool expert = std::any_of(dims.begin(), dims.end(), [&](DimId dim) {
    return network.dimension(dim).role == DimRole::Expert;
  });
  return {update_time(context, updates, sides), sides.count, expert};
}

void UpdateLoad::add(const MatrixUpdate& update, double copies) {
  const double count = update.count * copies;
  if (deal_ == UpdateDeal::ByKind) {
    sum_ += update.time * std::ceil(count / ranks_);
    return;
  }
  sum_ += update.time * (count / ranks_);
  longest_ = std::max(longest_, update.time);
}

Seconds UpdateLoad::time() const {
  return std::max(sum_, longest_);
}

}  // namespace plansearch
