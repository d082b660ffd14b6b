// SPDX-License-Identifier: Apache-2.0
// Products of an optimizer that orthogonalises its updates (Muon).
#pragma once

#include <span>

#include "communication/derive/tensor_policy.hpp"
#include "communication/slices/local_sizes.hpp"
#include "evaluate/block/phase_message.hpp"
#include "plansearch/framework.hpp"

namespace plansearch {

/// Matrices of one weight on one device.
struct MatrixUpdate {
  Seconds time;        ///< of one of them, by one device
  double count = 1.0;  ///< one, or one for each expert there
  bool expert = false;
};

/// Products of one update of a matrix whose shorter side is m and whose longer one is n.
struct UpdateProducts {
  double gram = 0.0;    ///< (m x n)(n x m)
  double square = 0.0;  ///< (m x m)(m x m)
  double apply = 0.0;   ///< (m x m)(m x n)
};
[[nodiscard]] UpdateProducts update_products(UpdateIteration iteration, int iterations,
                                             bool square);

/// The update of the matrices of one weight. `extents`: whole, by dimension.
[[nodiscard]] MatrixUpdate matrix_update(const PricingContext& context, const Block& block,
                                         const BlockIndex& index, std::size_t op, ParameterId id,
                                         const MatrixDims& matrix, const LocalSizes& sizes,
                                         std::span<const double> extents,
                                         const MatrixUpdates& updates);

/// Adds up what the rank with most to do computes; `ranks` share the matrices of `deal`.
class UpdateLoad {
 public:
  UpdateLoad(UpdateDeal deal, double ranks) : deal_(deal), ranks_(ranks) {}
  void add(const MatrixUpdate& update, double copies);
  [[nodiscard]] Seconds time() const;

 private:
  UpdateDeal deal_;
  double ranks_;
  Seconds sum_;
  Seconds longest_;
};

}  // namespace plansearch
