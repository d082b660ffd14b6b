// SPDX-License-Identifier: Apache-2.0
// Computes: whether an operator that reads through windows, or the parts of a sum, can be cut so.
// Source: a window moves with one dimension of the result (plansearch/network.hpp); parts that add
//         up make parts of a linear operator's result.
// Assumes: cuts that exist, over factors that the plan has.
// Units: places of one dimension.
// Checked by: tests/unit/plan/transform_test.cpp
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "plan/legality/legality_parts.hpp"
#include "plan/placements/check_placements.hpp"
#include "workload/operator_traits.hpp"
#include "workload/window.hpp"

namespace plansearch {
namespace {

using legality::broken;
using Result = std::optional<Infeasible>;

/// A dimension that an index sums up besides the one that moves its window.
bool is_tap(const Block& block, const Operator& op, DimId dim) {
  if (has(block.tensor(op.outputs.front()).dims, dim)) return false;
  const auto counts = [&](const IndexExpression& index) {
    return !index.plain() && !index.terms.empty() && moving_dimension(block, op, index) != dim &&
           std::any_of(index.terms.begin(), index.terms.end(),
                       [&](const IndexTerm& term) { return term.dim == dim; });
  };
  return std::any_of(op.reads.begin(), op.reads.end(), [&](const auto& read) {
    return std::any_of(read.begin(), read.end(), counts);
  });
}

/// Every device has all taps of a window.
Result check_taps(const Network& network, const Block& block, const Operator& op,
                  const FactorCuts& cuts) {
  const auto cut = std::find_if(cuts.begin(), cuts.end(), [&](const DimensionCut& one) {
    return !one.factors.empty() && is_tap(block, op, one.dim);
  });
  if (cut == cuts.end()) return std::nullopt;
  Infeasible bad = broken(fmt::format("{}: {} counts the taps of a window, which are not cut",
                                      op.name, network.dimension(cut->dim).name));
  std::vector<DimId> taps;
  std::copy_if(op.loop.begin(), op.loop.end(), std::back_inserter(taps),
               [&](DimId dim) { return is_tap(block, op, dim); });
  bad.legal_words = cuttable(network, op, taps);
  return bad;
}

}  // namespace

std::optional<Infeasible> check_value(const Network& network, const Operator& op) {
  if (is_linear(op)) return std::nullopt;
  const bool maybe_sum = traits(op).goes_by_element() && op.inputs.size() > 1;
  Infeasible bad = broken(fmt::format(
      "{}: its value is not split: it is not linear ({}), so that parts of what it reads "
      "make no parts of its result{}",
      op.name, traits(op).name,
      maybe_sum ? "; a sum is told by passes: residual in its graph file" : ""));
  bad.legal_words = cuttable(network, op);
  bad.legal_words.emplace(bad.legal_words.begin(), "no split (replicas)");
  return bad;
}

std::optional<Infeasible> check_windows(const Network& network, const Block& block,
                                        const Operator& op, const FactorCuts& cuts,
                                        const PlacedDegrees& plan) {
  if (auto bad = check_taps(network, block, op, cuts)) return bad;
  for (std::size_t i = 0; i < op.reads.size(); ++i) {
    const Tensor& tensor = block.tensor(op.inputs[i]);
    for (std::size_t d = 0; d < op.reads[i].size(); ++d) {
      const IndexExpression& index = op.reads[i][d];
      if (index.plain()) continue;
      const DimId moving = moving_dimension(block, op, index);
      const auto cut = std::find_if(cuts.begin(), cuts.end(),
                                    [&](const DimensionCut& one) { return one.dim == moving; });
      if (cut == cuts.end()) continue;
      const Dimension& read = network.dimension(tensor.dims[d]);
      const int pieces = product_of(cut->factors, plan);
      if (read.extent % pieces == 0) continue;
      return legality::refuse_indivisible(
          legality::Wording::Full, obstacle_of(read.role), pieces, read.extent, [&] {
            return fmt::format(
                "{}: {} {} of {}, which it reads through a window, do not divide by {}", op.name,
                read.extent, read.name, tensor.name, pieces);
          });
    }
  }
  return std::nullopt;
}

}  // namespace plansearch
