// SPDX-License-Identifier: Apache-2.0
// One plan that the user described, with the problem it belongs to: from flags and files, and back.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "io/document/document.hpp"
#include "io/plan/plan_document.hpp"
#include "plansearch/error.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// The question about a plan: values that the user left open come from the plan file.
struct PlanRequest {
  ProblemRequest request;
  std::optional<io::StagesDocument> stages;  ///< of a plan document that spells them out
  std::optional<io::PlacementsDocument> placements{};
  std::optional<io::TransformDocument> transform{};  ///< in place of placements
  std::optional<io::AssignDocument> assign{};        ///< in place of stages
  std::optional<io::SharedDocument> shared{};
  std::optional<io::WindowDocument> window{};
  std::string written_for{};  ///< the model that the plan names; empty: none
};

/// A file of plans: a plan document, or an answer with plans by rank. InputError for other files.
class SavedPlans {
 public:
  explicit SavedPlans(const std::string& file);
  /// The plans of an answer; 0 for a plan document.
  [[nodiscard]] std::size_t ranks() const;
  /// Completes the request by a plan: what the user left open comes from it. `rank`: from 1.
  [[nodiscard]] PlanRequest complete(const ProblemRequest& request, std::size_t rank) const;

 private:
  io::Document document_;
};

/// The request completed by a plan ("plan.yaml", "result.json#2"). Without a plan the request as it
/// is.
[[nodiscard]] PlanRequest complete_from_plan(const ProblemRequest& request,
                                             const std::string& plan);

/// Adds what named constraints decide: files of constraints/, or plan files; "coshard#2" is the
/// second of the variants that its lists of pieces leave open. Settings and degrees of the request
/// and its plan stay; transforms add up. InputError for unknown names, and for files that list
/// stages, assign or place.
[[nodiscard]] PlanRequest with_constraints(PlanRequest asked, const std::string& names);

/// A search for what a plan leaves open.
struct OpenQuestion {
  ResolvedQuestion asked;
  std::string words;  ///< which pieces of those that the plan lists; empty where it lists none
};
/// Settings and degrees that the file decides are pinned, operators that it places are placed in
/// every plan; one question for every number of pieces. InputError for a plan whose stages are
/// listed.
[[nodiscard]] std::vector<OpenQuestion> open_questions(const PlanRequest& asked);
/// The same of a question that is resolved.
[[nodiscard]] std::vector<OpenQuestion> open_questions(const PlanRequest& asked,
                                                       ResolvedQuestion question);
/// The question of a search with other settings: its files are not read again, and operators are
/// placed as before. InputError as resolve_question, and where they no longer can be.
[[nodiscard]] ResolvedQuestion asked_again(const ResolvedQuestion& asked,
                                           const ProblemRequest& request);

struct ResolvedPlan {
  ResolvedQuestion asked;
  Problem problem;
  ParallelPlan plan;
  std::optional<PlanDegrees> degrees;  ///< where it is uniform and every operator cut by role
  /// Blocks that lie on the devices of all stages, and the rules of an order that is found: what
  /// `plan` has beyond its degrees or stages.
  std::vector<std::string> shared{};
  std::optional<io::WindowDocument> window{};
  /// With --target: why the target cannot express the plan ("error: ..." and "hint: ...").
  std::optional<std::string> inexpressible;
};

/// InputError for degrees or stages that are illegal, with the legal values.
[[nodiscard]] ResolvedPlan resolve_plan(const PlanRequest& asked);
/// The same with files that were read before.
[[nodiscard]] ResolvedPlan resolve_plan(const PlanRequest& asked, const ProblemFiles& files);

/// InputError at the stage (or the order) that contradicts the network, the batch or the other
/// stages. An open degree of a stage is 1, or none; an open ZeRO stage the first of the framework.
/// `placed`: operators are placed one by one afterwards, so that no degree is judged by role here.
[[nodiscard]] ParallelPlan spelled_plan(const io::StagesDocument& document, const Problem& problem,
                                        bool placed = false);

/// The place of a stages document that an infeasibility is about.
[[nodiscard]] SourceLocation place_of(const Infeasible& infeasible,
                                      const io::StagesDocument& document);

/// Why a plan cannot be, and the place of the file that says so.
struct PlanFault {
  Infeasible why;
  SourceLocation where;
  bool of_plan = false;  ///< it contradicts itself, whatever the target
};

/// Operators that are placed one by one, and where the plan says it.
struct PlacedOperators {
  Placements placements;
  SourceLocation where;
};
/// The operators that the plan file places, or all linear ones over squares. Layers that are cut
/// differently become blocks of their own. InputError for words the network does not have.
[[nodiscard]] PlacedOperators placed_operators(const PlanRequest& asked, const PlanDegrees& degrees,
                                               Problem& problem);
/// Places them in the plan.
[[nodiscard]] std::optional<PlanFault> place_operators(const PlacedOperators& operators,
                                                       ResolvedPlan& given);
/// Places operators in every plan of a search; cuts over devices decide the tensor degree.
void place_in_all(const io::PlacementsDocument& document, ResolvedQuestion& question);
/// The framework runs no operators in such steps; the legal words are those that do.
[[nodiscard]] std::optional<Infeasible> steps_fault(const Framework& framework,
                                                    OperatorSteps steps);

/// Puts blocks on the devices of all stages, and takes the rules of the order, as the request says.
/// InputError for rules in a circle, and for what the plan has no room for.
[[nodiscard]] std::optional<PlanFault> share_devices(const PlanRequest& asked, ResolvedPlan& given);
/// The framework runs no such plans; the legal words are those that do.
[[nodiscard]] std::optional<Infeasible> no_shared_devices(const Framework& framework);
/// InputError for a selector that means no block.
void check_shared(const io::SharedDocument& shared, const Network& network);

/// The same request in stages, degrees and placements, which its transform and its assignment come
/// to on this network.
[[nodiscard]] PlanRequest without_primitives(PlanRequest asked, const Network& network);

/// Adds the plan as transform, assign and order; `stages`: the same stage by stage. InputError for
/// a stage that holds nothing and has degrees of its own.
void add_primitives(const ResolvedPlan& given, io::StagesDocument stages,
                    io::PlanDocument& document);

/// Adds what the file of a plan left open of its degrees, order and operators to the settings of
/// the answer, with where each value comes from. Nothing where no file gave any part of the plan.
void note_filled(const PlanRequest& asked, ResolvedPlan& given);

/// Where a plan is written to; empty: not.
struct PlanFiles {
  std::string plan{};        ///< as it was given
  std::string stages{};      ///< stage by stage
  std::string primitives{};  ///< transform, assign and order
};
/// Writes the plan with its question.
void write_plan_files(const ResolvedPlan& given, const PlanFiles& files);

/// A hash of the plan and of every setting that a price depends on: the same however files were
/// named.
[[nodiscard]] std::string plan_identity(const ResolvedPlan& given);

}  // namespace plansearch
