// SPDX-License-Identifier: Apache-2.0
// Reader of files of torch.export.save: a zip archive with a graph as JSON.
#pragma once

#include <istream>
#include <memory>
#include <string>
#include <string_view>

#include "exchange/networks/imported_graph.hpp"

namespace plansearch::io {

/// Reads models/model.json (PyTorch 2.8 and later) or serialized_exported_program.json (2.3 to
/// 2.7); `file` is for messages. Weights, constants and sample inputs are not read. Dynamic shapes
/// and everything else that is not a static graph are InputErrors.
[[nodiscard]] ImportedGraph read_exported_program(std::unique_ptr<std::istream> in,
                                                  const std::string& file);

/// The JSON by itself; `entry`: its name in the archive.
[[nodiscard]] ImportedGraph parse_exported_program(std::string_view text, const std::string& file,
                                                   const std::string& entry);

}  // namespace plansearch::io
