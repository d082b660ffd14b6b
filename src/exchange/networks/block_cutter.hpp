// SPDX-License-Identifier: Apache-2.0
// Where an imported network is cut into blocks: at the numbered modules of its source.
#pragma once

#include <string>
#include <vector>

#include "exchange/networks/draft.hpp"

namespace plansearch::io {

/// Consecutive operators that become one block.
struct DraftSegment {
  std::string module;  ///< the numbered module they belong to; empty: between those
  std::vector<DraftId> operators;
};

/// Operators whose results nothing needs are left out. Modules of a list (`h.0`, `h.1`; `layer_0`,
/// `layer_1`) are blocks where two of them compute the same: the outermost such list. Elsewhere a
/// numbered module is a block that holds no such list, the outermost one. Either holds two or more
/// products with weights (one, where none has two). Operators between two of them are blocks of
/// their own, where they have parameters.
[[nodiscard]] std::vector<DraftSegment> cut_blocks(const Draft& draft);

}  // namespace plansearch::io
