// SPDX-License-Identifier: Apache-2.0
// Computes: the best plans of a space and its Pareto front.
// Source: exhaustive enumeration, subtree rejection by legality, pruning by admissible bounds.
// Assumes: legality of a (pipeline, tensor, context) triple is necessary for every plan below it.
// Units: seconds and bytes.
// Checked by: tests/unit/search/search_test.cpp (exhaustive = pruned; 1, 2 and 5 threads equal).
#include "plansearch/search.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/parallel.hpp"
#include "search/chunk.hpp"

namespace plansearch {
namespace {

/// Prefixes per thread task and per batch. Part of the answer's definition: thresholds are frozen
/// for a batch, so these must not depend on the machine.
constexpr std::size_t kChunkPrefixes = 64;
constexpr std::size_t kBatchPrefixes = 4096;

class Driver {
 public:
  Driver(const PlanEvaluator& evaluator, const SearchSpace& space, const SearchOptions& options)
      : evaluator_(evaluator), walk_(space), options_(options) {
    result_.counts.space = walk_.size();
    started_ = std::chrono::steady_clock::now();
  }

  SearchResult run() {
    seed();
    std::vector<SpacePrefix> batch;
    for (const PlanDegrees& triple : walk_.triples()) {
      if (reject_subtree(triple)) continue;
      walk_.append_prefixes(triple, batch);
      if (batch.size() >= kBatchPrefixes) {
        if (stopped()) break;
        process(batch);
        batch.clear();
      }
    }
    if (!batch.empty() && !stopped()) process(batch);
    finish();
    return std::move(result_);
  }

 private:
  /// Looks at a thin sample first, so that thresholds are good when the walk begins.
  void seed() {
    if (options_.pruning == Pruning::Off) return;
    std::vector<SpacePrefix> sample;
    std::vector<SpacePrefix> below;
    for (const PlanDegrees& triple : walk_.triples()) {
      if (structural_obstacle(triple)) continue;
      below.clear();
      walk_.append_prefixes(triple, below);
      const std::size_t stride = std::max<std::size_t>(1, below.size() / 16);
      for (std::size_t i = 0; i < below.size(); i += stride) sample.push_back(below[i]);
    }
    absorb(map_chunks(sample), Accounting::Off);
  }

  [[nodiscard]] std::optional<Obstacle> structural_obstacle(const PlanDegrees& triple) const {
    const auto obstacle = evaluator_.obstacle(triple);
    if (obstacle && is_structural(*obstacle)) return obstacle;
    return std::nullopt;
  }

  /// Obstacles that no choice below a triple can remove.
  static bool is_structural(Obstacle obstacle) {
    switch (obstacle) {
      case Obstacle::HeadsNotDivisible:
      case Obstacle::KvHeadsNotDivisible:
      case Obstacle::FfnNotDivisible:
      case Obstacle::HiddenNotDivisible:
      case Obstacle::SequenceNotDivisible:
      case Obstacle::MoreStagesThanLayers:
      case Obstacle::LayersNotDivisible:
        return true;
      default:
        return false;
    }
  }

  bool reject_subtree(const PlanDegrees& triple) {
    const auto obstacle = structural_obstacle(triple);
    if (!obstacle) return false;
    result_.counts.rejected[static_cast<std::size_t>(*obstacle)] += walk_.leaves_below(triple);
    return true;
  }

  [[nodiscard]] std::vector<ChunkResult> map_chunks(std::span<const SpacePrefix> prefixes) const {
    const std::size_t chunks = (prefixes.size() + kChunkPrefixes - 1) / kChunkPrefixes;
    std::vector<ChunkResult> results(chunks);
    parallel_for(chunks, options_.threads, [&](std::size_t i) {
      const std::size_t first = i * kChunkPrefixes;
      const std::size_t count = std::min(kChunkPrefixes, prefixes.size() - first);
      results[i] = process_prefixes(evaluator_, walk_, prefixes.subspan(first, count), thresholds_,
                                    options_.pruning);
    });
    return results;
  }

  enum class Accounting { On, Off };

