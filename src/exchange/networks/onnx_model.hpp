// SPDX-License-Identifier: Apache-2.0
// ONNX models: graphs with static shapes, without their weights.
#pragma once

#include <string>
#include <string_view>

#include "exchange/networks/imported_graph.hpp"

namespace plansearch::io {

/// A ModelProto (onnx/onnx onnx/onnx.proto, operator sets 11 to 25). Data of tensors is skipped,
/// but for short lists of whole numbers, which are arguments. Shapes that are missing or symbolic,
/// and graphs inside graphs, are InputErrors.
[[nodiscard]] ImportedGraph parse_onnx(std::string_view bytes, const std::string& file);

}  // namespace plansearch::io
