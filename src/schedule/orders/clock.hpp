// SPDX-License-Identifier: Apache-2.0
// Orders by the clock of equal pieces, for schedules whose rule is one of choice.
#pragma once

#include "schedule/order/compute_order.hpp"

namespace plansearch {

/// Every device takes what is there, clock tick by clock tick: backwards first,
/// then the forward that is furthest along. A replica of the network lets in
/// at most `in_flight` micro-batches at a time.
[[nodiscard]] ComputeOrder clocked_order(const PipelineShape& shape, int in_flight);

}  // namespace plansearch
