// SPDX-License-Identifier: Apache-2.0
// Computes: the best plans of a space by looking at all of them, batch by batch.
// Source: exhaustive enumeration, subtree rejection by legality, pruning by admissible bounds.
// Assumes: thresholds frozen per batch make the answer independent of the number of threads.
// Units: plans.
// Checked by: tests/unit/search/search_test.cpp (exhaustive = pruned; 1, 2 and 5 threads equal).
#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "base/parallel.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "search/strategies/strategy.hpp"
#include "search/walk/degree_family.hpp"

namespace plansearch {
namespace {

/// Families per thread task and per batch. Part of the answer's definition: thresholds are frozen
/// for a batch, so these must not depend on the machine.
constexpr std::size_t kChunkFamilies = 8;
constexpr std::size_t kBatchFamilies = 512;
/// Families sampled below each way to spread the GPUs over the mesh.
constexpr std::size_t kSamplesPerMesh = 16;

/// Families of the sample that share thresholds.
constexpr std::size_t kRoundFamilies = 128;

/// Degrees that the states of a device depend on.
constexpr DegreeSet kStateDegrees =
    kMeshDegrees | DegreeSet{Degree::Expert, Degree::ExpertTensor, Degree::Zero, Degree::ShardGroup,
                             Degree::Offload};

void add(SearchCounts& to, const SearchCounts& counts) {
  to.evaluated += counts.evaluated;
  to.pruned += counts.pruned;
  to.subtrees += counts.subtrees;
  to.classes += counts.classes;
  for (std::size_t i = 0; i < kObstacleCount; ++i) to.rejected[i] += counts.rejected[i];
}

class Enumeration : public Strategy {
 public:
  Enumeration(const SearchTask& task, std::shared_ptr<const LegalWalk> walk)
      : task_(task),
        result_(task.result),
        walk_(std::move(walk)),
        counter_(walk_->space()),
        mesh_level_(walk_->space().level_above(kMeshDegrees)),
        states_level_(walk_->space().level_above(kStateDegrees)),
        pricer_(task, *walk_),
        family_level_(walk_->space().level_of(Degree::MicroBatch)) {}

  void run() override {
    const std::vector<std::string>& left_out = walk_->space().space().left_out;
    result_.left_out.insert(result_.left_out.end(), left_out.begin(), left_out.end());
    const bool counted = !task_.options.only_fitting();
    if (counted) space_ = counter_.all();
    result_.counts.space = saturated_sum(result_.counts.space, space_);
    const auto reject = [&](Obstacle obstacle, std::size_t level, const PlanDegrees& plan) {
      if (!counted) return;
      result_.counts.rejected[static_cast<std::size_t>(obstacle)] += counter_.below(level, plan);
    };
    if (const auto obstacle = walk_->obstacle(0, PlanDegrees{})) {
      reject(*obstacle, 0, PlanDegrees{});
      return;
    }
    const bool has_room = task_.options.pruning == Pruning::Off || seed();
    if (!counted && !has_room) return;
    std::vector<DegreeFamily> batch;
    const auto visit = [&](const PlanDegrees& plan) {
      if (has_enough()) return;
      batch.push_back({plan, {}});
      if (batch.size() == kBatchFamilies) process(batch);
    };
    visit_families(0, PlanDegrees{}, visit, reject);
    process(batch);
  }

 private:
  /// Families below a partial plan of a level above the states; whose states alone exceed memory
  /// are rejected as one.
  template <typename Visit, typename Reject>
  void visit_families(std::size_t from, const PlanDegrees& plan, const Visit& visit,
                      const Reject& reject) const {
    const auto visit_states = [&](const PlanDegrees& states) {
      check_stop();
      if (degree_bound(task_.evaluator, states).memory > task_.limits().tight()) {
        reject(Obstacle::OutOfMemory, states_level_, states);
      } else {
        walk_->visit(states_level_, family_level_, states, visit, reject);
      }
    };
    walk_->visit(from, states_level_, plan, visit_states, reject);
  }

  /// Whether one plan is asked for, whichever it is, and there is one.
  [[nodiscard]] bool has_enough() const {
    return task_.options.top == 0 && task_.ranking.fastest();
  }

