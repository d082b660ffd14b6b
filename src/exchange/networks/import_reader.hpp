// SPDX-License-Identifier: Apache-2.0
// Networks of other programs, as graph files.
#pragma once

#include "exchange/networks/imported_graph.hpp"
#include "exchange/networks/stub_file.hpp"
#include "io/document/document.hpp"

namespace plansearch::io {

/// The network as a document plansearch/graph/v1. Operators that have no row are InputErrors.
[[nodiscard]] Document graph_document(const ImportedGraph& graph, const ImportedStubs& stubs = {});

}  // namespace plansearch::io
