// SPDX-License-Identifier: Apache-2.0
// Model files (plansearch/model/v1) from architectures.
#pragma once

#include <string>

#include "plansearch/model_description.hpp"

namespace plansearch::io {

/// YAML text that `read_model` reads back to the same description. Not of graphs
/// (graph_writer.hpp).
[[nodiscard]] std::string to_yaml(const ModelDescription& model);

}  // namespace plansearch::io