  /// Prices a thin sample first, so that thresholds are good when the walk begins. False where the
  /// states of every family exceed memory.
  bool seed() {
    const auto ignore = [](Obstacle, std::size_t, const PlanDegrees&) {};
    std::vector<DegreeFamily> sample;
    std::vector<DegreeFamily> below;
    const auto sample_mesh = [&](const PlanDegrees& mesh) {
      below.clear();
      const auto keep = [&](const PlanDegrees& plan) { below.push_back({plan, below.size()}); };
      visit_families(mesh_level_, mesh, keep, ignore);
      const std::size_t stride = std::max<std::size_t>(1, below.size() / kSamplesPerMesh);
      for (std::size_t i = 0; i < below.size(); i += stride) {
        sample.push_back({below[i].plan, sample.size()});
      }
    };
    walk_->visit(0, mesh_level_, PlanDegrees{}, sample_mesh, ignore);
    // Every round has plans of all meshes, and the thresholds of the rounds before.
    const std::size_t families = task_.options.top == 0 ? kChunkFamilies : kRoundFamilies;
    const std::size_t rounds = (sample.size() + families - 1) / families;
    std::vector<DegreeFamily> round;
    for (std::size_t first = 0; first < rounds && !has_enough(); ++first) {
      round.clear();
      for (std::size_t i = first; i < sample.size(); i += rounds) round.push_back(sample[i]);
      std::vector<RankedCandidate> contenders;
      for (FamilyResult& part : price(round)) move_contenders(part, contenders);
      rank(std::move(contenders));
      count_families(round.size());
    }
    return !sample.empty();
  }

  /// Plans that were priced before a stop get a moment to be ranked: they are the best so far.
  void rank(std::vector<RankedCandidate> contenders) const {
    constexpr std::chrono::milliseconds kMoment{300};
    const StopToken moment({.time = kMoment});
    const bool stopped = result_.completeness == Completeness::Stopped;
    const StopScope scope(stopped ? &moment : stop_token());
    task_.ranking.take(std::move(contenders));
  }

  [[nodiscard]] std::vector<FamilyResult> price(std::span<const DegreeFamily> families) {
    const std::size_t chunks = (families.size() + kChunkFamilies - 1) / kChunkFamilies;
    std::vector<FamilyResult> results(chunks);
    const auto price_chunk = [&](std::size_t i) {
      const std::size_t first = i * kChunkFamilies;
      const std::size_t count = std::min(kChunkFamilies, families.size() - first);
      results[i] = pricer_.price(families.subspan(first, count), task_.ranking.thresholds());
    };
    try {
      parallel_for(chunks, task_.options.threads, price_chunk);
    } catch (const Stopped&) {
      result_.completeness = Completeness::Stopped;  // the chunks that are done count
    }
    return results;
  }

  static void move_contenders(FamilyResult& part, std::vector<RankedCandidate>& into) {
    into.insert(into.end(), part.contenders.begin(), part.contenders.end());
  }

  void process(std::vector<DegreeFamily>& batch) {
    if (batch.empty()) return;
    std::vector<RankedCandidate> contenders;
    result_.families += static_cast<std::int64_t>(batch.size());
    for (FamilyResult& part : price(batch)) {
      add(result_.counts, part.counts);
      if (task_.options.priced) task_.options.priced(part.priced);
      move_contenders(part, contenders);
    }
    rank(std::move(contenders));
    report_progress();
    count_families(batch.size());
    batch.clear();
  }

  static void count_families(std::size_t families) {
    constexpr std::int64_t kStepsOfFamily = 4'000;
    count_work(kStepsOfFamily * static_cast<std::int64_t>(families));
    check_stop();
    check_work();
  }

  void report_progress() const {
    if (!task_.options.progress || space_ == 0) return;
    const SearchCounts& c = result_.counts;
    const auto done = c.evaluated + c.pruned + c.rejected_total();
    task_.options.progress(
        {static_cast<double>(done) / static_cast<double>(space_), task_.ranking.fastest()});
  }

  const SearchTask& task_;
  SearchResult& result_;
  std::shared_ptr<const LegalWalk> walk_;
  SpaceCounter counter_;
  std::int64_t space_ = 0;  ///< plans
  std::size_t mesh_level_;
  std::size_t states_level_;
  FamilyPricer pricer_;
  std::size_t family_level_;
};

}  // namespace

SearchPart degree_part(std::string space, std::shared_ptr<const LegalWalk> walk) {
  const auto make = [walk = std::move(walk)](const SearchTask& task) {
    return std::make_unique<Enumeration>(task, walk);
  };
  return {std::move(space), make, true};
}

}  // namespace plansearch
