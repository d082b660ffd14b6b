// SPDX-License-Identifier: Apache-2.0
// The model that a question asks about, and networks that have their sizes and operators already.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plansearch/cluster.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/network.hpp"
#include "plansearch/problem_request.hpp"

namespace plansearch {

/// The change of a graph's file that gives it `seq_len` tokens; none where it has them, or no graph.
[[nodiscard]] std::optional<std::string> change_of_length(const ModelDescription& model,
                                                          std::optional<std::int64_t> seq_len);

/// Tokens of one sample: of an image its patches and the class token.
[[nodiscard]] std::int64_t tokens_of(const Network& network);

/// A network of a graph file has its operators already.
void refuse_built(const ModelDescription& model, const ProblemRequest& request,
                  const Cluster& cluster);

}  // namespace plansearch
