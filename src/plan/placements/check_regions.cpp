// SPDX-License-Identifier: Apache-2.0
// Computes: whether operators of a block can run piece by piece: the same piece of another operator
//           makes the inputs of a piece, or they were there before; whether an operator that reads
//           through windows, or the parts of a sum, can be cut so.
// Source: co-shard of nnScaler (OSDI 2024, section 3.3): pieces of an operator on one device. A
//         window moves with one dimension of the result (plansearch/network.hpp); parts that add up
//         make parts of a linear operator's result.
// Assumes: the operators stand in an order in which every tensor is made before it is read; cuts
//          that exist, over factors that the plan has.
// Units: places of one dimension.
// Checked by: tests/unit/plan/regions_test.cpp, transform_test.cpp
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

class RegionChecker {
 public:
  RegionChecker(const Network& network, const Block& block, const BlockChoice& choice,
                const PieceRegion& region, const PlacedDegrees& plan)
      : network_(network), block_(block), choice_(choice), region_(region), plan_(plan) {}

  Result run() const {
    for (const std::size_t op : region_.operators) {
      if (auto bad = check_operator(op)) return bad;
      if (auto bad = check_launch(op)) return bad;
    }
    for (const std::size_t op : region_.operators) {
      if (auto bad = check_reads(op)) return bad;
    }
    return check_between();
  }

 private:
  [[nodiscard]] bool inside(std::size_t op) const { return contains(region_.operators, op); }
  [[nodiscard]] const std::string& name(DimId dim) const { return network_.dimension(dim).name; }

  /// The dimension of the region that an operator carries.
  [[nodiscard]] const DimId* own(const Operator& op) const {
    const auto dim =
        std::ranges::find_if(region_.dims, [&](DimId id) { return contains(op.loop, id); });
    return dim == region_.dims.end() ? nullptr : &*dim;
  }

  [[nodiscard]] Result check_operator(std::size_t index) const {
    const Operator& op = block_.operators[index];
    const DimId* dim = own(op);
    if (dim == nullptr) {
      return broken(fmt::format("{} has no dimension that the pieces cut", op.name));
    }
    const Dimension& dimension = network_.dimension(*dim);
    const OperatorTraits& row = traits(op);
    if (reduces_over(op, dimension.role, region_.pieces)) {
      return broken(fmt::format("{}: a {} normalises over {}, which stays whole", op.name, row.name,
                                dimension.name));
    }
    if (row.exchanges_tokens || dimension.role == DimRole::Kernel) {
      return broken(fmt::format("{}: {} is not cut into pieces", op.name, dimension.name));
    }
    if (!choice_.squares_of(index).empty() || choice_.ring(index) != nullptr) {
      return broken(fmt::format("{} runs in steps over devices already", op.name));
    }
    const std::int64_t extent = local_extent(network_, choice_.operators[index], *dim, plan_);
    if (extent % region_.pieces == 0) return std::nullopt;
    return legality::refuse_indivisible(
        legality::Wording::Full, Obstacle::HiddenNotDivisible, region_.pieces, extent, [&] {
          return fmt::format("{}: {} {} of one device do not divide into {} pieces", op.name,
                             extent, dimension.name, region_.pieces);
        });
  }

