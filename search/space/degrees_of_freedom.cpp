// SPDX-License-Identifier: Apache-2.0
// Computes: the degrees of freedom of a problem and how they depend on each other; the values that
//           some plan of the problem can have.
// Source: factorisations of the GPU count over (dp, pp, tp, cp); Megatron's expert folding; the
//         legality conditions (plan/legality/legality.hpp) of plans made for each value.
// Assumes: orders of a pipeline differ only where there is one and it has several micro-batches;
//          orders for one stage wherever there are several; a value that is refused with every
//          companion tried here is refused with all.
// Units: degrees and counts.
// Checked by: tests/unit/search/search_space_test.cpp, tests/unit/search/named_spaces_test.cpp
#include "search/space/degrees_of_freedom.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/checked.hpp"
#include "base/ranges.hpp"
#include "plan/legality/legality.hpp"
#include "plan/primitives/recompute.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/degree_table.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Context parallelism stops where a rank would hold fewer tokens than this.
constexpr std::int64_t kTokensPerContextRank = 256;

using Plan = const PlanDegrees&;

template <typename... Values>
std::vector<int> numbers(Values... values) {
  return {static_cast<int>(values)...};
}

std::vector<int> context_degrees(const Problem& problem) {
  std::vector<int> degrees =
      divisors(problem.gpus, std::max<std::int64_t>(1, problem.seq_len / kTokensPerContextRank));
  std::erase_if(degrees, [&](int degree) { return problem.seq_len % degree != 0; });
  return degrees;
}

/// Rings and exchanged heads, and what else the framework does by default. Gathered keys are longer
/// in memory than a ring and as long on the wire: they are searched only where the user names them.
std::vector<int> context_kinds(const Framework& framework) {
  std::vector<int> kinds = numbers(ContextKind::Ring, ContextKind::Ulysses);
  const auto natural = framework.natural_degrees.find("cp_kind");
  if (natural == framework.natural_degrees.end()) return kinds;
  if (!contains(kinds, natural->second)) kinds.push_back(natural->second);
  return kinds;
}

/// Where selective recompute drops nothing it is the same as none, and counted once.
std::vector<int> recompute_levels(const Problem& problem) {
  if (selective_drops(*problem.network, problem.framework->selective)) {
    return numbers(Recompute::None, Recompute::Selective, Recompute::Full);
  }
  return numbers(Recompute::None, Recompute::Full);
}

/// Divisors of the layers; where chunks of unequal size are allowed, a few powers of two as well,
/// for networks of 61 or 94 layers.
std::vector<int> chunk_values(const Problem& problem, std::int64_t layers) {
  std::vector<int> values = divisors(layers);
  if (problem.framework->layers == LayerDistribution::EvenOnly) return values;
  constexpr int kMost = 8;
  for (int chunks = 2; chunks <= kMost && chunks <= layers; chunks *= 2) {
    if (layers % chunks != 0) values.push_back(chunks);
  }
  std::ranges::sort(values);
  return values;
}

