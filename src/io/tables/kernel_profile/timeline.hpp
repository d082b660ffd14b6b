// SPDX-License-Identifier: Apache-2.0
// Events of a timeline added up: what each kind takes by itself, when nothing ran, and when only
// messages did.
#pragma once

#include <string>
#include <vector>

#include "io/tables/kernel_profile/step_profile.hpp"

namespace plansearch::io {

/// Microseconds of the trace's clock.
struct Span {
  double start = 0.0;
  double end = 0.0;
};

struct TimedEvent {
  Span span;
  int thread = 0;  ///< a stream, or a thread of the host
  ProfileTerm term = ProfileTerm::MemoryBound;
};

/// Terms, exposed, idle and span within `window`; events of one thread may lie inside one another,
/// and count by what those inside leave.
void add_up(std::vector<TimedEvent> events, Span window, StepProfile& profile);

}  // namespace plansearch::io
