// SPDX-License-Identifier: Apache-2.0
// Which ranks a message joins.
#pragma once

#include <compare>

namespace plansearch::calibrate {

/// So many ranks, so far apart; all groups at once, or the first alone.
struct MessageGroup {
  int ranks = 1;
  int stride = 1;
  bool alone = false;
  auto operator<=>(const MessageGroup&) const = default;
};

/// Of a rank: its group, and its place there.
struct GroupPlace {
  int group = 0;
  int place = 0;
  bool operator==(const GroupPlace&) const = default;
};
/// Groups lie beside each other as those of a mesh axis do.
[[nodiscard]] GroupPlace place_of(int rank, const MessageGroup& group);
/// The first rank of the group of a rank.
[[nodiscard]] int leader_of(int rank, const MessageGroup& group);
/// Whether so many ranks fall into whole groups.
[[nodiscard]] bool divides(const MessageGroup& group, int ranks);
/// Over which a group spreads, with so many ranks a node.
[[nodiscard]] int nodes_of(const MessageGroup& group, int ranks_of_node);

}  // namespace plansearch::calibrate
