// SPDX-License-Identifier: Apache-2.0
// Execution traces: the work of every rank in a step, as files.
#pragma once

#include <string>

#include "answer/export_question.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// Writes STEM.RANK.et beside `out`, which is STEM with an ending, for every rank of a legal plan,
/// and answers the text of `out`: the groups of ranks that they name. InputError without a name,
/// for traces of more than twenty million nodes, and for plans that have no nodes rank by rank.
[[nodiscard]] ExportResult write_execution_traces(const Problem& problem, const ParallelPlan& plan,
                                                  const std::string& out,
                                                  const std::string& version);

}  // namespace plansearch
