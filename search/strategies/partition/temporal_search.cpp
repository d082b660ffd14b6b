// SPDX-License-Identifier: Apache-2.0
// Computes: plans whose operators are cut one by one, the best of every group of degrees.
// Source: the choice of least sum (partition_planner.hpp); steps by PlanEvaluator::evaluate.
// Assumes: one choice for all layers of a block; embedding and head by role.
// Units: seconds, bytes.
// Checked by: tests/unit/search/partition_planner_test.cpp, operator_search_test.cpp
#include "search/strategies/strategy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/checked.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "search/strategies/offers.hpp"
#include "search/strategies/partition/group_degrees.hpp"
#include "search/strategies/partition/partition_planner.hpp"

namespace plansearch {
namespace {

/// Bits of tensor groups; above `in_full` only sequences sorted inside every tier are searched.
struct MostBits {
  int in_full;
  int at_all;
};
constexpr MostBits kAlone{5, 8};
constexpr MostBits kBesideStages{3, 5};  ///< groups of every size cross with pipelines

/// Whether tensor groups of so many devices are cut bit by bit.
bool has_sequences(int tensor) {
  const auto bits = bits_of(tensor);
  return bits && *bits >= 1 && *bits <= kAlone.at_all;
}

class TemporalSearch : public Strategy {
 public:
  TemporalSearch(const SearchTask& task, SearchRequest request, PartitionSpace space)
      : problem_(task.evaluator.problem()),
        request_(std::move(request)),
        space_(space),
        most_bits_(most_bits()),
        task_(task),
        offers_(task) {}

  void run() override {
    std::vector<std::string>& left_out = task_.result.left_out;
    if (!over_bits()) {
      left_out.insert(left_out.end(), {"pipelines", "batch and tokens cut over the tensor group"});
    }
    left_out.emplace_back("layers of one kind that are cut differently");
    if (over_bits()) {
      const char* where = most_bits_.at_all < kAlone.at_all ? " beside stages (--tp)" : "";
      left_out.push_back(
          fmt::format("tensor groups of more than {} devices{}", 1 << most_bits_.at_all, where));
      left_out.push_back(
          fmt::format("sequences over more than {} devices that are not sorted inside every tier{}",
                      1 << most_bits_.in_full, where));
    }
    std::vector<PlanDegrees> groups;
    for (const int tensor : tensor_degrees()) {
      std::map<int, std::vector<int>> pipelines_of;  // by micro-batch: those share prices of moves
      for (const int pipeline : pipelines()) {
        if (problem_.gpus % (tensor * pipeline) != 0) continue;
        for (const int micro_batch : micro_batches_of(problem_, request_, tensor * pipeline)) {
          pipelines_of[micro_batch].push_back(pipeline);
        }
      }
      for (const auto& [micro_batch, found] : pipelines_of) {
        for (const int pipeline : found) add_groups(tensor, pipeline, micro_batch, groups);
      }
    }
    if (over_bits()) offer_by_role(groups);
    offer_choices(groups);
    task_.result.families += static_cast<std::int64_t>(groups.size());
    if (!obstacle_.empty()) left_out.push_back(obstacle_);
  }

 private:
  struct Offered {
    PlanDegrees degrees;
    Placements placements;
    Seconds sum;  ///< of a step, by stage of a pipeline
    std::string words;
    bool exact = true;
  };

  /// One level of recomputation, with rings hidden or not, and the best choice of cuts for it.
  struct Asked {
    PlanDegrees degrees;
    Rings rings;
    PlanBound bound;
    bool exact = true;
    bool least_has_room = false;
    Seconds least{};  ///< the step of the choice of least sum
    std::optional<PartitionPlan> choice{};
  };

  /// Those that were asked for, or none.
  [[nodiscard]] std::vector<int> pipelines() const {
    return values_of(request_, Degree::Pipeline, [&] {
      return request_.limits.has(Degree::Pipeline) ? divisors(problem_.gpus) : std::vector{1};
    });
  }

  /// Whether operators are cut bit by bit.
  [[nodiscard]] bool over_bits() const { return space_ != PartitionSpace::OneDimension; }

  /// Groups that are asked for are searched as far as those without stages.
  [[nodiscard]] MostBits most_bits() const {
    const bool asked =
        request_.pinned.has(Degree::TensorOut) || request_.limits.has(Degree::TensorOut);
    return asked || pipelines().size() == 1 ? kAlone : kBesideStages;
  }

  /// One dimension is cut inside a node.
  [[nodiscard]] std::vector<int> tensor_degrees() const {
    std::vector<int> found = values_of(request_, Degree::TensorOut, [&] {
      std::vector<int> sizes = divisors(problem_.gpus);
      std::erase_if(sizes, [&](int size) {
        return !over_bits() && size > problem_.cluster->accelerators_per_node;
      });
      return sizes;
    });
    std::erase_if(found, [&](int size) {
      return over_bits() ? !has_sequences(size) || size > 1 << most_bits_.at_all : size < 2;
    });
    return found;
  }

