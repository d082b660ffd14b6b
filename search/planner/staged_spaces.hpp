// SPDX-License-Identifier: Apache-2.0
// The searches that staged spaces stand for.
#pragma once

#include <string_view>

#include "plansearch/framework.hpp"
#include "search/planner/uneven_search.hpp"

namespace plansearch {

using StagedSearch = UnevenResult (*)(const PlanEvaluator&, const StageRequest&,
                                      const SearchOptions&);
/// Of a staged space (space.hpp: is_staged).
[[nodiscard]] StagedSearch staged_search(std::string_view space);

/// Whether a space cuts operators of the tensor group one by one, so that its degree is not judged
/// by the roles of dimensions.
[[nodiscard]] bool cuts_one_by_one(std::string_view space, const Framework& framework);

}  // namespace plansearch
