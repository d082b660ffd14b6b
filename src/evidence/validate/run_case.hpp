// SPDX-License-Identifier: Apache-2.0
// From one row of measurements to a question that can be priced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "evidence/validate/architecture_table.hpp"
#include "evidence/validate/run_record.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/problem_request.hpp"

namespace plansearch {

/// A row's network and plan, as a question that is settled as anybody's.
struct RunCase {
  ModelDescription model;
  ProblemRequest question;  ///< with the degrees that the row decides
  PlanDegrees plan;         ///< as far as the row says it, until the question is settled
  /// Neither the row nor the framework says it: the plan has one sequence until it is priced.
  bool open_micro_batch = false;
  /// Degrees of which neither says anything, and the ranks that the others leave to them: all of
  /// them are the first one's until the plan is priced.
  std::vector<Degree> open_degrees{};
  int open_ranks = 1;
  /// Degrees that are 1, and data parallelism over all ranks, as nobody says otherwise; where no
  /// such plan fits they are open too.
  std::vector<Degree> assumed_degrees{};
  std::vector<std::int64_t> stage_layers{};  ///< of every chunk; empty: the framework's rule
  std::optional<MemoryRank> memory_rank{};   ///< whose figure the row gives
  std::vector<std::string> filled;  ///< values that the columns do not give, and who gave them
  /// Sequences of the row over sequences of the plan: below 1 when the last micro-batch is partial.
  double batch_share = 1.0;
};

/// The framework of the row as it was then: a column, an entry, else the row's own.
[[nodiscard]] std::string release_of(const RunRecord& run, const ArchitectureTable& table);

/// InputError without a place for a row that cannot be expressed.
[[nodiscard]] RunCase make_case(const RunRecord& run, const ArchitectureTable& table,
                                const Framework& framework);

/// Reasons why a run is hard to predict, by name; it may have several, or none.
[[nodiscard]] std::vector<std::string> regimes_of(const RunRecord& run, const RunCase& run_case,
                                                  const Cluster& cluster);

/// "4x15,1": the layers of every chunk in the order in which micro-batches pass them. InputError
/// without a place for other text.
[[nodiscard]] std::vector<std::int64_t> read_stage_layers(const std::string& text);

/// The plan with its layers so; what comes before the first one is in the first chunk, what comes
/// behind the last one in the last. Infeasible where the numbers are not those of the plan.
[[nodiscard]] std::variant<ParallelPlan, Infeasible> with_stage_layers(
    const PlanEvaluator& evaluator, const PlanDegrees& plan,
    const std::vector<std::int64_t>& layers);

}  // namespace plansearch
