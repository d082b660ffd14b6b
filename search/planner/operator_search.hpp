// SPDX-License-Identifier: Apache-2.0
// Plans whose operators are cut one by one over the tensor group: the exact choice of the
// intra-operator program for every layer, written as placements and priced as any plan.
#pragma once

#include "evaluate/operator_split.hpp"
#include "plansearch/placements.hpp"
#include "search/strategy.hpp"

namespace plansearch {

/// What a choice for a block is in a plan: one factor, all of the tensor group. Operators of
/// experts stay as their degrees place them.
[[nodiscard]] BlockChoice choice_of(const OperatorSplit& split, const SplitChoice& choice,
                                    const Network& network);

/// For every tensor degree, micro-batch and recompute level without a pipeline: the choice that
/// takes the least sum of kernels and messages, and those under tighter bounds of parameters. The
/// claim says what the sum of the best plan is; ranks are by the priced step. InputError where a
/// pipeline is asked for.
[[nodiscard]] SearchPart operator_part(const SearchRequest& request);

}  // namespace plansearch