  void add_groups(int tensor, int pipeline, int micro_batch,
                  std::vector<PlanDegrees>& groups) const {
    SearchRequest request = request_;
    request.pinned.pin(Degree::Pipeline, pipeline);
    auto degrees = group_degrees(problem_, request, tensor, micro_batch);
    if (!degrees) return;
    if (!request_.pinned.has(Degree::Schedule)) {
      degrees->schedule = default_schedule(*problem_.framework, *problem_.network,
                                           degrees->pipeline, degrees->chunks);
    }
    if (!request_.admits(Degree::Schedule, static_cast<int>(degrees->schedule))) return;
    for (const ZeroStage zero : zeros_of(problem_, request_, *degrees)) {
      degrees->zero = zero;
      groups.push_back(*degrees);
    }
  }

  /// Ranks the best plan of each tuple of degrees, by role or by sequences.
  [[nodiscard]] static PlanFamily family_of(const PlanDegrees& degrees) { return {degrees, {1}}; }

  [[nodiscard]] bool stopped() const { return task_.result.completeness == Completeness::Stopped; }

  void offer_by_role(const std::vector<PlanDegrees>& groups) {
    const std::vector<Recompute> levels = recomputations_of(request_);
    const std::size_t count = groups.size() * levels.size();
    offers_.count(static_cast<double>(count));
    offers_.offer_batch(count, [&](std::size_t i) {
      PlanDegrees degrees = groups[i / levels.size()];
      degrees.recompute = levels[i % levels.size()];
      return Offers::Made{expand(degrees, *problem_.network, *problem_.framework),
                          family_of(degrees)};
    });
  }

  /// Degrees whose choices are searched, with the result.
  struct Group {
    PlanDegrees degrees;
    std::string obstacle{};
    std::vector<Asked> asked{};
  };

  /// Degrees of one tensor group and micro-batch, which share the prices of moves.
  struct Alike {
    std::vector<Group> groups;
    std::shared_ptr<KnownRoutes> routes{};  ///< while they are searched

    [[nodiscard]] const PlanDegrees& degrees() const { return groups.front().degrees; }
  };
  [[nodiscard]] bool share_routes(const PlanDegrees& one, const PlanDegrees& other) const {
    return plansearch::share_routes(problem_, one, other,
                                    factors_of(space_of(one), one.tensor_out));
  }

  /// Groups of a batch are searched side by side, by what the batches before left of the ranking, and
  /// offered one after the other: the answer is that of one thread.
  void offer_choices(const std::vector<PlanDegrees>& groups) {
    std::vector<Alike> all;
    for (const PlanDegrees& degrees : groups) {
      const bool alike = !all.empty() && all.back().degrees().micro_batch == degrees.micro_batch &&
                         share_routes(degrees, all.back().degrees());
      if (!alike) all.emplace_back();
      all.back().groups.push_back({degrees});
    }
    const int threads = std::max(task_.options.threads, 1);
    for (std::size_t next = 0; next < all.size();) {
      // Over very many devices the tables of one sum fill the memory.
      constexpr std::size_t kBatch = 4;
      const bool sorted = space_of(all[next].degrees()) == PartitionSpace::Sorted;
      const std::size_t most = sorted ? 1 : kBatch;
      const std::size_t count = std::min(most, all.size() - next);
      const std::span<Alike> batch = std::span(all).subspan(next, count);
      find_routes(batch, next == 0 ? nullptr : &all[next - 1]);
      const StopToken* token = stop_token();
      try {
        parallel_for(count, threads, [&](std::size_t i) { look_at(batch[i]); });
      } catch (const Stopped&) {
        task_.result.completeness = Completeness::Stopped;
        token = nullptr;
      }
      const StopScope scope(token);  // plans that were searched are offered whatever the time
      for (const Alike& alike : batch) {
        for (const Group& group : alike.groups) offer_group(group);
      }
      if (next > 0) all[next - 1].routes.reset();
      for (Alike& alike : batch.first(count - 1)) alike.routes.reset();
      if (stopped()) return;
      next += count;
    }
  }

  /// Those that share routes follow each other, and no others use them.
  void find_routes(std::span<Alike> batch, const Alike* before) const {
    std::shared_ptr<KnownRoutes> known = before == nullptr ? nullptr : before->routes;
    for (Alike& alike : batch) {
      const bool same = before != nullptr && share_routes(alike.degrees(), before->degrees());
      alike.routes = same ? known : routes_of(alike.degrees(), known.get());
      known = alike.routes;
      before = &alike;
    }
  }

