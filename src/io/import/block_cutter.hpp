// SPDX-License-Identifier: Apache-2.0
// Where an imported network is cut into blocks: at the numbered modules of its source.
#pragma once

#include <string>
#include <vector>

#include "io/import/draft.hpp"

namespace plansearch::io {

/// Consecutive operators that become one block.
struct DraftSegment {
  std::string module;  ///< the numbered module they belong to; empty: between those
  std::vector<DraftId> operators;
};

/// Operators whose results nothing needs are left out. A numbered module (`h.0`, `layer1.2`) that
/// holds two or more products with weights is a block, the innermost one where several are nested;
/// where there is none, one that holds a product. Operators between two of them are blocks of
/// their own, where they have parameters.
[[nodiscard]] std::vector<DraftSegment> cut_blocks(const Draft& draft);

}  // namespace plansearch::io
