// SPDX-License-Identifier: Apache-2.0
// Pricing, limits and late bounds for strategies that make plans one by one.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <variant>

#include "search/strategies/strategy.hpp"

namespace plansearch {

class Offers {
 public:
  /// The task is referenced.
  explicit Offers(const SearchTask& task) : task_(task) {}

  /// The peak above which no plan is ranked in this pass.
  [[nodiscard]] Bytes limit() const { return task_.limits().fits(); }
  /// The step of the fastest plan that was offered here, if any.
  [[nodiscard]] std::optional<Seconds> best() const { return best_; }

  /// Whether plans of this bound are left out: they cannot be ranked; or they cannot be the best,
  /// and as many are known as are asked for or they are much slower than it.
  [[nodiscard]] bool is_late(Seconds bound) const;

  /// Whether a plan of this bound can be among those that are ranked.
  [[nodiscard]] bool may_rank(const PlanFamily& family, Seconds bound) const;

  /// Whether neither the ranking nor the front can change through a plan of this bound. The first one
  /// stays of plans of a family that are equally fast but for rounding.
  [[nodiscard]] bool excludes(const PlanFamily& family, const PlanBound& bound) const;

  /// Whether a plan may be ranked by its time, and has room for that. From any thread.
  struct Verdict {
    bool in_time = false;
    bool has_room = false;
    Seconds time{};  ///< of its step, where there is one
  };
  [[nodiscard]] Verdict judge(const std::variant<ParallelPlan, Infeasible>& made,
                              const PlanFamily& family) const;

  /// Adds plans to the space.
  void count(double plans);

  /// Prices the plan, where there is one, and offers it to the ranking.
  void offer(const std::variant<ParallelPlan, Infeasible>& made, const PlanFamily& family);

  /// Plans that are priced at once: few, since each may make those behind it late.
  static constexpr std::size_t kBatch = 16;
  struct Made {
    std::variant<ParallelPlan, Infeasible> plan;
    PlanFamily family;
  };
  /// Makes and prices so many plans on all threads, and offers them in order.
  void offer_batch(std::size_t count, const std::function<Made(std::size_t)>& make);

 private:
  [[nodiscard]] bool has_room(const PlanDegrees& plan, const Estimate& estimate) const {
    return task_.limits().fits(plan, estimate.memory.total());
  }
  void take(const ParallelPlan& plan, Evaluation evaluation, const PlanFamily& family);

  const SearchTask& task_;
  std::optional<Seconds> best_;
  std::set<PlanFamily> families_;
};

}  // namespace plansearch
