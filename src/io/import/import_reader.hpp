// SPDX-License-Identifier: Apache-2.0
// Networks of other programs, as graph files.
#pragma once

#include <filesystem>

#include "io/document.hpp"
#include "io/import/imported_graph.hpp"
#include "io/import/stub_file.hpp"

namespace plansearch::io {

/// Whether the name of a file says that it holds a network of another program.
[[nodiscard]] bool is_import(const std::filesystem::path& path);

/// The network of a `.pt2` or `.onnx` file as a document plansearch/graph/v1. Operators that have
/// no row, and whatever else cannot be read, are InputErrors.
[[nodiscard]] Document read_import(const std::filesystem::path& path,
                                   const ImportedStubs& stubs = {});
/// ... of a graph that has been read already.
[[nodiscard]] Document graph_document(const ImportedGraph& graph, const ImportedStubs& stubs = {});

}  // namespace plansearch::io
