// SPDX-License-Identifier: Apache-2.0
// Flags that change what a framework file says: rank order, overlap and orders.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/framework.hpp"
#include "plansearch/problem_request.hpp"

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

/// An order asked for by name or file is priced on any framework, with a note; a target stays as it
/// is. Orders of a list that the framework does not run are left out, with a note; InputError, with
/// the frameworks that do, where it runs none.
void take_asked_orders(Framework& framework, const ProblemRequest& request,
                       std::vector<std::string>& notes);
/// Notes degrees that the framework cannot switch off, where another value was asked for.
void note_fixed_degrees(const Framework& framework, const PinnedDegrees& asked,
                        std::vector<std::string>& notes);

/// Names of the shipped frameworks that can, "deepspeed, megatron".
[[nodiscard]] std::string frameworks_that(const std::function<bool(const Framework&)>& can);

}  // namespace plansearch
