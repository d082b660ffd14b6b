// SPDX-License-Identifier: Apache-2.0
#include "question/gpu_count.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <limits>

#include "base/checked.hpp"

namespace plansearch {
namespace {

/// Far beyond any machine, far below where products of degrees overflow.
constexpr std::int64_t kMostAccelerators = std::int64_t{1} << 22;

}  // namespace

std::optional<std::string> bad_gpu_count(const Cluster& cluster, std::int64_t gpus) {
  if (gpus <= 0) return "must be above zero";
  if (gpus > kMostAccelerators) return fmt::format("must be at most {}", kMostAccelerators);
  const int per_node = cluster.accelerators_per_node;
  if (gpus > per_node && gpus % per_node != 0) {
    return fmt::format("not a whole number of nodes of {}", per_node);
  }
  return std::nullopt;
}

std::string gpu_count_hint(const Cluster& cluster) {
  return fmt::format("{} has {} nodes of {}: use up to {} inside a node, or whole nodes",
                     cluster.name, cluster.nodes(), cluster.accelerators_per_node,
                     cluster.accelerators_per_node);
}

void check_devices(const ResolvedQuestion& asked, int devices, const SourceLocation& where) {
  const Cluster& cluster = *asked.problem.cluster;
  if (const auto problem = bad_gpu_count(cluster, devices)) {
    throw InputError(where, fmt::format("the plan takes {} GPUs: {}", devices, *problem),
                     gpu_count_hint(cluster));
  }
  if (asked.gpus.value_or(devices) == devices) return;
  throw InputError(where, fmt::format("the stages take {} GPUs, not {}", devices, *asked.gpus),
                   "leave gpus out, or change the stages");
}

std::string beyond_machine(const Cluster& cluster, int gpus) {
  if (gpus <= cluster.accelerators()) return {};
  return fmt::format("{} GPUs are more than the {} of {}: its links are taken to grow with them",
                     gpus, cluster.accelerators(), cluster.name);
}

namespace {

enum class CountedIn { Gpus, Nodes };

int checked_count(std::int64_t count, CountedIn unit, const Cluster& cluster) {
  const bool by_node = unit == CountedIn::Nodes;
  const std::int64_t each = by_node ? cluster.accelerators_per_node : 1;
  // A count that cannot be multiplied is refused as it is.
  const std::int64_t gpus = product_within(std::numeric_limits<int>::max(),
                                           std::initializer_list<std::int64_t>{count, each})
                                .value_or(count);
  if (const auto problem = bad_gpu_count(cluster, gpus)) {
    throw InputError({}, fmt::format("--{} {}: {}", by_node ? "nodes" : "gpus", count, *problem),
                     gpu_count_hint(cluster));
  }
  return static_cast<int>(gpus);
}

}  // namespace

std::optional<int> asked_gpus(const ProblemRequest& request, const Cluster& cluster) {
  const bool by_gpu = request.gpus || !request.gpu_list.empty();
  const bool by_node = request.nodes || !request.node_list.empty();
  if (by_gpu && by_node) {
    throw InputError({}, "--gpus and --nodes both say how many", "give one of them");
  }
  if (request.nodes) return checked_count(*request.nodes, CountedIn::Nodes, cluster);
  if (request.gpus) return checked_count(*request.gpus, CountedIn::Gpus, cluster);
  return std::nullopt;
}

std::vector<int> asked_sizes(const ProblemRequest& request, const Cluster& cluster) {
  std::vector<int> sizes;
  for (const int nodes : request.node_list) {
    sizes.push_back(checked_count(nodes, CountedIn::Nodes, cluster));
  }
  for (const int gpus : request.gpu_list) {
    sizes.push_back(checked_count(gpus, CountedIn::Gpus, cluster));
  }
  return sizes;
}

}  // namespace plansearch
