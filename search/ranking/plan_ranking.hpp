// SPDX-License-Identifier: Apache-2.0
// One ranking for the plans of every strategy: thresholds, the best so far, the Pareto front.
#pragma once

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/search.hpp"

namespace plansearch {

/// Predicted peaks up to which a plan is ranked, and up to which the fastest is offered beside them;
/// without a plan those of one that has all weights on a device: none has more room.
class MemoryLimits {
 public:
  /// `ranked`: Tight where plans that may fit are ranked too; `offered`: Fits where none is offered
  /// beside them. The evaluator is referenced.
  MemoryLimits(const PlanEvaluator& evaluator, MemoryFit ranked,
               MemoryFit offered = MemoryFit::Tight)
      : evaluator_(&evaluator), fits_(limit_of(ranked)), tight_(limit_of(offered)) {}

  [[nodiscard]] Bytes fits() const { return fits_.most; }
  [[nodiscard]] Bytes tight() const { return tight_.most; }
  [[nodiscard]] Bytes fits(const PlanDegrees& plan) const { return of(plan, fits_.fit); }
  [[nodiscard]] Bytes tight(const PlanDegrees& plan) const { return of(plan, tight_.fit); }
  /// Whether the plan is ranked with this peak: its own limit is asked for where those of others differ.
  [[nodiscard]] bool fits(const PlanDegrees& plan, Bytes peak) const {
    return peak <= fits_.least || (peak <= fits_.most && peak <= fits(plan));
  }

 private:
  struct Limit {
    MemoryFit fit;
    Bytes least;  ///< of a plan without certain memory
    Bytes most;
  };
  [[nodiscard]] Limit limit_of(MemoryFit fit) const {
    return {fit, evaluator_->memory_up_to(fit), of({}, fit)};
  }
  [[nodiscard]] Bytes of(const PlanDegrees& plan, MemoryFit fit) const {
    return evaluator_->memory_up_to(fit, evaluator_->certain_memory(plan));
  }

  const PlanEvaluator* evaluator_;
  Limit fits_;
  Limit tight_;
};

/// A plan that runs all layers again, and what those like it that run fewer take at least.
struct RecomputingPlan {
  PlanCandidate candidate;
  Seconds fewer;
};

/// Thresholds that a plan must beat to enter the answer. Frozen while a batch runs, so that the
/// same plans are pruned whatever the number of threads.
struct Thresholds {
  std::optional<Seconds> time;       ///< up to which the best K families have their variants
  std::vector<PlanCandidate> front;  ///< the Pareto front so far, fastest first
  std::optional<Seconds> best;       ///< the best simulated step time, of tight plans too
  bool keeps_front = true;           ///< whether the user asks for it
  std::vector<RecomputingPlan> recomputing;  ///< those that may rank with fewer layers, so far

  /// True when neither the ranking nor the front can change through a plan with this bound.
  [[nodiscard]] bool exclude(const PlanBound& bound) const;
  /// True when plans that run fewer layers again than one with this bound, and take `fewer` or
  /// more, cannot rank, or another is better to start from in every respect.
  [[nodiscard]] bool exclude_recomputing(const PlanBound& bound, Seconds fewer) const;
  /// The same of a plan that is tight: it is of interest only when it is faster than all that fit.
  [[nodiscard]] bool exclude_tight(Seconds bound) const { return best && bound > *best; }
};

/// A plan of degrees that may still enter the answer.
struct RankedCandidate {
  PlanCandidate candidate;  ///< priced by closed form
  Seconds bound;
  MemoryFit fit = MemoryFit::Fits;  ///< or Tight
  /// Where it runs all layers again: least time of those that run fewer, if they may rank.
  std::optional<Seconds> fewer{};
};

/// Plans of which the answer lists the fastest, and of plans of degrees the variants that tie.
struct PlanFamily {
  PlanDegrees degrees;        ///< those they share
  std::vector<int> stages{};  ///< what else they share, in numbers of a strategy; never empty for
                              ///< plans that degrees do not describe
  auto operator<=>(const PlanFamily&) const = default;
};

/// Takes in plans batch by batch; what it keeps does not depend on how they were found.
class PlanRanking {
 public:
  /// Keeps the best `top` families, and every plan of degrees that is at most `slack` times as slow
  /// as the last of their leaders. The evaluator is referenced.
  PlanRanking(const PlanEvaluator& evaluator, MemoryLimits limits, std::size_t top, double slack,
              bool keeps_front = true)
      : evaluator_(evaluator), limits_(limits), top_(std::max<std::size_t>(top, 1)), slack_(slack) {
    thresholds_.keeps_front = keeps_front;
  }

  [[nodiscard]] const MemoryLimits& limits() const { return limits_; }
  [[nodiscard]] const Thresholds& thresholds() const { return thresholds_; }

  /// The fastest step so far.
  [[nodiscard]] std::optional<Seconds> fastest() const;
  /// The step of the last family that is ranked; nothing while there are fewer than asked for.
  [[nodiscard]] std::optional<Seconds> last_leader() const;
  /// The step of the fastest plan of a family so far.
  [[nodiscard]] std::optional<Seconds> leader_of(const PlanFamily& family) const;

  /// Simulates the contenders of a batch, most promising first, until no other can enter the best,
  /// and tightens the thresholds.
  void take(std::vector<RankedCandidate> contenders);

  /// A simulated plan of a family; of plans that degrees do not describe the fastest is kept.
  void take(PlanCandidate simulated, const PlanFamily& family);

  /// Plans that come from here on are those of this part of the search.
  void begin_part(std::size_t part) { part_ = part; }
  /// The part that the fastest plan comes from; 0 where there is none.
  [[nodiscard]] std::size_t part_of_first() const { return best_.empty() ? 0 : best_[0].part; }

  /// Fills `ranked`, `front`, `recomputing`, `tight` and adds the number of simulations.
  void conclude(SearchResult& result);

 private:
  struct Ranked {
    PlanCandidate candidate;
    PlanFamily family;
    std::size_t part = 0;
  };

  void take_fitting(std::vector<RankedCandidate> contenders);
  void take_tight(std::vector<RankedCandidate> contenders);
  void take_tight(PlanCandidate simulated);
  /// Nothing where the plan has a closed form but is too long to simulate.
  [[nodiscard]] std::optional<PlanCandidate> simulated(const PlanDegrees& plan);
  /// Those that are not too long to simulate, as they are simulated; after a stop no more of them.
  [[nodiscard]] std::vector<PlanCandidate> simulated(std::vector<PlanCandidate> plans);
  void note_recomputing(const RankedCandidate& contender);
  /// Notes the time of a plan that fits or is tight.
  void note_time(const PlanCandidate& candidate);
  [[nodiscard]] bool is_known(const PlanDegrees& plan) const;
  [[nodiscard]] bool is_known(const PlanCandidate& candidate) const;
  void insert(PlanCandidate candidate, const PlanFamily& family);
  /// The fastest plan of its family?
  void note_leader(const PlanFamily& family, Seconds time);

  const PlanEvaluator& evaluator_;
  MemoryLimits limits_;
  std::size_t top_;
  double slack_;
  EvaluationWorkspacePtr workspace_ = PlanEvaluator::make_workspace();
  Thresholds thresholds_;
  std::vector<Ranked> best_;
  std::map<PlanFamily, Seconds> leaders_;
  std::vector<Seconds> leader_times_;   ///< theirs, in order
  std::optional<PlanCandidate> tight_;  ///< the fastest of those
  std::size_t part_ = 0;
  std::int64_t simulations_ = 0;
};

}  // namespace plansearch
