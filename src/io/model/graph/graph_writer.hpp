// SPDX-License-Identifier: Apache-2.0
// A network as a graph file.
#pragma once

#include <string>

#include "plansearch/model_description.hpp"

namespace plansearch::io {

/// plansearch/graph/v1, YAML: read back it is the same network, operator by operator and id by id.
/// `model`: whose training defaults the file takes over.
[[nodiscard]] std::string write_graph(const ModelDescription& model, const Network& network);

}  // namespace plansearch::io