  [[nodiscard]] std::shared_ptr<KnownRoutes> routes_of(const PlanDegrees& degrees,
                                                       const KnownRoutes* other) const {
    return make_known_routes(problem_, degrees, factors_of(space_of(degrees), degrees.tensor_out),
                             other);
  }

  /// Least seconds of one micro-batch by block, of all degrees that are alike, once known.
  using LeastKernels = ByRecompute<std::optional<std::vector<Seconds>>>;

  void look_at(Alike& alike) const {
    const auto moves = std::make_shared<ReshardingPrices>(alike.routes);
    LeastKernels known;
    for (Group& group : alike.groups) look_at(group, moves, known);
  }

  /// Told before any option has a price.
  [[nodiscard]] bool in_time(PlanDegrees degrees, const ParallelPlan& stages,
                             const LeastKernels& known) const {
    const std::vector<Recompute> levels = recomputations_of(request_);
    return std::any_of(levels.begin(), levels.end(), [&](Recompute level) {
      degrees.recompute = level;
      const auto& kernels = known[static_cast<std::size_t>(level)];
      return offers_.may_rank(family_of(degrees),
                              kernels ? least_step(*kernels, stages)
                                      : degree_bound(task_.evaluator, degrees).step_time);
    });
  }

  void look_at(Group& group, const std::shared_ptr<ReshardingPrices>& moves,
               LeastKernels& known) const {
    check_stop();
    PlanDegrees degrees = group.degrees;
    if (least_states(problem_, degrees) > offers_.limit()) return;
    const auto uniform = expand(degrees, *problem_.network, *problem_.framework);
    const auto* stages = std::get_if<ParallelPlan>(&uniform);
    if (stages != nullptr && !in_time(degrees, *stages, known)) return;
    PartitionPlanner planner({problem_, degrees, space_of(degrees), moves});
    group.obstacle = planner.obstacle();
    if (!group.obstacle.empty() || stages == nullptr) return;
    std::vector<FullestStage> asked;
    const std::vector<StageLoad> loads = stage_loads(problem_, *stages);
    for (const Recompute level : recomputations_of(request_)) {
      degrees.recompute = level;
      auto& kernels = known[static_cast<std::size_t>(level)].emplace(planner.bound(level).kernels);
      const FullestStage stage = fullest(planner, degrees, least_step(kernels, *stages), loads);
      if (!may_rank(degrees, stage.bound)) continue;
      asked.push_back(stage);
      group.asked.push_back({degrees, Rings::Hidden, stage.bound});
      if (over_bits()) group.asked.push_back({degrees, Rings::Exposed, stage.bound});
    }
    if (!keep(planner, *stages, asked)) group.asked.clear();
    for (Asked& asked : group.asked) {
      asked.choice = choice_for(planner, asked);
      asked.exact = planner.exact();
    }
  }

  /// The stage of a plan that is fullest at a level, and the bounds of all choices.
  struct FullestStage {
    PlanDegrees degrees;
    StageLoad load;
    PlanBound bound;
  };
  [[nodiscard]] static FullestStage fullest(const PartitionPlanner& planner,
                                            const PlanDegrees& degrees, Seconds least,
                                            const std::vector<StageLoad>& loads) {
    FullestStage found{degrees, {}, {least, Bytes(0)}};
    for (const StageLoad& load : loads) {
      const Bytes memory = load.memory(planner.bound(degrees.recompute, load.in_flight).bytes);
      if (memory <= found.bound.memory) continue;
      found.bound.memory = memory;
      found.load = load;
    }
    return found;
  }

  /// Leaves options out that need more room than there is, or more time than the plan by role or the
  /// last one of the ranking, before tensors are priced. False where nothing is left.
  [[nodiscard]] bool keep(PartitionPlanner& planner, const ParallelPlan& stages,
                          const std::vector<FullestStage>& asked) const {
    std::vector<PartitionPlanner::Held> levels;
    std::vector<std::optional<Seconds>> by_role;
    for (const FullestStage& stage : asked) {
      levels.push_back({stage.degrees.recompute, stage.load.in_flight});
      const auto role = offers_.judge(expand(stage.degrees, *problem_.network, *problem_.framework),
                                      family_of(stage.degrees));
      by_role.push_back(role.has_room && over_bits() ? std::optional(role.time) : std::nullopt);
    }
    const auto may_be_best = [&](std::size_t level, const SequenceBound& bound) {
      if (asked[level].load.memory(bound.bytes) > offers_.limit()) return false;
      const Seconds least = least_step(bound.kernels, stages);
      return offers_.may_rank(family_of(asked[level].degrees), least) &&
             (!by_role[level] || least < *by_role[level]);
    };
    return !asked.empty() && planner.keep(levels, may_be_best);
  }

