// SPDX-License-Identifier: Apache-2.0
// The plans of a search: a list of dimensions that can be walked, cut and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "plansearch/degree_table.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// A question about a plan of which only some degrees are decided; the others are as in
/// `PlanDegrees{}`. It reads the degrees named here and nothing else.
struct PlanPredicate {
  DegreeSet reads;
  std::function<bool(const PlanDegrees&)> holds;  ///< empty: always
  [[nodiscard]] bool operator()(const PlanDegrees& plan) const { return !holds || holds(plan); }
};

/// One degree of freedom. A value is the number of the degree, of an enumerator for kinds.
struct SpaceDimension {
  Degree degree = Degree::Data;
  std::vector<int> values;  ///< in the order of the walk; one value pins the degree
  PlanPredicate applies;    ///< where it does not, the degree is `otherwise`, once
  int otherwise = 1;
};

/// When a constraint of a space is asked.
enum class Asked {
  WhenKnown,   ///< once everything it reads is decided
  Throughout,  ///< whenever one of them is: degrees still open count as in `PlanDegrees{}`
};

/// Combinations that no plan has: they are not part of the space and never counted.
struct SpaceConstraint {
  PlanPredicate admits;
  Asked asked = Asked::WhenKnown;
};

/// The plans of a space are all combinations of the dimensions' values that the constraints admit.
struct SearchSpace {
  std::string name;
  std::int64_t global_batch = 1;           ///< decides the number of micro-batches
  std::vector<SpaceDimension> dimensions;  ///< outermost first
  std::vector<SpaceConstraint> constraints;
  std::vector<std::string> left_out;  ///< plans outside of it that one might expect, and why

  /// InternalError when the space has no such dimension.
  [[nodiscard]] SpaceDimension& dimension(Degree degree);
  [[nodiscard]] const SpaceDimension& dimension(Degree degree) const;
};

/// dp, pp, tp, cp multiply to the GPUs; micro-batches divide what a replica has of the batch.
[[nodiscard]] std::vector<SpaceConstraint> mesh_constraints(int gpus, std::int64_t global_batch);

/// Walks a space dimension by dimension. Level k decides dimension k; plans are at level `depth()`.
/// Immutable; safe to share between threads.
class SpaceWalk {
 public:
  explicit SpaceWalk(SearchSpace space);

  [[nodiscard]] const SearchSpace& space() const { return space_; }
  [[nodiscard]] std::size_t depth() const { return space_.dimensions.size(); }
  /// The level that decides a degree; InternalError when the space has no such dimension.
  [[nodiscard]] std::size_t level_of(Degree degree) const;
  /// The first level at which all these degrees are decided.
  [[nodiscard]] std::size_t level_above(DegreeSet degrees) const;

  /// Calls visit(plan) with every admitted value of dimension `level` put into `plan`, whose outer
  /// dimensions are decided.
  template <typename Visit>
  void for_each_value(std::size_t level, PlanDegrees plan, Visit visit) const {
    const SpaceDimension& dimension = space_.dimensions[level];
    if (!dimension.applies(plan)) {
      if (decide(level, plan, dimension.otherwise)) visit(std::as_const(plan));
      return;
    }
    for (const int value : dimension.values) {
      if (decide(level, plan, value)) visit(std::as_const(plan));
    }
  }

  /// Calls visit(plan) with every partial plan of level `to` below one of level `from`, in order.
  template <typename Visit>
  void for_each_plan(std::size_t from, std::size_t to, const PlanDegrees& plan,
                     const Visit& visit) const {
    if (from == to) {
      visit(plan);
      return;
    }
    for_each_value(from, plan,
                   [&](const PlanDegrees& next) { for_each_plan(from + 1, to, next, visit); });
  }

  /// The degrees decided above `level` that choices from there on depend on.
  [[nodiscard]] DegreeSet read_from(std::size_t level) const { return read_from_[level]; }

 private:
  /// Sets the value and what follows from it; false when a constraint forbids it.
  [[nodiscard]] bool decide(std::size_t level, PlanDegrees& plan, int value) const;

  SearchSpace space_;
  std::vector<std::vector<PlanPredicate>> asked_;  ///< constraints by level
  std::vector<DegreeSet> read_from_;               ///< by level, one more than dimensions
  std::size_t batching_level_ = 0;                 ///< where the number of micro-batches is known
};

/// Counts plans by products and sums over dimensions, without walking them. One per thread.
class SpaceCounter {
 public:
  explicit SpaceCounter(const SpaceWalk& walk);

  /// Plans below a partial plan whose outer `level` dimensions are decided.
  [[nodiscard]] std::int64_t below(std::size_t level, const PlanDegrees& plan);
  [[nodiscard]] std::int64_t all() { return below(0, PlanDegrees{}); }

 private:
  struct Hash {
    std::size_t operator()(const PlanDegrees& plan) const noexcept;
  };
  struct Level {
    std::vector<const DegreeRow*> read;  ///< degrees above it that matter from there on
    bool reads_batch = false;            ///< and whether the number of micro-batches does
    bool matters = false;                ///< whether later choices depend on its own degree
    std::unordered_map<PlanDegrees, std::int64_t, Hash> known;  ///< counts by these degrees
  };
  const SpaceWalk& walk_;
  std::vector<Level> levels_;
};

/// A space people can ask for by name.
struct NamedSpace {
  std::string_view name;
  std::string_view summary;
  /// Absent: its plans are sequences of stages, not combinations of degrees.
  SearchSpace (*build)(const Problem& problem) = nullptr;
};
[[nodiscard]] const std::vector<NamedSpace>& named_spaces();
/// Whether the plans of the space of that name are sequences of stages.
[[nodiscard]] bool is_staged(std::string_view space);

/// The space of that name for this problem; pinned degrees are dimensions of one value, limits
/// leave values out. Values that no plan of the problem can have are left out before anything is
/// counted. InputError for a name that no space of degrees has; Infeasible when pins and limits
/// leave no plan at all.
[[nodiscard]] std::variant<SearchSpace, Infeasible> make_space(std::string_view name,
                                                               const Problem& problem,
                                                               const PinnedDegrees& pinned,
                                                               const DegreeLimits& limits = {});

}  // namespace plansearch
