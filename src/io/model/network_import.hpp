// SPDX-License-Identifier: Apache-2.0
// Networks of other programs (.pt2, .onnx). Defined by the wing `exchange`; where a build leaves it out, by
// src/absent/exchange.cpp, which says how to build it.
#pragma once

#include <filesystem>

#include "io/document/document.hpp"

namespace plansearch::io {

/// Whether the name of a file says that it holds a network of another program.
[[nodiscard]] bool is_import(const std::filesystem::path& path);

/// The network of a `.pt2` or `.onnx` file as a document plansearch/graph/v1. `stubs` is a file plansearch/stubs/v1 or
/// empty. Operators that have no row, and whatever else cannot be read, are InputErrors.
[[nodiscard]] Document read_import(const std::filesystem::path& path,
                                   const std::filesystem::path& stubs);

}  // namespace plansearch::io
