// SPDX-License-Identifier: Apache-2.0
// Computes: the plan of least sum t_i + (B - 1) max t_j.
// Source: Zheng et al., Alpa (OSDI'22); alpa/pipeline_parallel/stage_profiling.py (gradients are
//         not synchronised while stages are profiled), stage_construction.py (memory).
// Assumes: stages are cut between blocks of the network.
// Units: seconds.
// Checked by: tests/unit/evidence/alpa_planner_test.cpp
//
// Computes: clusters of consecutive operators that receive little from each other.
// Source: Zheng et al., Alpa (OSDI'22), eq. 6; ties as in
//         alpa/pipeline_parallel/layer_construction.py (cluster_jaxpr_by_cost).
// Assumes: a tensor that several operators of one cluster read is received once.
// Units: bytes, FLOPs.
// Checked by: tests/unit/evidence/operator_clusters_test.cpp (brute force).
#include "evidence/reproduce/alpa/alpa_planner.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "plan/stages/expand.hpp"
#include "plansearch/error.hpp"
#include "search/strategies/uneven/stage_catalog.hpp"

namespace plansearch {
namespace {

/// Alpa's default bound of a cluster's FLOPs over the mean, less one.
constexpr double kImbalance = 0.5;

/// Forward FLOPs and the activation of every layer with what belongs to it.
OperatorChain chain_of(const Network& network, const std::vector<std::vector<BlockRun>>& pieces) {
  OperatorChain chain;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    double flops = 0.0;
    for (const BlockRun& run : pieces[i]) {
      for (const Operator& op : network.blocks[run.block].operators) {
        flops += useful_forward_flops(network, op).value() * static_cast<double>(run.count);
      }
    }
    chain.flops.push_back(flops);
    if (i + 1 == pieces.size()) break;
    const Block& last = network.blocks[pieces[i].back().block];
    double elements = 0.0;
    for (const TensorId output : last.outputs) {
      elements += element_count(network, last.tensor(output).dims);
    }
    chain.tensors.push_back({static_cast<int>(i), {static_cast<int>(i) + 1}, elements});
  }
  return chain;
}

/// Stages behind this one for which memory is left: each keeps one more micro-batch here.
int successors_of(const StagePrice& price, Bytes limit) {
  const Bytes room = limit - price.fixed;
  if (price.activations <= Bytes(0)) return StageTable::kAnySuccessors;
  constexpr double kMost = 1e6;
  return static_cast<int>(std::min(kMost, std::floor(room / price.activations))) - 1;
}

/// A catalogue as the table of Alpa's program, with the stage that every configuration stands for.
class CatalogTable {
 public:
  CatalogTable(const StageCatalog& catalog, std::vector<int> sizes, Bytes limit)
      : catalog_(catalog),
        sizes_(std::move(sizes)),
        table_(catalog.layers(), sizes_, most_configurations()) {
    for (int first = 0; first < catalog.layers(); ++first) {
      for (int last = first; last < catalog.layers(); ++last) {
        for (int mesh = 0; mesh < static_cast<int>(sizes_.size()); ++mesh) {
          fill(first, last, mesh, limit);
        }
      }
    }
  }

  [[nodiscard]] const StageTable& table() const { return table_; }
  [[nodiscard]] std::vector<StageDescription> chosen(const StagePartition& partition) const {
    std::vector<StageDescription> stages;
    for (const StageChoice& choice : partition.stages) {
      const auto configurations = stages_of(choice.first, choice.last, choice.mesh);
      const int form = configurations[static_cast<std::size_t>(choice.configuration)]->form;
      stages.push_back(catalog_.stage(choice.first, choice.last, form));
    }
    return stages;
  }

