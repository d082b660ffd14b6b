// SPDX-License-Identifier: Apache-2.0
// Computes: which values of a degree some plan of the problem can have.
// Source: the legality conditions (plan/legality/legality.hpp), asked about plans made for each
//         value.
// Assumes: a value that is refused with every companion tried here is refused with all.
// Units: degrees.
// Checked by: tests/unit/search/named_spaces_test.cpp (no legal plan is lost).
#include <algorithm>
#include <array>

#include "plan/legality/legality.hpp"
#include "plansearch/degree_table.hpp"
#include "search/space/degrees_of_freedom.hpp"

namespace plansearch {
namespace {

bool is_about_network(Obstacle obstacle) {
  switch (obstacle) {
    case Obstacle::HeadsNotDivisible:
    case Obstacle::KvHeadsNotDivisible:
    case Obstacle::FfnNotDivisible:
    case Obstacle::HiddenNotDivisible:
    case Obstacle::VocabNotDivisible:
    case Obstacle::SequenceNotDivisible:
    case Obstacle::ExpertsNotDivisible:
    case Obstacle::LayersNotDivisible:
    case Obstacle::MoreStagesThanLayers:
      return true;
    default:
      return false;
  }
}

bool is_about_framework(Obstacle obstacle) {
  return obstacle == Obstacle::FrameworkForbids || obstacle == Obstacle::NoSuchFeature;
}

/// Tries every value with the companions that could make it legal.
class UsableValues {
 public:
  UsableValues(const Problem& problem, bool (*counts)(Obstacle))
      : conditions_(legality_conditions(*problem.network, *problem.framework, problem.gpus,
                                        problem.precision)),
        counts_(counts) {}

  void narrow(SearchSpace& space) {
    for (const Degree degree :
         {Degree::Zero, Degree::Recompute, Degree::Pipeline, Degree::TensorIn, Degree::TensorOut,
          Degree::TensorDepth, Degree::ContextKind, Degree::Context, Degree::Expert,
          Degree::ExpertTensor, Degree::ShardGroup, Degree::Pieces, Degree::Schedule,
          Degree::Chunks}) {
      std::vector<int> kept;
      for (const int value : space.dimension(degree).values) {
        if (usable(space, degree, value)) kept.push_back(value);
      }
      // Where nothing is left, the search itself says why.
      if (!kept.empty()) space.dimension(degree).values = std::move(kept);
      if (degree == Degree::Zero) {
        allowed_zero_ = static_cast<ZeroStage>(space.dimension(degree).values.front());
      }
    }
  }

 private:
  using Companions = std::array<Degree, 3>;
  /// Degrees of which all values are tried beside the one in question.
  static constexpr Companions kOfOrders{Degree::Pipeline, Degree::Schedule, Degree::Chunks};
  static constexpr Companions kOfTheRest{Degree::Zero, Degree::SequenceParallel,
                                         Degree::ContextKind};

  [[nodiscard]] bool usable(const SearchSpace& space, Degree degree, int value) const {
    PlanDegrees plan;
    set_degree(plan, degree, value);
    plan.zero = degree == Degree::Zero ? plan.zero : allowed_zero_;
    if (degree == Degree::ContextKind) plan.context = 2;
    const bool order = std::find(kOfOrders.begin(), kOfOrders.end(), degree) != kOfOrders.end();
    if (order) plan.expert = space.dimension(Degree::Expert).values.back();
    plan.data = 2 * plan.expert * plan.expert_tensor * std::max(1, plan.shard_group);
    return usable_with(space, order ? kOfOrders : kOfTheRest, 0, degree, plan);
  }

  [[nodiscard]] bool usable_with(const SearchSpace& space, const Companions& companions,
                                 std::size_t next, Degree fixed, PlanDegrees plan) const {
    if (next == companions.size()) {
      plan.micro_batches = 64 * plan.pipeline;  // enough for every order
      return is_free(plan);
    }
    const Degree companion = companions[next];
    if (companion == fixed) return usable_with(space, companions, next + 1, fixed, plan);
    const std::vector<int>& values = space.dimension(companion).values;
    return std::any_of(values.begin(), values.end(), [&](int value) {
      set_degree(plan, companion, value);
      return usable_with(space, companions, next + 1, fixed, plan);
    });
  }

  [[nodiscard]] bool is_free(const PlanDegrees& plan) const {
    return std::none_of(conditions_.begin(), conditions_.end(), [&](const LegalityCondition& c) {
      const auto obstacle = c.obstacle(plan);
      return obstacle && counts_(*obstacle);
    });
  }

  std::vector<LegalityCondition> conditions_;
  bool (*counts_)(Obstacle);
  ZeroStage allowed_zero_ = ZeroStage::None;  ///< some frameworks always shard
};

}  // namespace

void keep_what_divides(const Problem& problem, SearchSpace& space) {
  UsableValues(problem, is_about_network).narrow(space);
}

void keep_what_runs(const Problem& problem, SearchSpace& space) {
  UsableValues(problem, [](Obstacle obstacle) {
    return is_about_network(obstacle) || is_about_framework(obstacle);
  }).narrow(space);
}

}  // namespace plansearch
