// SPDX-License-Identifier: Apache-2.0
// Several questions at once: every combination of lists, or plans from files.
#pragma once

#include <string>
#include <vector>

#include "answer/search_session.hpp"
#include "plansearch/load_problem.hpp"
#include "report/comparison.hpp"
#include "report/fits.hpp"

namespace plansearch {

/// Whether a search of this request is a comparison: a list of hardware, models, frameworks,
/// precisions, batches or sequences. A list of sizes alone is a ladder.
[[nodiscard]] bool asks_several(const ProblemRequest& request);

/// Whether it says how many accelerators.
[[nodiscard]] bool is_sized(const ProblemRequest& request);

/// The question about each machine of `hardware`, of which some may have a size of their own
/// ("h100:8,l40s:4"). InputError for a size that none takes.
[[nodiscard]] std::vector<ProblemRequest> machine_questions(const ProblemRequest& request);

/// One question for every combination of the lists, the first list outermost. InputError for too
/// many of them, and when nothing says how many GPUs.
[[nodiscard]] std::vector<ProblemRequest> separate_questions(const ProblemRequest& request);

/// The best plan of each question. A refusal of one question stands in its row; InputError for
/// unknown names and broken files, and when no question can be asked. With `reliability` rows have
/// the goodput of their jobs, and no advice on batches.
[[nodiscard]] ComparisonReport compare_questions(const std::vector<ProblemRequest>& questions,
                                                 SearchSession& session,
                                                 const Reliability* reliability = nullptr);

/// Each plan as it is priced ("result.json#2", "plan.yaml"); flags of `request` override them.
[[nodiscard]] ComparisonReport compare_given_plans(const ProblemRequest& request,
                                                   const std::vector<std::string>& plans);

struct FitsQuestion {
  bool anyway = false;    ///< price what does not fit
  bool no_cards = false;  ///< one machine alone
};
/// Whether the model fits on `hardware` at the size it names, else at the smallest on which it fits, and the fewest of every
/// kind of card that ships; of the machines of `hardware` where they are several.
[[nodiscard]] FitsReport does_it_fit(const ProblemRequest& request, const FitsQuestion& how,
                                     SearchSession& session);

}  // namespace plansearch
