// SPDX-License-Identifier: Apache-2.0
// Model files (plansearch/model/v1) from architectures.
#pragma once

#include <string>

#include "plansearch/model_description.hpp"

namespace plansearch::io {

/// YAML text that `read_model` reads back to the same description. Not of graphs
/// (write_graph).
[[nodiscard]] std::string to_yaml(const ModelDescription& model);

/// plansearch/graph/v1, YAML: read back it is the same network, operator by operator and id by id.
/// `model`: whose training defaults the file takes over.
[[nodiscard]] std::string write_graph(const ModelDescription& model, const Network& network);

}  // namespace plansearch::io
