// SPDX-License-Identifier: Apache-2.0
// Times of collectives that a profile has measured size by size.
#pragma once

#include <optional>

#include "cost/collective/place.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/communication_kind.hpp"

namespace plansearch {

/// Time by a table; sizes beyond it follow its ends.
[[nodiscard]] Seconds time_of(const MeasuredTimes& table, Bytes message);

/// Nothing where the tier has no such table, and for groups of several nodes.
[[nodiscard]] std::optional<Seconds> measured_time(const LinkTier& tier, CommunicationKind kind,
                                                   Bytes message, const GroupSpan& span);

}  // namespace plansearch
