// SPDX-License-Identifier: Apache-2.0
// The model that a question asks about, and networks that have their sizes and operators already.
#pragma once

#include "plansearch/problem_request.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

/// The model of the request. A graph has as many tokens as the request says; InputError where other
/// sizes of it decide that.
[[nodiscard]] ShippedModel asked_model(const ProblemRequest& request, const ShippedData& data);

/// Tokens of one sample: of an image its patches and the class token.
[[nodiscard]] std::int64_t tokens_of(const Network& network);

/// A network of a graph file has its operators already.
void refuse_built(const ModelDescription& model, const ProblemRequest& request,
                  const Cluster& cluster);

}  // namespace plansearch
