// SPDX-License-Identifier: Apache-2.0
// The old and the zero-bubble schedules of equal stages: makespan, span and peaks of every device.
// Expected values: closed forms of the papers named in orders/; each was also found by a simulation
// in an independent script. Durations are of a chunk, scaled so that a device-stage divides.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "orders/golden.hpp"

namespace plansearch::testing::catalogue_test {
namespace {

struct Expected {
  const char* schedule;
  int chunks;
  WeightGradients split;
  /// Idle time of a device within the makespan, and within its own span; p stages.
  std::function<Ticks(int p, Triple t)> bubble;
  std::function<Ticks(int p, Triple t)> span_bubble;
  /// Chunks kept on device r of p, with m micro-batches.
  std::function<int(int p, int r, int m)> peak;
};

Ticks whole(int p, Triple t) {
  return (p - 1) * t.work();
}

const Expected kCatalogue[] = {
    {"gpipe", 1, WeightGradients::Fused, whole, whole, [](int, int, int m) { return m; }},
    {"1f1b", 1, WeightGradients::Fused, whole, whole,
     [](int p, int r, int m) { return std::min(m, p - r); }},
    {"eager-1f1b", 1, WeightGradients::Fused, whole, whole,
     [](int p, int r, int m) { return std::min(m, 2 * (p - r) - 1); }},
    {"interleaved", 2, WeightGradients::Fused, whole, whole,
     [](int p, int r, int) { return p + 2 * (p - 1 - r) + 1; }},
    {"interleaved", 3, WeightGradients::Fused, whole, whole,
     [](int p, int r, int) { return 2 * p + 2 * (p - 1 - r) + 1; }},
    {"breadth-first", 2, WeightGradients::Fused, whole, whole,
     [](int, int, int m) { return 2 * m; }},
    {"zb-h1", 1, WeightGradients::Separate,
     [](int p, Triple t) { return (p - 1) * (t.forward + t.backward - t.weight); },
     [](int p, Triple t) { return (p - 1) * (t.forward + t.backward - t.weight); },
     [](int p, int, int) { return p; }},
};

TEST_SUITE("schedule") {
  TEST_CASE("the catalogue: makespan, span and peaks of equal stages, exactly") {
    for (const Expected& row : kCatalogue) {
      for (const auto& [p, m] : {std::pair{4, 8}, {4, 12}, {4, 16}, {8, 16}, {8, 24}, {8, 32}}) {
        for (const Triple t :
             {Triple{1, 1, 1}, Triple{2, 3, 1}, Triple{10, 12, 8}, Triple{3, 4, 2}}) {
          INFO(row.schedule << " v " << row.chunks << " p " << p << " m " << m << " F "
                            << t.forward);
          const PipelineShape shape = shape_of(row.schedule, p, m, row.chunks);
          const auto found = summary_of(shape, t);
          const Ticks work = m * row.chunks * t.work();
          CHECK(found.makespan == work + row.bubble(p, t));
          CHECK(found.span == work + row.span_bubble(p, t));
          CHECK(splits_backward(shape.schedule) == (row.split == WeightGradients::Separate));
          for (int r = 0; r < p; ++r) CHECK(peak_chunks(shape, r) == row.peak(p, r, m));
        }
      }
    }
  }

  TEST_CASE("the catalogue: F 1, B 2 of a device-stage") {
    // In units of a sixth: divides by 2 and 3 chunks.
    const auto sixths = [](const char* name, int p, int m, int chunks) {
      return summary_of(shape_of(name, p, m, chunks), {6 / chunks, 12 / chunks, 0}).makespan;
    };
    CHECK(sixths("1f1b", 4, 8, 1) == 6 * 33);
    CHECK(sixths("1f1b", 4, 16, 1) == 6 * 57);
    CHECK(sixths("1f1b", 8, 32, 1) == 6 * 117);
    CHECK(2 * sixths("interleaved", 4, 8, 2) == 12 * 28 + 6);
    CHECK(sixths("interleaved", 4, 8, 3) == 6 * 27);
    CHECK(2 * sixths("interleaved", 8, 16, 2) == 12 * 58 + 6);
    // Four chunks: quarters.
    CHECK(summary_of(shape_of("interleaved", 4, 16, 4), {1, 2, 0}).makespan == 4 * 50 + 1);
  }

  TEST_CASE("the catalogue: ZB-H2 and ZB-V, whose devices end one after the other") {
    for (const auto& [p, m] : {std::pair{4, 8}, {4, 12}, {8, 24}}) {
      // Idle within the span: (p - 1)(F + B - 2 W).
      for (const auto& [t, span] : {std::pair{Triple{1, 1, 1}, 0},
                                    {Triple{2, 3, 1}, 3},
                                    {Triple{10, 12, 8}, 6},
                                    {Triple{3, 4, 2}, 3}}) {
        const auto h2 = summary_of(shape_of("zb-h2", p, m), t);
        CHECK(h2.span == m * t.work() + (p - 1) * span);
        CHECK(h2.makespan >= h2.span);
        for (const double peak : h2.peak_activations) CHECK(peak == 2 * p - 1);
      }
      // No idle time at all for equal pieces; 2 p chunks, p micro-batches.
      const auto v = summary_of(shape_of("zb-v", p, m, 2), {1, 1, 1});
      CHECK(v.span == 6 * m);
      CHECK(v.makespan >= v.span);
      for (const double peak : v.peak_activations) CHECK(peak == p);
    }
    CHECK(summary_of(shape_of("zb-h2", 4, 8), {10, 12, 8}).bubble_time == 30);
  }

  // Forward and gradient messages of c: 2 c (p - 1) where they hide, see the closed form of 1F1B in
  // uniform.hpp for its own.
  TEST_CASE("the catalogue: messages that hide cost twice the way") {
    for (const int p : {2, 4, 8}) {
      for (const Ticks c : {1, 5, 10}) {
        for (const char* name : {"gpipe", "eager-1f1b"}) {
          const auto free = summary_of(shape_of(name, p, 4 * p), {10, 20, 0});
          CHECK(summary_of(shape_of(name, p, 4 * p), {10, 20, 0}, c).makespan ==
                free.makespan + 2 * c * (p - 1));
        }
      }
    }
  }

  TEST_CASE("every schedule: no device spans less than its work") {
    for (const ScheduleId id : all_schedules()) {
      for (const auto& [p, m] : {std::pair{4, 8}, {8, 16}, {6, 24}}) {
        const PipelineShape shape{id, p, m, schedule_row(id).chunks.fewest};
        if (fault_of(shape)) continue;
        const auto found = summary_of(shape, {3, 4, 2});
        INFO(to_text(id));
        CHECK(found.span >= m * shape.chunks * 9);
        CHECK(found.makespan >= found.span);
      }
    }
  }
}

}  // namespace
}  // namespace plansearch::testing::catalogue_test
