// SPDX-License-Identifier: Apache-2.0
// The answer to a search: on one number of GPUs, on a ladder of them, or over the variants of a
// plan that leaves the number of pieces open.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "answer/search_session.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch {

struct SearchAnswer {
  ResolvedQuestion asked;  ///< the variant whose plans are listed
  SearchReport single{};   ///< without a ladder
  std::optional<LadderReport> ladder{};
  bool cut_short = false;  ///< the search had to stop before its end

  /// The plans that are shown in full.
  [[nodiscard]] SearchReport& report() {
    return ladder ? ladder->rungs[ladder->chosen].report : single;
  }
  [[nodiscard]] const LadderReport* ladder_or_null() const { return ladder ? &*ladder : nullptr; }
};

/// Searches the variants (open_questions) and decorates the answer of the best one with remedies,
/// advice, the best plan without special features, published plans, and the command that runs plan
/// 1. InputError for degrees that no plan has. `version` is that of this program.
[[nodiscard]] SearchAnswer answer_search(const std::vector<OpenQuestion>& variants,
                                         SearchSession& session, const std::string& version);

/// Powers of two of whole nodes and the full machine; powers of two of accelerators where the
/// machine is one node.
[[nodiscard]] std::vector<int> ladder_sizes(const Cluster& cluster);
/// The same, of the number of GPUs that the pinned degrees of the question take together; of single
/// accelerators where a trained network is tuned, and no more of them than its batch has use for.
[[nodiscard]] std::vector<int> ladder_sizes(const ResolvedQuestion& asked);

/// The smallest size on which a plan fits, and that plan.
struct LeastSize {
  int gpus = 0;
  BestPlan best;
};
/// Among the sizes that the machine can give and some plan divides, above `above`. Sizes are
/// doubled, then halved: where a larger one that was tried does not fit, a smaller one is taken not
/// to. Where they are few, all are tried. `enough`: a size that will do; 0: none is known.
[[nodiscard]] std::optional<LeastSize> least_gpus(const ResolvedQuestion& asked, int above,
                                                  SearchSession& session, int enough = 0);
/// The line that says it; empty where no size does.
[[nodiscard]] std::vector<std::string> least_line(const ResolvedQuestion& asked,
                                                  SearchSession& session, int above = 0,
                                                  int enough = 0);

struct ShippedMachine {
  std::string name;
  Cluster cluster;
};
/// A machine of every kind of card that ships, by the name of the card: the one that this name leads to, else the first.
[[nodiscard]] std::map<std::string, ShippedMachine> machine_of_every_card();

/// Climbs the ladder, or the sizes asked for. The chosen rung is the largest that keeps most of the
/// throughput per GPU of the smallest that runs: one who pays per GPU-hour stops there. Infeasible
/// when the pinned degrees leave no plan of any size.
[[nodiscard]] std::variant<LadderReport, Infeasible> climb_ladder(const ResolvedQuestion& asked,
                                                                  SearchSession& session);

/// The recipes of the model on the machine at the size and sequence length of the answer, priced as
/// `predict` prices them: what the question leaves open comes from the recipe, but for batch,
/// sequence and precision, which are those of the answer.
[[nodiscard]] std::vector<PublishedReport> published_plans(const std::vector<Recipe>& recipes,
                                                           const ResolvedQuestion& asked,
                                                           const SearchReport& report);

/// The best plan of the question without the features that plan 1 of the report has; nothing where
/// it has none, and where the question itself asks for them. Throws Stopped where there is no time
/// to find it.
[[nodiscard]] std::optional<WithoutReport> without_features(const ResolvedQuestion& asked,
                                                            const SearchReport& report,
                                                            SearchSession& session);

/// The report of a search. InputError where the question has no plan at all, with numbers of GPUs
/// near this one that have, and their best plans.
[[nodiscard]] SearchReport report_or_refuse(const ResolvedQuestion& asked, int gpus,
                                            const std::string& label, SideQuestions beside,
                                            SearchSession& session);
/// InputError that says why there is no plan, and near which sizes there is one.
[[noreturn]] void refuse_question(const Infeasible& infeasible,
                                  const std::vector<std::string>& near = {});

/// Whether advice is sought on other numbers of GPUs, which a ladder shows by itself.
enum class OtherSizes { No, Yes };
/// Batches near one whose factors leave few replicas, and fewer GPUs that are as fast.
[[nodiscard]] std::vector<std::string> find_advice(const ResolvedQuestion& asked,
                                                   const SearchReport& report, OtherSizes sizes,
                                                   SearchSession& session);

/// The same for one of several sizes, with a tight plan that is much faster.
[[nodiscard]] std::vector<std::string> row_advice(const ResolvedQuestion& asked,
                                                  const SearchReport& report,
                                                  SearchSession& session);

/// Lines for one who runs `own`: that the other plan is much faster, and memory that lies idle
/// while whole layers are recomputed.
[[nodiscard]] std::vector<std::string> missed_by(const ResolvedQuestion& asked,
                                                 const QuestionReport& question,
                                                 const PlanReport& own, const PlanSummary& other,
                                                 Seconds step);
/// The same beside the best plan of the question; `report` is that of the given one.
[[nodiscard]] std::vector<std::string> missed_by(const ResolvedPlan& given,
                                                 const SearchReport& report,
                                                 SearchSession& session);

/// "2^5 x 5^4"
[[nodiscard]] std::string factors_text(std::int64_t number);

/// Changes of the question, each with the best plan it leads to. Empty when none of them helps;
/// `now`: of the plans there are, where those that are tight need none that are tight too.
[[nodiscard]] std::vector<std::string> find_remedies(const ResolvedQuestion& asked, int gpus,
                                                     OtherSizes sizes, SearchSession& session,
                                                     MemoryFit now = MemoryFit::No);

}  // namespace plansearch
