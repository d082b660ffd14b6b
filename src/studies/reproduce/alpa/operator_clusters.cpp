// SPDX-License-Identifier: Apache-2.0
// Computes: clusters of consecutive operators that receive little from each other.
// Source: Zheng et al., Alpa (OSDI'22), eq. 6; ties as in
//         alpa/pipeline_parallel/layer_construction.py (cluster_jaxpr_by_cost).
// Assumes: a tensor that several operators of one cluster read is received once.
// Units: bytes, FLOPs.
// Checked by: tests/unit/studies/operator_clusters_test.cpp (brute force).
#include "studies/reproduce/alpa/operator_clusters.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
/// Worst clusters that receive as much as this apart are called equal.
constexpr double kEqual = 1e-4;

/// By first and last operator.
using Square = std::vector<std::vector<double>>;

/// Bytes produced before `first` and read in first..last.
Square received_bytes(const OperatorChain& chain) {
  const std::size_t count = chain.flops.size();
  Square received(count, std::vector<double>(count, 0.0));
  for (const PassedTensor& tensor : chain.tensors) {
    for (std::size_t first = static_cast<std::size_t>(tensor.producer) + 1; first < count;
         ++first) {
      // The first reader inside decides from which last operator on it is received.
      std::size_t reader = count;
      for (const int r : tensor.readers) {
        const auto at = static_cast<std::size_t>(r);
        if (at >= first) reader = std::min(reader, at);
      }
      for (std::size_t last = reader; last < count; ++last) received[first][last] += tensor.bytes;
    }
  }
  return received;
}

struct Cost {
  double received = kNone;
  double squares = kNone;  ///< of FLOPs
  bool operator<(const Cost& other) const {
    return std::tie(received, squares) < std::tie(other.received, other.squares);
  }
};

class Clustering {
 public:
  Clustering(const OperatorChain& chain, int clusters, double imbalance)
      : clusters_(static_cast<std::size_t>(clusters)),
        received_(received_bytes(chain)),
        before_(chain.flops.size() + 1, 0.0) {
    std::partial_sum(chain.flops.begin(), chain.flops.end(), before_.begin() + 1);
    most_flops_ = (1.0 + imbalance) * before_.back() / static_cast<double>(clusters) *
                  (1.0 + 1e-12);  // of rounding
  }

  std::optional<OperatorClusters> run() const {
    const double worst = least_worst();
    if (worst == kNone) return std::nullopt;
    return most_even(worst * (1.0 + kEqual));
  }

 private:
  [[nodiscard]] std::size_t count() const { return received_.size(); }
  [[nodiscard]] double flops(std::size_t first, std::size_t last) const {
    return before_[last + 1] - before_[first];
  }

  /// Calls visit(clusters, first, end) with every cluster that may end before operator `end`.
  template <typename Visit>
  void for_each_cluster(Visit visit) const {
    for (std::size_t r = 1; r <= clusters_; ++r) {
      for (std::size_t end = r; end <= count(); ++end) {
        for (std::size_t first = r - 1; first < end; ++first) {
          if (flops(first, end - 1) <= most_flops_) visit(r, first, end);
        }
      }
    }
  }

  [[nodiscard]] double least_worst() const {
    Square best(clusters_ + 1, std::vector<double>(count() + 1, kNone));
    best[0][0] = 0.0;
    for_each_cluster([&](std::size_t r, std::size_t first, std::size_t end) {
      const double worst = std::max(best[r - 1][first], received_[first][end - 1]);
      best[r][end] = std::min(best[r][end], worst);
    });
    return best[clusters_][count()];
  }

  [[nodiscard]] OperatorClusters most_even(double worst) const {
    std::vector<std::vector<Cost>> best(clusters_ + 1, std::vector<Cost>(count() + 1));
    std::vector<std::vector<std::size_t>> from(clusters_ + 1,
                                               std::vector<std::size_t>(count() + 1, 0));
    best[0][0] = {0.0, 0.0};
    for_each_cluster([&](std::size_t r, std::size_t first, std::size_t end) {
      const Cost& before = best[r - 1][first];
      const double received = received_[first][end - 1];
      if (before.received == kNone || received > worst) return;
      const double work = flops(first, end - 1);
      const Cost cost{before.received + received, before.squares + work * work};
      if (!(cost < best[r][end])) return;
      best[r][end] = cost;
      from[r][end] = first;
    });
    OperatorClusters result;
    result.received = best[clusters_][count()].received;
    result.first.resize(clusters_);
    std::size_t end = count();
    for (std::size_t r = clusters_; r > 0; --r) {
      const std::size_t first = from[r][end];
      result.first[r - 1] = static_cast<int>(first);
      result.most_received = std::max(result.most_received, received_[first][end - 1]);
      end = first;
    }
    return result;
  }

  std::size_t clusters_;
  Square received_;
  std::vector<double> before_;  ///< FLOPs of the operators before one
  double most_flops_ = 0.0;
};

}  // namespace

std::optional<OperatorClusters> cluster_operators(const OperatorChain& chain, int clusters,
                                                  double imbalance) {
  PLANSEARCH_CHECK(clusters > 0 && imbalance >= 0.0);
  if (chain.flops.size() < static_cast<std::size_t>(clusters)) return std::nullopt;
  return Clustering(chain, clusters, imbalance).run();
}

}  // namespace plansearch
