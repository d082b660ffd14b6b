// SPDX-License-Identifier: Apache-2.0
#include "calibrate/processes/message_group.hpp"

#include <algorithm>

namespace plansearch::calibrate {

GroupPlace place_of(int rank, const MessageGroup& group) {
  const int block = group.ranks * group.stride;
  const int within = rank % block;
  return {rank / block * group.stride + within % group.stride, within / group.stride};
}

int leader_of(int rank, const MessageGroup& group) {
  return rank - place_of(rank, group).place * group.stride;
}

bool divides(const MessageGroup& group, int ranks) {
  return group.ranks <= ranks && ranks % (group.ranks * group.stride) == 0;
}

int nodes_of(const MessageGroup& group, int ranks_of_node) {
  const int span = (group.ranks - 1) * group.stride + 1;
  const int nodes = (span + ranks_of_node - 1) / ranks_of_node;
  return std::min(nodes, group.ranks);
}

}  // namespace plansearch::calibrate
