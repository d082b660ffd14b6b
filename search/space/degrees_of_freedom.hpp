// SPDX-License-Identifier: Apache-2.0
// The building blocks of named spaces.
#pragma once

#include <vector>

#include "plansearch/problem.hpp"
#include "plansearch/space.hpp"

namespace plansearch {

/// Every degree with all the values it could have on this problem, grids of tensor axes and shard
/// groups left at their neutral value; what the network or the framework forbid is still in it.
[[nodiscard]] SearchSpace all_degrees(const Problem& problem);

/// The schedules a framework lists that suit the network, as values of the dimension.
[[nodiscard]] std::vector<int> order_values(const Framework& framework, const Network& network);

/// For mixtures of experts the search finds the recomputed modules and the dispatcher, as far as
/// the framework knows several: all published runs that name them are of such networks.
void find_modules_and_dispatcher(const Problem& problem, SearchSpace& space);

/// With one micro-batch every order of one chunk and whole backwards is the default one: leaves the
/// others out where the default is there.
void look_at_equal_orders_once(SearchSpace& space);

/// Leaves out values that no plan of this problem can have because the network does not divide.
void keep_what_divides(const Problem& problem, SearchSpace& space);

/// Leaves out, in addition, values that the framework's rules refuse whatever else is chosen.
void keep_what_runs(const Problem& problem, SearchSpace& space);

}  // namespace plansearch
