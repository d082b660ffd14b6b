// SPDX-License-Identifier: Apache-2.0
// Computes: plans whose operators are cut by sequences, the best of every group of degrees.
// Source: the choice of least sum (sequence_planner.hpp); steps by PlanEvaluator::evaluate.
// Assumes: one way for all layers of a block; embedding and head by role.
// Units: seconds, bytes.
// Checked by: tests/unit/search/sequence_planner_test.cpp
#include "search/planner/temporal_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/parallel.hpp"
#include "base/units.hpp"
#include "plan/expand.hpp"
#include "plan/pipeline_shape.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "search/planner/best_staged.hpp"
#include "search/planner/group_degrees.hpp"
#include "search/planner/sequence_front.hpp"
#include "search/strategy.hpp"

namespace plansearch {
namespace {

/// Above it only sequences that are sorted inside every tier are looked at.
constexpr int kMostBitsInFull = 5;
constexpr int kMostBits = 8;

class TemporalSearch {
 public:
  TemporalSearch(const PlanEvaluator& evaluator, const StageRequest& request,
                 const SearchOptions& options, SequenceSpace space, MemoryFit admitted)
      : problem_(evaluator.problem()),
        request_(request),
        space_(space),
        options_(options),
        deadline_(options),
        best_(evaluator, options, admitted) {
    result_.admitted = admitted;
    result_.left_out = {"layers of one kind that are cut differently",
                        fmt::format("tensor groups of more than {} devices", 1 << kMostBits)};
  }

  UnevenResult run() {
    for (const int tensor : tensor_degrees()) {
      for (const int micro_batch : micro_batches_of(problem_, request_, tensor * pipeline())) {
        look_at(tensor, micro_batch);
      }
    }
    best_.conclude(result_);
    if (!result_.ranked.empty()) result_.claim = claim();
    if (!obstacle_.empty()) result_.left_out.push_back(obstacle_);
    return std::move(result_);
  }

 private:
  struct Offered {
    PlanDegrees degrees;
    Placements placements;
    Seconds sum;  ///< of a step, by stage of a pipeline
    std::string words;
    Rings rings = Rings::Hidden;
    bool sorted = false;
    bool exact = true;
  };

  [[nodiscard]] int pipeline() const { return request_.pinned.get(Degree::Pipeline).value_or(1); }

  [[nodiscard]] std::vector<int> tensor_degrees() const {
    std::vector<int> found = values_of(request_, Degree::TensorOut, [&] {
      std::vector<int> sizes;
      for (int bits = 1; bits <= kMostBits; ++bits) sizes.push_back(1 << bits);
      return sizes;
    });
    std::erase_if(found, [&](int size) {
      const auto bits = bits_of(size);
      return !bits || *bits < 1 || *bits > kMostBits || problem_.gpus % (size * pipeline()) != 0;
    });
    return found;
  }

  void look_at(int tensor, int micro_batch) {
    if (deadline_.passed()) return stop();
    const auto group = group_degrees(problem_, request_, tensor, micro_batch);
    if (!group) return;
    PlanDegrees degrees = *group;
    if (!request_.pinned.has(Degree::Schedule)) {
      degrees.schedule = default_schedule(*problem_.framework, degrees.pipeline, degrees.chunks);
    }
    for (const ZeroStage zero : zeros_of(problem_, request_, degrees)) {
      degrees.zero = zero;
      offer_by_role(degrees);
      try {
        offer_choices(degrees);
      } catch (const PricingStopped&) {
        return stop();
      }
    }
  }

  void stop() { result_.completeness = Completeness::Stopped; }

  void offer_by_role(PlanDegrees degrees) {
    for (const Recompute level : recomputations_of(request_)) {
      degrees.recompute = level;
      result_.counts.space += 1.0;
      best_.offer(expand(degrees, *problem_.network, *problem_.framework), family(degrees, false));
    }
  }

  void offer_choices(PlanDegrees degrees) {
    if (!has_room(degrees)) return;
    const SequenceSpace space = space_of(degrees);
    const bool sorted = space == SequenceSpace::Sorted;
    std::shared_ptr<MovePrices>& moves = moves_[degrees.tensor_out];
    const SequencePlanner planner(
        {problem_, degrees, space, moves, [this] { return deadline_.passed(); }});
    moves = planner.moves();
    if (!planner.obstacle().empty()) {
      obstacle_ = planner.obstacle();
      return;
    }
    std::vector<Front> fronts;
    for (const Recompute level : recomputations_of(request_)) {
      degrees.recompute = level;
      for (const Rings rings : {Rings::Hidden, Rings::Exposed}) {
        fronts.push_back({planner, degrees, rings, sorted});
      }
    }
    // Over very many devices the tables of one front fill the memory.
    parallel_for(fronts.size(), sorted ? 1 : options_.threads, [&](std::size_t i) {
      Front& front = fronts[i];
      if (deadline_.passed()) return;
      front.choices = sequence_front(planner, front.degrees.recompute, front.rings);
    });
    for (const Front& front : fronts) {
      if (!front.choices) {
        stop();
        continue;
      }
      for (const SequencePlan& choice : *front.choices) offer(front, choice);
    }
  }

