// SPDX-License-Identifier: Apache-2.0
// What a feature of the framework that users know by name is worth.
#pragma once

#include <optional>

#include "answer/search_session.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/report.hpp"

namespace plansearch {

/// The best plan of the question without the features that plan 1 of the report has; nothing where
/// it has none, and where the question itself asks for them. Throws Stopped where there is no time
/// to find it.
[[nodiscard]] std::optional<WithoutReport> without_features(const ProblemRequest& request,
                                                            const ResolvedQuestion& asked,
                                                            const SearchReport& report,
                                                            SearchSession& session);

}  // namespace plansearch