  void process(std::span<const SpacePrefix> prefixes) {
    absorb(map_chunks(prefixes), Accounting::On);
    if (options_.progress) {
      const auto& c = result_.counts;
      const auto done = c.evaluated + c.pruned + c.rejected_total();
      options_.progress(static_cast<double>(done) / static_cast<double>(c.space));
    }
  }

  /// Merges results in index order and tightens the thresholds.
  void absorb(std::vector<ChunkResult> results, Accounting accounting) {
    std::vector<Contender> contenders;
    for (ChunkResult& chunk : results) {
      if (accounting == Accounting::On) {
        result_.counts.evaluated += chunk.counts.evaluated;
        result_.counts.pruned += chunk.counts.pruned;
        for (std::size_t i = 0; i < kObstacleCount; ++i) {
          result_.counts.rejected[i] += chunk.counts.rejected[i];
        }
        merge_misses(result_.misses, chunk.misses);
      }
      contenders.insert(contenders.end(), chunk.contenders.begin(), chunk.contenders.end());
    }
    update_front(contenders);
    simulate(std::move(contenders));
  }

  void update_front(const std::vector<Contender>& contenders) {
    std::vector<PlanCandidate> pool = std::move(thresholds_.front);
    for (const Contender& contender : contenders) pool.push_back(contender.candidate);
    thresholds_.front = pareto_front(std::move(pool));
  }

  /// Simulates contenders, most promising first, until no other can enter the best K.
  void simulate(std::vector<Contender> contenders) {
    std::sort(contenders.begin(), contenders.end(), [](const Contender& a, const Contender& b) {
      return ranks_before(a.candidate, b.candidate);
    });
    for (const Contender& contender : contenders) {
      if (thresholds_.time && contender.bound > *thresholds_.time) continue;
      if (is_known(contender.candidate.plan)) continue;
      insert(simulated(contender.candidate.plan));
      ++result_.counts.simulated;
    }
  }

  [[nodiscard]] PlanCandidate simulated(const PlanDegrees& plan) {
    const auto profile = evaluator_.profile(plan);
    return {plan, evaluator_.simulate(*profile, plan, *workspace_)};
  }

  [[nodiscard]] bool is_known(const PlanDegrees& plan) const {
    return std::any_of(best_.begin(), best_.end(),
                       [&](const PlanCandidate& known) { return known.plan == plan; });
  }

  void insert(PlanCandidate candidate) {
    const auto place = std::upper_bound(best_.begin(), best_.end(), candidate, ranks_before);
    best_.insert(place, std::move(candidate));
    if (best_.size() > options_.top) best_.pop_back();
    if (best_.size() == options_.top) thresholds_.time = best_.back().estimate.step.total();
  }

  [[nodiscard]] bool stopped() {
    const bool timed_out =
        options_.time_limit && std::chrono::steady_clock::now() - started_ > *options_.time_limit;
    const bool interrupted = options_.interrupted != nullptr && options_.interrupted->load();
    if (timed_out || interrupted) result_.completeness = Completeness::Stopped;
    return timed_out || interrupted;
  }

  void finish() {
    auto& c = result_.counts;
    c.unvisited = c.space - c.evaluated - c.pruned - c.rejected_total();
    for (PlanCandidate& member : thresholds_.front) member = simulated(member.plan);
    result_.front = pareto_front(std::move(thresholds_.front));
    result_.ranked = std::move(best_);
    if (!result_.ranked.empty()) result_.misses.clear();
  }

  const PlanEvaluator& evaluator_;
  SpaceWalk walk_;
  const SearchOptions& options_;
  EvaluationWorkspacePtr workspace_ = PlanEvaluator::make_workspace();
  std::chrono::steady_clock::time_point started_;
  Thresholds thresholds_;
  std::vector<PlanCandidate> best_;
  SearchResult result_;
};

}  // namespace

std::int64_t SearchCounts::rejected_total() const {
  return std::accumulate(rejected.begin(), rejected.end(), std::int64_t{0});
}

SearchResult search(const PlanEvaluator& evaluator, const SearchSpace& space,
                    const SearchOptions& options) {
  return Driver(evaluator, space, options).run();
}

}  // namespace plansearch