  struct Front {
    const SequencePlanner& planner;
    PlanDegrees degrees;
    Rings rings;
    bool sorted;
    std::optional<std::vector<SequencePlan>> choices{};  ///< nothing: not looked at
  };

  /// Whether states that are cut over everything leave room at all.
  [[nodiscard]] bool has_room(const PlanDegrees& degrees) const {
    const DeviceMesh mesh = make_device_mesh(degrees, problem_.framework->rank_order);
    const StaticBytes bytes =
        static_policy(tensor_policies(degrees, mesh, *problem_.framework, problem_.precision), mesh,
                      optimizer_moments(problem_.model->training.optimizer))
            .dense;
    const double parameters = static_cast<double>(parameter_count(*problem_.network)) /
                              (degrees.tensor_out * degrees.pipeline);
    return parameters * (bytes.parameter + bytes.gradient + bytes.optimizer) <=
           best_.limit().value();
  }

  void offer(const Front& front, const SequencePlan& choice) {
    const PlanDegrees& degrees = front.degrees;
    const bool known = std::any_of(offered_.begin(), offered_.end(), [&](const Offered& other) {
      return other.degrees == degrees && other.placements == choice.placements;
    });
    if (known) return;
    result_.counts.space += 1.0;
    best_.offer(placed_plan(problem_, degrees, choice.placements), family(degrees, true));
    offered_.push_back(
        {degrees, choice.placements,
         choice.sum * (static_cast<double>(degrees.micro_batches) / degrees.pipeline), choice.words,
         front.rings, front.sorted, front.planner.exact()});
  }

  /// What ranks apart: the best of a tensor degree, a micro-batch and a recompute level, by role
  /// and by sequences.
  using Family = std::tuple<int, int, int, int, bool>;
  static Family family(const PlanDegrees& degrees, bool sequences) {
    return {degrees.tensor_out, degrees.micro_batch, static_cast<int>(degrees.zero),
            static_cast<int>(degrees.recompute), sequences};
  }

  /// What the least sum gains where every layer is cut in a way of its own.
  [[nodiscard]] double gap_of(const Offered& offered) const {
    if (result_.completeness == Completeness::Stopped) return 0.0;
    const SequencePlanner planner({problem_, offered.degrees, space_of(offered.degrees),
                                   moves_.at(offered.degrees.tensor_out)});
    const Recompute level = offered.degrees.recompute;
    const auto alike = planner.best(level, offered.rings, 0.0);
    const auto least = planner.least_sum(level, offered.rings);
    return alike && least ? alike->sum / *least - 1.0 : 0.0;
  }

  [[nodiscard]] SequenceSpace space_of(const PlanDegrees& degrees) const {
    return *bits_of(degrees.tensor_out) > kMostBitsInFull ? SequenceSpace::Sorted : space_;
  }

  [[nodiscard]] std::string claim() const {
    const ParallelPlan& first = result_.ranked.front().plan;
    const Transform& transform = first.transforms.front();
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
      if (offered.sorted) text += "; sequences sorted inside every tier of the network";
      if (!offered.exact) {
        text +=
            "; the sum is an upper bound: several readers of one tensor are supplied one by one";
      }
      const double gap = gap_of(offered);
      if (gap > 1e-9) {
        text += fmt::format("; layers cut one by one would sum to {:.2g} % less", 100.0 * gap);
      }
      return text;
    }
    return {};
  }

  const Problem& problem_;
  const StageRequest& request_;
  SequenceSpace space_;
  const SearchOptions& options_;
  Deadline deadline_;
  BestStaged<Family> best_;
  std::vector<Offered> offered_;
  std::map<int, std::shared_ptr<MovePrices>> moves_;  ///< by tensor degree
  std::string obstacle_;
  UnevenResult result_;
};

UnevenResult search_sequences(const PlanEvaluator& evaluator, const StageRequest& request,
                              const SearchOptions& options, SequenceSpace space) {
  const Framework& framework = *evaluator.problem().framework;
  if (framework.operator_steps != OperatorSteps::Squares) {
    throw InputError({},
                     fmt::format("{} runs no operator in steps (operator_steps)", framework.name),
                     "--framework primepar does; --space operators cuts them without steps");
  }
  const auto tensor = request.pinned.get(Degree::TensorOut);
  if (tensor && (*tensor < 2 || !bits_of(*tensor) || *bits_of(*tensor) > kMostBits)) {
    throw InputError({}, fmt::format("--tp {}: sequences cut a tensor group bit by bit", *tensor),
                     "2, 4, 8, 16, 32, 64, 128 or 256 devices");
  }
  return fitting_or_tight([&](MemoryFit admitted) {
    return TemporalSearch(evaluator, request, options, space, admitted).run();
  });
}

}  // namespace

UnevenResult search_temporal(const PlanEvaluator& evaluator, const StageRequest& request,
                             const SearchOptions& options) {
  return search_sequences(evaluator, request, options, SequenceSpace::All);
}

UnevenResult search_primepar(const PlanEvaluator& evaluator, const StageRequest& request,
                             const SearchOptions& options) {
  return search_sequences(evaluator, request, options, SequenceSpace::Paper);
}

}  // namespace plansearch
