// SPDX-License-Identifier: Apache-2.0
// Plans of equal stages but for the layers of the first and the last one, as frameworks let users
// say them.
#pragma once

#include "search/strategies/strategy.hpp"

namespace plansearch {

/// All ways to deal out the layers so that the stages between the ends hold equal numbers, for all
/// degrees of the framework; the even one is among them. InputError where the framework has no such
/// options.
[[nodiscard]] SearchPart end_layers_part(const Problem& problem, const SearchRequest& request);

}  // namespace plansearch