 private:
  [[nodiscard]] std::vector<const PricedStage*> stages_of(int first, int last, int mesh) const {
    std::vector<const PricedStage*> stages;
    for (int layout = 0; layout < catalog_.layouts(); ++layout) {
      if (catalog_.devices_of(layout) != sizes_[static_cast<std::size_t>(mesh)]) continue;
      for (const PricedStage& stage : catalog_.stages(first, last, layout))
        stages.push_back(&stage);
    }
    return stages;
  }

  [[nodiscard]] int most_configurations() const {
    std::size_t most = 1;
    for (int first = 0; first < catalog_.layers(); ++first) {
      for (int last = first; last < catalog_.layers(); ++last) {
        for (int mesh = 0; mesh < static_cast<int>(sizes_.size()); ++mesh) {
          most = std::max(most, stages_of(first, last, mesh).size());
        }
      }
    }
    return static_cast<int>(most);
  }

  void fill(int first, int last, int mesh, Bytes limit) {
    int configuration = 0;
    for (const PricedStage* stage : stages_of(first, last, mesh)) {
      table_.cost(first, last, mesh, configuration) = stage->price.both().value();
      table_.successors(first, last, mesh, configuration) = successors_of(stage->price, limit);
      ++configuration;
    }
  }

  const StageCatalog& catalog_;
  std::vector<int> sizes_;
  StageTable table_;
};

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

std::vector<std::vector<BlockRun>> clustered_pieces(const Network& network, int groups) {
  auto pieces = layer_runs(network);
  if (static_cast<int>(pieces.size()) <= groups) return pieces;
  const auto clusters = cluster_operators(chain_of(network, pieces), groups, kImbalance);
  if (!clusters) return pieces;
  std::vector<std::vector<BlockRun>> joined_pieces(clusters->first.size());
  std::size_t cluster = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool next =
        cluster + 1 < clusters->first.size() && static_cast<int>(i) == clusters->first[cluster + 1];
    if (next) ++cluster;
    std::vector<BlockRun>& into = joined_pieces[cluster];
    into.insert(into.end(), pieces[i].begin(), pieces[i].end());
    into = joined(into);
  }
  return joined_pieces;
}

std::optional<AlpaPlan> alpa_plan(const PlanEvaluator& evaluator, const SearchRequest& request,
                                  int groups) {
  const Problem& problem = evaluator.problem();
  const Bytes limit = evaluator.memory_up_to(MemoryFit::Fits);
  const StagePricer pricer(evaluator.views());
  const LayerRanges ranges(clustered_pieces(*problem.network, groups), *problem.network,
                           problem.framework->skips);
  const auto sizes = submesh_sizes(problem.cluster->accelerators_per_node, problem.gpus);
  std::optional<AlpaPlan> best;
  for (const auto& [order, degrees] : stage_degrees(problem, request, sizes)) {
    StageCatalog catalog(pricer, problem, order, degrees, ranges);
    catalog.price(
        StageCatalog::Which::All, limit, [](Seconds) { return false; }, 1);
    const CatalogTable table(catalog, sizes, limit);
    const auto partition = best_stages(table.table(), problem.gpus, order.micro_batches);
    if (!partition || (best && Seconds(partition->total) >= best->estimate)) continue;
    auto plan = catalog.plan(table.chosen(*partition));
    if (!std::holds_alternative<ParallelPlan>(plan)) continue;
    if (!std::holds_alternative<Estimate>(evaluator.evaluate(std::get<ParallelPlan>(plan)))) {
      continue;  // shared parameters, which no stage counts, can exceed memory
    }
    best = AlpaPlan{std::get<ParallelPlan>(std::move(plan)), Seconds(partition->total)};
  }
  return best;
}

std::optional<OperatorClusters> cluster_operators(const OperatorChain& chain, int clusters,
                                                  double imbalance) {
  PLANSEARCH_CHECK(clusters > 0 && imbalance >= 0.0);
  if (chain.flops.size() < static_cast<std::size_t>(clusters)) return std::nullopt;
  return Clustering(chain, clusters, imbalance).run();
}

}  // namespace plansearch
