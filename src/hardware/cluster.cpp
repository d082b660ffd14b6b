// SPDX-License-Identifier: Apache-2.0
#include "plansearch/cluster.hpp"

namespace plansearch {

std::string_view to_text(TierKind kind) {
  switch (kind) {
    case TierKind::Switch:
      return "switch";
    case TierKind::Mesh:
      return "mesh";
    case TierKind::Ring:
      return "ring";
    case TierKind::Torus:
      return "torus";
    case TierKind::FatTree:
      return "fat-tree";
    case TierKind::Dragonfly:
      return "dragonfly";
  }
  return "unknown";
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
