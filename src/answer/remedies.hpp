// SPDX-License-Identifier: Apache-2.0
// What would make something fit: every remedy was tried before it is given.
#pragma once

#include <string>
#include <vector>

#include "answer/search_session.hpp"

namespace plansearch {

/// Changes of the question, each with the best plan it leads to. Empty when none of them helps.
[[nodiscard]] std::vector<std::string> find_remedies(const ProblemRequest& request,
                                                     const ResolvedQuestion& asked, int gpus,
                                                     SearchSession& session);

}  // namespace plansearch
