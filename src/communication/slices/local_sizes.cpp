// SPDX-License-Identifier: Apache-2.0
// Computes: elements of loop nests, tensors and parameters on one device.
// Source: extent over number of slices, dimension by dimension
//         (communication/slices/slice_map.hpp).
// Assumes: sizes of the forward phase hold for both gradients.
// Units: elements.
// Checked by: tests/unit/communication/local_sizes_test.cpp
#include "communication/slices/local_sizes.hpp"

#include <algorithm>
#include <numeric>

namespace plansearch {

BlockCuts cut_block(const Network& network, const Block& block, const BlockIndex& index,
                    const PlacementRules& rules, const BlockPlacement& placement) {
  BlockCuts cuts;
  cuts.slices.assign(index.cuts, 1);
  cuts.steps.reserve(block.operators.size());
  const auto write = [&](std::size_t first, std::size_t i, const SliceMap& map) {
    cuts.slices[first + i] = map.slices();
  };
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    const OperatorIndex& op = index.operators[i];
    const OperatorPlacement& placed = placement.operators[i];
    cuts.steps.push_back(placed.steps);
    for (std::size_t p = 0; p < placed.loop.size(); ++p) write(op.first_cut, p, placed.loop[p]);
    for (const TensorUse& use : op.uses) {
      const auto slices = used_slices(block, use, placed, OperatorPhase::Forward, rules);
      const bool stays = placed.stays(use.tensor);
      for (std::size_t d = 0; d < slices.size(); ++d) {
        write(use.first_cut, d, stays ? slices[d].held() : slices[d]);
      }
    }
  }
  for (std::size_t t = 0; t < block.tensors.size(); ++t) {
    if (index.producers[t] != kEdge && !index.leaves[t]) continue;
    const auto id = static_cast<TensorId>(t);
    const Layout layout = index.leaves[t] ? leaving_layout(network, block, id, rules, placement)
                                          : entering_layout(network, block, id, rules, placement);
    for (std::size_t d = 0; d < layout.dims.size(); ++d) {
      write(index.edge_cut[t], d, layout.dims[d]);
    }
  }
  return cuts;
}

BlockCuts cut_pieces(const Block& block, const BlockIndex& index, const BlockChoice& choice,
                     std::span<const double> extents, BlockCuts cuts) {
  for (const PieceRegion& region : choice.regions) {
    for (const std::size_t i : region.operators) {
      const OperatorIndex& op = index.operators[i];
      const std::vector<DimId>& loop = block.operators[i].loop;
      const auto own = std::ranges::find_first_of(loop, region.dims);
      const auto position = static_cast<std::size_t>(own - loop.begin());
      cuts.slices[op.first_cut + position] *= region.pieces;
      cuts.steps[i] *= region.pieces;
      for (const TensorUse& use : op.uses) {
        const std::vector<DimId>& dims = block.tensor(use.tensor).dims;
        for (std::size_t d = 0; d < dims.size(); ++d) {
          if (use.positions[d] != static_cast<int>(position)) continue;
          std::int32_t& slices = cuts.slices[use.first_cut + d];
          // Fewer heads of keys and values than pieces: several pieces read the same one.
          const auto left = static_cast<std::int32_t>(extents[static_cast<std::size_t>(dims[d])]) /
                            std::max(slices, 1);
          slices *= (use.grouped >> d & 1U) != 0 ? std::gcd(region.pieces, std::max(left, 1))
                                                 : region.pieces;
        }
      }
    }
  }
  return cuts;
}

void placed_extents(const Network& network, const PlanDegrees& plan, const Framework& framework,
                    std::vector<double>& extents) {
  extents.clear();
  for (const Dimension& dimension : network.dimensions) {
    extents.push_back(placed_extent(dimension, plan, framework));
  }
}

double LocalSizes::loop(std::size_t op, std::size_t position) const {
  const DimId dim = block_.operators[op].loop[position];
  return extents_[static_cast<std::size_t>(dim)] /
         cuts_.slices[index_.operators[op].first_cut + position];
}

double LocalSizes::product(const std::vector<DimId>& dims, std::uint32_t first_cut) const {
  double count = 1.0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    count *= extents_[static_cast<std::size_t>(dims[i])] / cuts_.slices[first_cut + i];
  }
  return count;
}

double LocalSizes::tensor(std::size_t op, TensorId id) const {
  return product(block_.tensor(id).dims, index_.operators[op].use(id).first_cut);
}

double LocalSizes::edge(TensorId id) const {
  return product(block_.tensor(id).dims, index_.edge_cut[static_cast<std::size_t>(id)]);
}

double LocalSizes::parameter(std::size_t op, ParameterId id) const {
  double count = 1.0;
  for (const std::int8_t position : index_.operators[op].use(id).positions) {
    count *= loop(op, static_cast<std::size_t>(position));
  }
  return count;
}

}  // namespace plansearch
