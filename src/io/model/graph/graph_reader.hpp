// SPDX-License-Identifier: Apache-2.0
// Networks listed operator by operator: plansearch/graph/v1 (docs/graphs.md).
#pragma once

#include "io/document/document.hpp"
#include "plansearch/model_description.hpp"

namespace plansearch::io {

/// A description whose `graph` is the network of the file. Throws InputError for anything wrong.
[[nodiscard]] ModelDescription read_graph(const Node& root);

}  // namespace plansearch::io
