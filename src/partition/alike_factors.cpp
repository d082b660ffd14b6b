// SPDX-License-Identifier: Apache-2.0
// Computes: which factors of a tensor group may change places.
// Source: where the groups lie (cost/collective/place.hpp): inside one switch only the number of
//         ranks counts, and so it does between domains.
// Assumes: the price of a message depends on its group by that alone.
// Units: none.
// Checked by: tests/unit/evaluate/move_prices_test.cpp (all messages over all groups)
#include "partition/alike_factors.hpp"

#include <algorithm>
#include <vector>

#include "communication/redistribution/step_rates.hpp"
#include "cost/collective/place.hpp"

namespace plansearch {
namespace {

/// Roles beside the factors and what they make up together, of equal ones the first.
AxisSet other_roles(const DeviceMesh& mesh) {
  AxisSet roles;
  std::vector<unsigned> known{mesh[Axis::Out].factors};
  for (std::size_t i = 0; i < kRoleCount; ++i) {
    const MeshRole& role = mesh[static_cast<Axis>(i)];
    const bool is_known = std::find(known.begin(), known.end(), role.factors) != known.end();
    if (role.size == 1 || is_known) continue;
    known.push_back(role.factors);
    roles.insert(static_cast<Axis>(i));
  }
  return roles;
}

bool are_alike(const Cluster& cluster, const DeviceMesh& mesh, Axis one, Axis other,
               const std::vector<AxisSet>& groups) {
  const unsigned own = mesh[one].factors;
  const unsigned theirs = mesh[other].factors;
  if (mesh[one].size != mesh[other].size) return false;
  return std::all_of(groups.begin(), groups.end(), [&](AxisSet group) {
    if (group.contains(one) || group.contains(other)) return true;
    unsigned held = 0;
    for_each_axis(group, [&](Axis axis) { held |= mesh[axis].factors; });
    if (((held & own) != 0) != ((held & theirs) != 0)) return false;
    return cost_alike(cluster, process_group(mesh, group | AxisSet{one}),
                      process_group(mesh, group | AxisSet{other}));
  });
}

}  // namespace

AlikeFactors alike_factors(const Cluster& cluster, const DeviceMesh& mesh) {
  AxisSet axes = other_roles(mesh);
  for (std::size_t f = 0; f < kMostFactors; ++f) {
    if (mesh[factor_axis(f)].size > 1) axes.insert(factor_axis(f));
  }
  const std::vector<AxisSet> groups = subsets(axes);
  AlikeFactors alike;
  for (std::size_t f = 1; f < kMostFactors && mesh[factor_axis(f)].size > 1; ++f) {
    if (are_alike(cluster, mesh, factor_axis(f - 1), factor_axis(f), groups)) {
      alike.first[f] = alike.first[f - 1];
    }
  }
  return alike;
}

}  // namespace plansearch
