// SPDX-License-Identifier: Apache-2.0
// Where the groups of a plan lie: the accelerators of the first nodes, by stage and tensor group.
#pragma once

#include <span>
#include <string>

#include "plansearch/degrees.hpp"
#include "plansearch/problem.hpp"
#include "report/text_table.hpp"

namespace plansearch::page {

/// Nodes in rows, an accelerator a square: its colour is the stage, its number the tensor group.
[[nodiscard]] std::string rank_picture(const PlanDegrees& plan, const Problem& problem);

/// Every axis with more than one rank: how many, how far apart, over how many nodes.
[[nodiscard]] TextTable group_table(const PlanDegrees& plan, const Problem& problem);

}  // namespace plansearch::page
