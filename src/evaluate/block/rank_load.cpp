// SPDX-License-Identifier: Apache-2.0
// Computes: tokens of the fullest rank of a layer's experts over the mean.
// Source: cost/collective/token_load.hpp; ranks that share experts wait for each other at every
//         exchange, so that each layer takes as long as its fullest rank.
// Assumes: the fullest rank of every layer is one and the same for memory: an upper limit; experts
//          that are padded to a capacity hold as many rows everywhere.
// Units: tokens.
// Checked by: tests/unit/evaluate/rank_load_test.cpp
#include "evaluate/block/rank_load.hpp"

#include "cost/collective/token_load.hpp"

namespace plansearch {
namespace {

/// Rows of a rank that its experts hold between them; sequences of data and depth ranks cancel.
double rows_of_rank(const Network& network, const DeviceMesh& mesh, const Dimension& routed,
                    int sequences) {
  const auto size = [&](Axis axis) { return static_cast<double>(mesh[axis].size); };
  const double all = static_cast<double>(network.routing->experts * routed.extent) * sequences;
  return all * size(Axis::ExpertTensor) / (size(Axis::Context) * size(Axis::In) * size(Axis::Out));
}

double fullest(const Network& network, const DeviceMesh& mesh, const Dimension& routed,
               int sequences) {
  return fullest_rank(*network.routing, static_cast<double>(mesh[Axis::Expert].size),
                      rows_of_rank(network, mesh, routed, sequences));
}

bool spreads(const Network& network) {
  return network.routing && !network.routing->capacity_factor;
}

}  // namespace

double fullest_rank(const Network& network, const DeviceMesh& mesh, int sequences) {
  if (!spreads(network)) return 1.0;
  for (const Dimension& dimension : network.dimensions) {
    if (dimension.role == DimRole::Routed) return fullest(network, mesh, dimension, sequences);
  }
  return 1.0;
}

void fill_fullest_rank(const Network& network, const DeviceMesh& mesh, int sequences,
                       std::vector<double>& extents) {
  if (!spreads(network)) return;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const Dimension& dimension = network.dimensions[d];
    if (dimension.role != DimRole::Routed) continue;
    extents[d] *= fullest(network, mesh, dimension, sequences);
  }
}

}  // namespace plansearch
