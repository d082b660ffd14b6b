// SPDX-License-Identifier: Apache-2.0
#include "plansearch/cluster.hpp"

namespace plansearch {

std::string_view to_text(TierKind kind) {
  static constexpr std::array<std::string_view, 6> kWords{"switch", "mesh",     "ring",
                                                          "torus",  "fat-tree", "dragonfly"};
  return kWords.at(static_cast<std::size_t>(kind));
}

std::array<int, 4> count_evidence(const Cluster& cluster) {
  std::array<int, 4> counts{};
  const auto add = [&](const ProvenanceMap& map) {
    for (const auto& [field, from] : map) ++counts.at(static_cast<std::size_t>(from.evidence));
  };
  add(cluster.provenance);
  add(cluster.accelerator.provenance);
  for (const LinkTier& tier : cluster.tiers) add(tier.provenance);
  return counts;
}

}  // namespace plansearch
