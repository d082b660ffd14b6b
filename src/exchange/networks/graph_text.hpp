// SPDX-License-Identifier: Apache-2.0
// An imported network as the text of a graph file (plansearch/graph/v1, as JSON).
#pragma once

#include <string>

#include "exchange/networks/draft.hpp"

namespace plansearch::io {

/// Blocks whose texts are equal are copies of one.
[[nodiscard]] std::string graph_text(const ImportedGraph& graph, Draft draft);

}  // namespace plansearch::io
