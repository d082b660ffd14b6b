// SPDX-License-Identifier: Apache-2.0
#include "workload/routing_faults.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plansearch {

std::vector<std::string> routing_faults(const Routing& routing) {
  std::vector<std::string> faults;
  if (routing.groups < 1 || routing.experts % std::max<std::int64_t>(routing.groups, 1) != 0) {
    faults.push_back(
        fmt::format("{} experts do not lie in {} equal groups", routing.experts, routing.groups));
  }
  if (routing.top_groups < 1 || routing.top_groups > routing.groups ||
      routing.top_k * routing.groups > routing.experts * routing.top_groups) {
    faults.push_back(
        fmt::format("top_k {} experts of the best {} of {} groups: there are not as many",
                    routing.top_k, routing.top_groups, routing.groups));
  }
  return faults;
}

}  // namespace plansearch