/// Outermost first: what decides the parameters of a device, then what it keeps, then the order.
std::vector<SpaceDimension> dimensions_of(const Problem& problem) {
  const auto layers = static_cast<std::int64_t>(layer_count(*problem.network));
  const std::int64_t heads = std::max<std::int64_t>(1, problem.model->attention.heads);
  return {
      {Degree::Pipeline, divisors(problem.gpus, layers), {}},
      {Degree::TensorIn, {1}, {}},
      {Degree::TensorOut, divisors(problem.gpus, heads), {}},
      {Degree::TensorDepth, {1}, {}},
      {Degree::Context, context_degrees(problem), {}},
      {Degree::Data, divisors(problem.gpus), {}},
      {Degree::Expert,
       problem.model->moe ? divisors(problem.model->moe->experts) : std::vector<int>{1},
       {}},
      {Degree::ExpertTensor, {1}, {}},
      {Degree::ContextKind,
       context_kinds(*problem.framework),
       {{Degree::Context}, [](Plan p) { return p.context > 1; }},
       static_cast<int>(ContextKind::Ring)},
      {Degree::SequenceParallel,
       numbers(SequenceParallel::Off, SequenceParallel::On),
       {{Degree::TensorOut}, [](Plan p) { return p.tensor_out > 1; }},
       static_cast<int>(SequenceParallel::Off)},
      {Degree::Temporal,
       numbers(Temporal::None),
       {{Degree::TensorOut, Degree::SequenceParallel},
        [](Plan p) { return p.tensor_out > 1 && p.sequence_parallel == SequenceParallel::On; }},
       static_cast<int>(Temporal::None)},
      {Degree::Zero,
       numbers(ZeroStage::None, ZeroStage::Optimizer, ZeroStage::Gradients, ZeroStage::Parameters),
       {{Degree::Data, Degree::Context}, [](Plan p) { return p.data * p.context > 1; }},
       static_cast<int>(ZeroStage::None)},
      {Degree::ShardGroup,
       {0},
       {{Degree::Data, Degree::Zero},
        [](Plan p) { return p.data > 1 && p.zero != ZeroStage::None; }},
       0},
      {Degree::Offload, {0}, {}},
      {Degree::Recompute, recompute_levels(problem), {}},
      {Degree::RecomputeLayers,
       {0},
       {{Degree::Recompute}, [](Plan p) { return p.recompute == Recompute::Full; }},
       0},
      {Degree::RecomputeModules,
       {0},
       {{Degree::Recompute}, [](Plan p) { return p.recompute == Recompute::Selective; }},
       0},
      {Degree::Pieces,
       {1},
       {{Degree::TensorIn, Degree::TensorOut},
        [](Plan p) { return p.tensor_in * p.tensor_out > 1; }},
       1},
      {Degree::MicroBatch, divisors(problem.global_batch), {}},
      {Degree::Dispatcher, numbers(kOwnDispatcher), {}},
      {Degree::Chunks, chunk_values(problem, layers), {}},
      // Schedules of a framework whose file names none.
      {Degree::Schedule, order_values(Framework{}, *problem.network), {}},
  };
}

/// The experts' ranks divide those of a stage.
SpaceConstraint expert_constraint() {
  return {{kMeshDegrees | DegreeSet{Degree::Expert, Degree::ExpertTensor}, [](Plan p) {
             const std::int64_t ranks = std::int64_t{1} * p.data * p.context * p.tensor();
             return ranks % (std::int64_t{1} * p.expert * p.expert_tensor) == 0;
           }}};
}

SpaceConstraint shard_group_constraint() {
  return {{{Degree::Data, Degree::ShardGroup},
           [](Plan p) { return p.shard_group == 0 || p.data % p.shard_group == 0; }}};
}

SpaceConstraint pieces_constraint() {
  return {
      {{Degree::MicroBatch, Degree::Pieces}, [](Plan p) { return p.micro_batch % p.pieces == 0; }}};
}

/// Whether two stages are too many for the order.
bool is_for_one_stage(ScheduleId id) {
  const Schedule& row = schedule_row(id);
  if (row.fault == nullptr) return false;
  PipelineShape two;
  two.schedule = id;
  two.stages = two.chunks = 2;
  two.micro_batches = 8;
  const auto fault = row.fault(two);
  return fault && fault->field == ShapeField::Stages;
}

/// Several chunks need a pipeline; without one all orders are the default one, but those that are
/// made for one stage.
std::vector<SpaceConstraint> order_constraints() {
  return {{{{Degree::Pipeline, Degree::Chunks},
            [](Plan p) { return p.chunks == 1 || p.pipeline > 1; }}},
          {{{Degree::Chunks, Degree::Schedule},
            [](Plan p) { return schedule_row(p.schedule).chunks.contains(p.chunks); }}},
          {{{Degree::Pipeline, Degree::Chunks, Degree::Schedule}, [](Plan p) {
              return p.schedule == kDefaultSchedule || p.pipeline > 1 ||
                     is_for_one_stage(p.schedule);
            }}}};
}

}  // namespace

std::vector<int> order_values(const Framework& framework, const Network& network) {
  std::vector<int> values;
  const auto& paired = framework.paired_schedules;
  const std::vector<ScheduleId> usual = schedules_of(framework);
  for (const ScheduleId id : all_schedules()) {
    const bool listed = suits(id, network) && contains(usual, id);
    const bool pairs = joins_passes(framework, network, id) && contains(paired, to_text(id));
    if (listed || pairs) values.push_back(static_cast<int>(id));
  }
  // One stage runs micro-batches one after the other, whatever orders of pipelines are listed.
  const auto plain = static_cast<int>(kDefaultSchedule);
  if (!contains(values, plain)) values.push_back(plain);
  return values;
}

