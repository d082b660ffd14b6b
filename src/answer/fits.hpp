// SPDX-License-Identifier: Apache-2.0
// Does a model fit: on the machine asked about, and on how many of every kind of card.
#pragma once

#include "answer/search_session.hpp"
#include "report/fits.hpp"

namespace plansearch {

enum class Misfits { Refused, Priced };
enum class Cards { Left, Listed };

/// On `request.hardware` at the size it names, else at the smallest on which it fits; absent: of every kind of card
/// alone. Several machines are the kinds of cards in place of those that ship; `Left`: of one
/// machine alone. InputError as load_problem.
[[nodiscard]] FitsReport does_it_fit(const ProblemRequest& request, Misfits misfits, Cards cards,
                                     SearchSession& session);

}  // namespace plansearch