  /// Operators of one launch run in pieces together.
  [[nodiscard]] Result check_launch(std::size_t index) const {
    const std::string& key = block_.operators[index].fused_key;
    for (std::size_t other = 0; other < block_.operators.size() && !key.empty(); ++other) {
      if (block_.operators[other].fused_key != key || inside(other)) continue;
      return broken(fmt::format("{} runs as one kernel with {}: both in pieces, or none",
                                block_.operators[index].name, block_.operators[other].name));
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::size_t> maker(TensorId id) const {
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      if (contains(block_.operators[i].outputs, id)) return i;
    }
    return std::nullopt;
  }

  /// The region reads its own tensors along the pieces.
  [[nodiscard]] Result check_reads(std::size_t index) const {
    const Operator& op = block_.operators[index];
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      const Tensor& tensor = block_.tensor(op.inputs[k]);
      const auto made = maker(op.inputs[k]);
      if (!made || !inside(*made)) continue;
      const auto place =
          std::ranges::find_if(tensor.dims, [&](DimId dim) { return contains(region_.dims, dim); });
      if (place == tensor.dims.end()) {
        return broken(fmt::format("{} reads the whole of {}, of which a piece of {} makes a part",
                                  op.name, tensor.name, block_.operators[*made].name));
      }
      const auto d = static_cast<std::size_t>(place - tensor.dims.begin());
      if (k >= op.reads.size() || op.reads[k].empty()) continue;
      const IndexExpression& read = op.reads[k][d];
      if (read.plain() && contains(region_.dims, read.terms.front().dim)) continue;
      return broken(fmt::format("{} reads places of other pieces along {} of {}", op.name,
                                name(*place), tensor.name));
    }
    return std::nullopt;
  }

  /// Nothing that needs all pieces stands between two operators of the region.
  [[nodiscard]] Result check_between() const {
    std::vector<bool> of_region(block_.tensors.size());
    std::vector<const Operator*> beyond(block_.tensors.size(), nullptr);
    for (std::size_t i = 0; i < block_.operators.size(); ++i) {
      const Operator& op = block_.operators[i];
      const Operator* through = nullptr;
      bool reads_region = false;
      for (const TensorId id : op.inputs) {
        const auto t = static_cast<std::size_t>(id);
        if (beyond[t] != nullptr) through = beyond[t];
        reads_region = reads_region || of_region[t];
      }
      if (inside(i) && through != nullptr) {
        return broken(fmt::format("{} stands between operators of the region and is not in it",
                                  through->name));
      }
      for (const TensorId id : op.outputs) {
        const auto t = static_cast<std::size_t>(id);
        of_region[t] = inside(i);
        if (!inside(i)) beyond[t] = reads_region ? &op : through;
      }
    }
    return std::nullopt;
  }

  const Network& network_;
  const Block& block_;
  const BlockChoice& choice_;
  const PieceRegion& region_;
  const PlacedDegrees& plan_;
};

}  // namespace

std::optional<Infeasible> check_region(const Network& network, const Block& block,
                                       const BlockChoice& choice, const PieceRegion& region,
                                       const PlacedDegrees& plan) {
  return RegionChecker(network, block, choice, region, plan).run();
}

std::optional<Infeasible> check_pieces(const Framework& framework) {
  if (framework.runs_pieces) return std::nullopt;
  return Infeasible{
      .obstacle = Obstacle::FrameworkForbids,
      .detail = fmt::format("{} runs no operators piece by piece on one device (operator_pieces)",
                            framework.name)};
}

namespace {

using legality::broken;
using Result = std::optional<Infeasible>;

/// A dimension that an index sums up besides the one that moves its window.
bool is_tap(const Block& block, const Operator& op, DimId dim) {
  if (contains(block.tensor(op.outputs.front()).dims, dim)) return false;
  const auto counts = [&](const IndexExpression& index) {
    return !index.plain() && !index.terms.empty() && moving_dimension(block, op, index) != dim &&
           std::ranges::any_of(index.terms, [&](const IndexTerm& term) { return term.dim == dim; });
  };
  return std::ranges::any_of(op.reads,
                             [&](const auto& read) { return std::ranges::any_of(read, counts); });
}

/// Every device has all taps of a window.
Result check_taps(const Network& network, const Block& block, const Operator& op,
                  const FactorCuts& cuts) {
  const auto cut = std::ranges::find_if(cuts, [&](const DimensionCut& one) {
    return !one.factors.empty() && is_tap(block, op, one.dim);
  });
  if (cut == cuts.end()) return std::nullopt;
  Infeasible bad = broken(fmt::format("{}: {} counts the taps of a window, which are not cut",
                                      op.name, network.dimension(cut->dim).name));
  std::vector<DimId> taps;
  std::ranges::copy_if(op.loop, std::back_inserter(taps),
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
      const auto cut = std::ranges::find(cuts, moving, &DimensionCut::dim);
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
