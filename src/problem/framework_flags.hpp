// SPDX-License-Identifier: Apache-2.0
// Flags that change what a framework file says: rank order and overlap.
#pragma once

#include <string>
#include <string_view>

#include "plansearch/framework.hpp"

namespace plansearch {

/// "tp-cp-dp-pp", fastest first. Axes that are left out keep their place at the end; tp stands for
/// its three axes, ep is accepted and has no place of its own (experts fold the ranks of a stage).
void apply_rank_order(Framework& framework, std::string_view text);
[[nodiscard]] std::string rank_order_text(const Framework& framework);

/// "all", "none", or a list of grad, param, pipeline, tensor, context, expert: what is named is
/// hidden (fully, where the framework itself does not hide it), everything else is exposed. Kinds
/// with 0 or 1 ("param=0") change those alone.
void apply_overlap(Framework& framework, std::string_view text);
[[nodiscard]] std::string overlap_text(const Framework& framework);

}  // namespace plansearch
