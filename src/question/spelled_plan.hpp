// SPDX-License-Identifier: Apache-2.0
// From the stages a plan file spells out to a plan of the problem.
#pragma once

#include "io/plan_document.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// InputError at the stage (or the order) that contradicts the network, the batch or the other
/// stages. What a stage leaves open is 1, or none; its ZeRO stage the first the framework can do.
/// `placed`: operators are placed one by one afterwards, so that no degree is judged by role here.
[[nodiscard]] ParallelPlan spelled_plan(const io::StagesDocument& document, const Problem& problem,
                                        bool placed = false);

/// The place of a stages document that an infeasibility is about.
[[nodiscard]] SourceLocation place_of(const Infeasible& infeasible,
                                      const io::StagesDocument& document);

}  // namespace plansearch
