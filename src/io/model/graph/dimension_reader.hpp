// SPDX-License-Identifier: Apache-2.0
// The dimensions of a graph file: numbers, and sizes that follow from those above them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "io/document/document.hpp"
#include "io/model/graph/block_reader.hpp"
#include "plansearch/network.hpp"

namespace plansearch::io {

/// "(pixels/16)*(pixels/16) + text": sums, products and exact quotients of whole numbers and names,
/// whose values `size_of` knows. A sentence where it is none.
[[nodiscard]] std::variant<std::int64_t, std::string> evaluate_extent(
    std::string_view text,
    const std::function<std::optional<std::int64_t>(std::string_view)>& size_of);

/// The dimensions under `dims` of a graph file, in the order of the file. `seq_len` beside them
/// replaces the number of tokens.
[[nodiscard]] DimNames read_dimensions(const Node& root, Network& network);

}  // namespace plansearch::io