  void offer_group(const Group& group) {
    if (!group.obstacle.empty()) obstacle_ = group.obstacle;
    std::vector<const Asked*> ranked;
    for (const Asked& asked : group.asked) {
      if (!may_rank(asked.degrees, asked.bound)) continue;
      const bool in_time =
          asked.least_has_room || offers_.may_rank(family_of(asked.degrees), asked.least);
      if (asked.choice && in_time) ranked.push_back(&asked);
    }
    for (const Asked* asked : ranked) offer(*asked, *asked->choice);
  }

  /// Whether any choice of these degrees has room, and may be ranked.
  [[nodiscard]] bool may_rank(const PlanDegrees& degrees, const PlanBound& bound) const {
    return bound.memory <= offers_.limit() && offers_.may_rank(family_of(degrees), bound.step_time);
  }

  /// The least sum; where it has no room, and is fast enough, the least that has.
  [[nodiscard]] std::optional<PartitionPlan> choice_for(const PartitionPlanner& planner,
                                                        Asked& asked) const {
    const Recompute level = asked.degrees.recompute;
    const auto judge = [&](const PartitionPlan& choice) {
      return offers_.judge(plan_of(asked, choice), family_of(asked.degrees));
    };
    auto least = planner.best(level, asked.rings, 0.0);
    if (!least) return std::nullopt;
    const auto verdict = judge(*least);
    asked.least = verdict.time;
    asked.least_has_room = verdict.has_room;
    if (verdict.has_room) return least;
    if (!verdict.in_time) return std::nullopt;
    return fastest_with_room(planner, level, asked.rings, *least,
                             [&](const PartitionPlan& choice) { return judge(choice).has_room; });
  }

  [[nodiscard]] std::variant<ParallelPlan, Infeasible> plan_of(const Asked& asked,
                                                               const PartitionPlan& choice) const {
    return placed_plan(problem_, asked.degrees, choice.placements);
  }

  void offer(const Asked& asked, const PartitionPlan& choice) {
    const PlanDegrees& degrees = asked.degrees;
    const bool known = std::any_of(offered_.begin(), offered_.end(), [&](const Offered& other) {
      return other.degrees == degrees && other.placements == choice.placements;
    });
    if (known) return;
    offers_.count(1.0);
    offers_.offer(plan_of(asked, choice), family_of(degrees));
    offered_.push_back(
        {degrees, choice.placements,
         choice.sum * (static_cast<double>(degrees.micro_batches) / degrees.pipeline), choice.words,
         asked.exact});
  }

  [[nodiscard]] PartitionSpace space_of(const PlanDegrees& degrees) const {
    if (!over_bits() || *bits_of(degrees.tensor_out) <= most_bits_.in_full) return space_;
    return PartitionSpace::Sorted;
  }

  [[nodiscard]] std::string claim(const PlanCandidate& first) const override {
    const Transform& transform = first.written->transforms.front();
    if (!transform.placements) {
      return "plan 1 cuts by role; no sum of sequences that was offered beats it once priced";
    }
    for (const Offered& offered : offered_) {
      if (!(offered.degrees == transform.degrees)) continue;
      if (!(with_merged_factors(offered.placements) == *transform.placements)) continue;
      std::string text = fmt::format(
          "plan 1 is of the choices with the least sum of kernels and messages, {} a step with "
          "nothing hidden but tiles under their own products; its step is priced as any plan's "
          "({})",
          to_text(offered.sum), offered.words);
      if (space_of(offered.degrees) == PartitionSpace::Sorted)
        text += "; sequences sorted inside every tier of the network";
      if (!offered.exact) {
        text +=
            "; the sum is an upper bound: several readers of one tensor are supplied one by one";
      }
      return text;
    }
    return {};
  }

  const Problem& problem_;
  SearchRequest request_;
  PartitionSpace space_;
  MostBits most_bits_;
  const SearchTask& task_;
  Offers offers_;
  std::vector<Offered> offered_;
  std::string obstacle_;
};

}  // namespace

bool runs_squares(const Framework& framework, const SearchRequest& request) {
  const auto tensor = request.pinned.get(Degree::TensorOut);
  return runs_steps(framework.operator_steps, OperatorSteps::Squares) &&
         has_sequences(tensor.value_or(2));
}

SearchPart sequence_part(std::string space, const SearchRequest& request,
                         PartitionSpace sequences) {
  const auto tensor = request.pinned.get(Degree::TensorOut);
  if (sequences != PartitionSpace::OneDimension && tensor && !has_sequences(*tensor)) {
    throw InputError({}, fmt::format("--tp {}: sequences cut a tensor group bit by bit", *tensor),
                     "2, 4, 8, 16, 32, 64, 128 or 256 devices");
  }
  return {std::move(space), [request, sequences](const SearchTask& task) {
            return std::make_unique<TemporalSearch>(task, request, sequences);
          }};
}

}  // namespace plansearch
