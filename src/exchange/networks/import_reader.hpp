// SPDX-License-Identifier: Apache-2.0
// Networks of other programs, as graph files.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "exchange/networks/imported_graph.hpp"
#include "exchange/networks/lowering.hpp"
#include "io/document/document.hpp"

namespace plansearch::io {

inline constexpr std::string_view kStubSchema = "plansearch/stubs/v1";

struct ImportedStub {
  std::string like;  ///< "aten.gelu"; "pass" and "nothing" are known everywhere
  SourceLocation where;
};

/// Stubs by the operator's name, such as "mylib.fused_act.default".
using ImportedStubs = std::map<std::string, ImportedStub, std::less<>>;

/// Reads plansearch/stubs/v1; wrong keys and names of operators that have no row are InputErrors.
[[nodiscard]] ImportedStubs read_stubs(const Document& document, const ImportedRows& rows);

/// The network as a document plansearch/graph/v1. Operators that have no row are InputErrors.
[[nodiscard]] Document graph_document(const ImportedGraph& graph, const ImportedRows& rows,
                                      const ImportedStubs& stubs = {});

}  // namespace plansearch::io
