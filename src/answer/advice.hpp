// SPDX-License-Identifier: Apache-2.0
// What would do better than an answer, or nearly as well with less: each was searched before it is
// said.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "answer/search_session.hpp"

namespace plansearch {

/// Batches near one whose factors leave few replicas, and fewer GPUs that are as fast.
[[nodiscard]] std::vector<std::string> find_advice(const ProblemRequest& request,
                                                   const ResolvedQuestion& asked,
                                                   const SearchReport& report,
                                                   SearchSession& session);

/// Batches that are faster per sequence, next to one that leaves few replicas.
[[nodiscard]] std::optional<std::string> better_batches(const ProblemRequest& request,
                                                        const ResolvedQuestion& asked,
                                                        const SearchReport& report,
                                                        SearchSession& session);

/// Numbers of GPUs near one that no plan divides, with their best plans.
[[nodiscard]] std::vector<std::string> near_gpu_counts(const ProblemRequest& request,
                                                       const ResolvedQuestion& asked, int gpus,
                                                       SearchSession& session);

/// "2^5 x 5^4"
[[nodiscard]] std::string factors_text(std::int64_t number);

/// Changes of the question, each with the best plan it leads to. Empty when none of them helps.
[[nodiscard]] std::vector<std::string> find_remedies(const ProblemRequest& request,
                                                     const ResolvedQuestion& asked, int gpus,
                                                     SearchSession& session);

}  // namespace plansearch