void find_modules_and_dispatcher(const Problem& problem, SearchSpace& space) {
  if (!problem.network->routing) return;
  const Framework& framework = *problem.framework;
  if (tried_dispatchers(framework).size() > 1) {
    space.dimension(Degree::Dispatcher).values = numbers(kAnyDispatcher);
  }
  if ((framework.recompute_modules & modules_of(*problem.network)).none()) return;
  const bool own_drops = selective_drops(*problem.network, framework.selective);
  space.dimension(Degree::RecomputeModules).values =
      own_drops ? numbers(0, kFewestModules) : numbers(kFewestModules);
  space.dimension(Degree::Recompute).values =
      numbers(Recompute::None, Recompute::Selective, Recompute::Full);
  space.left_out = {"modules to recompute other than the cheapest that have room"};
}

SearchSpace all_degrees(const Problem& problem) {
  SearchSpace space;
  space.global_batch = problem.global_batch;
  space.dimensions = dimensions_of(problem);
  space.constraints = mesh_constraints(problem.gpus, problem.global_batch);
  space.constraints.push_back(expert_constraint());
  space.constraints.push_back(shard_group_constraint());
  space.constraints.push_back(pieces_constraint());
  for (SpaceConstraint& constraint : order_constraints()) {
    space.constraints.push_back(std::move(constraint));
  }
  if (space.dimension(Degree::Recompute).values.size() < 3) {
    space.left_out.push_back("selective recompute (fused attention leaves it nothing to drop)");
  }
  const double share = tensor_share(*problem.network);
  if (share < kLeastTensorShare) {
    space.dimension(Degree::TensorOut).values = {1};
    space.left_out.push_back(
        fmt::format("tensor parallelism (it cuts {:.0f} % of the parameters)", 100.0 * share));
  }
  return space;
}

void look_at_equal_orders_once(SearchSpace& space) {
  const std::vector<int>& orders = space.dimension(Degree::Schedule).values;
  const auto plain = static_cast<int>(kDefaultSchedule);
  if (!contains(orders, plain)) return;
  space.constraints.push_back(
      {{kBatchDegrees | DegreeSet{Degree::Chunks, Degree::Schedule}, [](Plan p) {
          return p.schedule == kDefaultSchedule || p.chunks > 1 || p.micro_batches > 1 ||
                 splits_backward(p.schedule);
        }}});
}

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
      const Companions& companions = contains(kOfOrders, degree) ? kOfOrders : kOfTheRest;
      const auto alone = std::partition(conditions_.begin(), conditions_.end(), [&](const auto& c) {
        return depends(c, companions, degree);
      });
      depending_ = static_cast<std::size_t>(alone - conditions_.begin());
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
  static constexpr int kMicroBatches = 64;  ///< of a stage: enough for every order
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
    const bool order = contains(kOfOrders, degree);
    if (order) plan.expert = space.dimension(Degree::Expert).values.back();
    plan.data = 2 * plan.expert * plan.expert_tensor * std::max(1, plan.shard_group);
    plan.micro_batches = kMicroBatches * plan.pipeline;
    return is_free(plan, std::span(conditions_).subspan(depending_)) &&
           usable_with(space, order ? kOfOrders : kOfTheRest, 0, degree, plan);
  }

  /// Whether the verdict may be another with other companions, on which micro-batches depend too.
  static bool depends(const LegalityCondition& condition, const Companions& companions,
                      Degree fixed) {
    return condition.reads.contains(Degree::MicroBatch) ||
           std::ranges::any_of(companions, [&](Degree companion) {
             return companion != fixed && condition.reads.contains(companion);
           });
  }

  [[nodiscard]] bool usable_with(const SearchSpace& space, const Companions& companions,
                                 std::size_t next, Degree fixed, PlanDegrees plan) const {
    if (next == companions.size()) {
      plan.micro_batches = kMicroBatches * plan.pipeline;
      return is_free(plan, std::span(conditions_).first(depending_));
    }
    const Degree companion = companions[next];
    if (companion == fixed) return usable_with(space, companions, next + 1, fixed, plan);
    const std::vector<int>& values = space.dimension(companion).values;
    return std::ranges::any_of(values, [&](int value) {
      set_degree(plan, companion, value);
      return usable_with(space, companions, next + 1, fixed, plan);
    });
  }

  [[nodiscard]] bool is_free(const PlanDegrees& plan,
                             std::span<const LegalityCondition> conditions) const {
    return std::ranges::none_of(conditions, [&](const LegalityCondition& c) {
      const auto obstacle = c.obstacle(plan);
      return obstacle && counts_(*obstacle);
    });
  }

  std::vector<LegalityCondition> conditions_;
  std::size_t depending_ = 0;  ///< the first of them that companions do not change
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
