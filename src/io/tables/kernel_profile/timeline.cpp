// SPDX-License-Identifier: Apache-2.0
// Computes: sums of a timeline of events, by term.
// Source: definition.
// Assumes: events of one thread are disjoint or nested.
// Units: microseconds in, seconds out.
// Checked by: tests/unit/io/kernel_profile_test.cpp
#include "io/tables/kernel_profile/timeline.hpp"

#include <algorithm>

namespace plansearch::io {
namespace {

constexpr double kMicrosecond = 1e-6;

/// Sorted, without overlaps.
std::vector<Span> merged(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.start < b.start; });
  std::vector<Span> out;
  for (const Span& span : spans) {
    if (!out.empty() && span.start <= out.back().end) {
      out.back().end = std::max(out.back().end, span.end);
    } else {
      out.push_back(span);
    }
  }
  return out;
}

double length(const std::vector<Span>& spans) {
  double sum = 0.0;
  for (const Span& span : spans) sum += span.end - span.start;
  return sum;
}

/// Every event less those that lie directly inside it.
void add_own_times(std::vector<TimedEvent>& events, StepProfile& profile) {
  std::stable_sort(events.begin(), events.end(), [](const TimedEvent& a, const TimedEvent& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    if (a.span.start != b.span.start) return a.span.start < b.span.start;
    return a.span.end > b.span.end;
  });
  std::vector<const TimedEvent*> open;
  for (const TimedEvent& event : events) {
    while (!open.empty() &&
           (open.back()->thread != event.thread || open.back()->span.end <= event.span.start)) {
      open.pop_back();
    }
    const double time = event.span.end - event.span.start;
    TermTime& own = profile.at(event.term);
    own.time += Seconds(time * kMicrosecond);
    own.calls += 1.0;
    if (!open.empty()) {
      // Time beyond the end of the outer event is not inside it.
      const double inside = std::min(event.span.end, open.back()->span.end) - event.span.start;
      profile.at(open.back()->term).time -= Seconds(inside * kMicrosecond);
    }
    open.push_back(&event);
  }
}

}  // namespace

void add_up(std::vector<TimedEvent> events, Span window, StepProfile& profile) {
  std::vector<Span> any;
  std::vector<Span> computing;
  for (const TimedEvent& event : events) {
    any.push_back(event.span);
    if (!is_message(event.term)) computing.push_back(event.span);
  }
  const double busy = length(merged(std::move(any)));
  const double span = std::max(window.end - window.start, busy);
  profile.span = Seconds(span * kMicrosecond);
  profile.idle = Seconds((span - busy) * kMicrosecond);
  profile.exposed = Seconds((busy - length(merged(std::move(computing)))) * kMicrosecond);
  add_own_times(events, profile);
}

}  // namespace plansearch::io
