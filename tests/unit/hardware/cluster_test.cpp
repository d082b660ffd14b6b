// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>
#include <string_view>

#include "plansearch/cluster.hpp"

namespace plansearch::cluster_test {

TEST_SUITE("unit") {
  TEST_CASE("cluster: kinds of tiers have names of their own") {
    std::set<std::string_view> names;
    for (const TierKind kind : {TierKind::Switch, TierKind::Mesh, TierKind::Ring, TierKind::Torus,
                                TierKind::FatTree, TierKind::Dragonfly}) {
      CHECK(names.insert(to_text(kind)).second);
    }
  }

  TEST_CASE("cluster: evidence is summed over accelerator, tiers and machine") {
    Cluster cluster;
    cluster.provenance["price"] = {Evidence::Published, "list"};
    cluster.accelerator.provenance["memory"] = {Evidence::Datasheet, "sheet"};
    cluster.tiers.resize(2);
    cluster.tiers[0].provenance["size"] = {Evidence::Datasheet, "sheet"};
    cluster.tiers[1].provenance["curve"] = {Evidence::Measured, "fit"};
    CHECK(count_evidence(cluster) == std::array<int, 4>{1, 1, 2, 0});
  }

  TEST_CASE("cluster: a node's line rate is that of all its cards") {
    LinkTier tier;
    tier.nics = Nics{4, Bandwidth(25e9)};
    CHECK(tier.node_bandwidth() == Bandwidth(100e9));
  }
}

}  // namespace plansearch::cluster_test
