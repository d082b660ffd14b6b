// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "order_walk.hpp"
#include "pipeline_support.hpp"
#include "schedule/simulation/simulator.hpp"
#include "schedule/table.hpp"
#include "support/schedules.hpp"

namespace plansearch::testing::activations_test {

TEST_SUITE("unit") {
  TEST_CASE("GPipe keeps all micro-batches, 1F1B no more than p - r") {
    for (int r = 0; r < 4; ++r) {
      CHECK(peak_chunks({test::kGPipe, 4, 9}, r) == 9);
      CHECK(peak_chunks({kDefaultSchedule, 4, 9}, r) == 4 - r);
      CHECK(peak_chunks({kDefaultSchedule, 4, 2}, r) == std::min(2, 4 - r));
    }
  }

  TEST_CASE("over all devices 1F1B keeps p (p + 1) / 2 micro-batches") {
    for (int p = 1; p <= 12; ++p) {
      int sum = 0;
      for (int r = 0; r < p; ++r) sum += peak_chunks({kDefaultSchedule, p, 2 * p}, r);
      CHECK(sum == p * (p + 1) / 2);
    }
  }

  TEST_CASE("interleaved 1F1B keeps (v - 1) p + 2 (p - 1 - r) + 1 chunks") {
    const PipelineShape shape{test::kInterleaved, 4, 16, 2};
    CHECK(peak_chunks(shape, 0) == 11);
    CHECK(peak_chunks(shape, 1) == 9);
    CHECK(peak_chunks(shape, 3) == 5);
    CHECK(peak_chunks({test::kInterleaved, 4, 4, 2}, 0) == 8);
  }

  // Device 3 of 4 with 2 chunks keeps F0-F3 of chunk 0 and F0 of chunk 1 at its first peak.
  TEST_CASE("breadth-first keeps every chunk of every micro-batch, whatever a walk costs") {
    const ScheduleId breadth_first = *find_schedule("breadth-first");
    for (const int p : {2, 5}) {
      for (const int v : {2, 3}) {
        for (const int m : {1, 4, 7}) {
          const PipelineShape shape{breadth_first, p, m, v};
          const auto order = std::get<ComputeOrder>(make_order(shape));
          std::vector<Bytes> bytes{Bytes(100.0), Bytes(1.0), Bytes(7.0)};
          bytes.resize(static_cast<std::size_t>(v));
          for (int r = 0; r < p; ++r) {
            CHECK(peak_chunks(shape, r) == peak_chunks(order, r));
            CHECK(peak_activation_bytes(shape, r, bytes) == peak_activation_bytes(order, r, bytes));
          }
        }
      }
    }
    const std::vector<Bytes> bytes{Bytes(3.0), Bytes(4.0)};
    for (int i = 0; i < 1000; ++i)  // hours where all micro-batches are walked
      CHECK(peak_activation_bytes({breadth_first, 2, 100'000'000, 2}, 1, bytes) == Bytes(7e8));
  }

  TEST_CASE("chunks of different size count with their size") {
    const PipelineShape shape{test::kInterleaved, 4, 4, 2};
    const std::vector<Bytes> bytes{Bytes(100.0), Bytes(1.0)};
    CHECK(peak_activation_bytes(shape, 3, bytes) == Bytes(401.0));
    CHECK(peak_activation_bytes({kDefaultSchedule, 4, 8}, 1, {bytes.data(), 1}) == Bytes(300.0));
  }

  TEST_CASE("of many groups with a shorter last one those in the middle change no peak") {
    const std::vector<Bytes> bytes{Bytes(3.0), Bytes(100.0), Bytes(41.0)};
    int ragged = 0;
    for (const int stages : {3, 4}) {
      for (const int group : {stages, stages + 1, stages + 2}) {
        for (const int rest : {0, 1, 2, 3}) {
          PipelineShape shape{test::kInterleaved, stages, 20 * group + rest, 3};
          shape.group = group;
          if (obstacle_of(shape)) continue;
          ragged += rest > 0;
          const auto order = std::get<ComputeOrder>(make_order(shape));
          PipelineShape long_one = shape;
          long_one.micro_batches = 10'000'000 / group * group + rest;  // no walk of it ends soon
          for (int r = 0; r < stages; ++r) {
            const Bytes peak = peak_activation_bytes(order, r, bytes);
            CHECK(peak_activation_bytes(shape, r, bytes) == peak);
            CHECK(peak_activation_bytes(long_one, r, bytes) == peak);
          }
        }
      }
    }
    CHECK(ragged > 0);
  }
}

TEST_SUITE("property") {
  TEST_CASE("formulas of peaks agree with a walk of the order") {
    Dice dice(11);
    for (int i = 0; i < 300; ++i) {
      PipelineShape shape = random_shape(dice, 8);
      if (shape.chunks > 1 && dice.between(0, 2) == 0) {
        shape.group = shape.stages + dice.between(0, 3);
        if (obstacle_of(shape)) shape.group.reset();
      }
      const auto order = std::get<ComputeOrder>(make_order(shape));
      std::vector<Bytes> bytes;
      for (int c = 0; c < shape.chunks; ++c) {
        bytes.push_back(Bytes(static_cast<double>(dice.between(1, 50))));
      }
      for (int r = 0; r < shape.stages; ++r) {
        INFO(describe(shape) << ", rank " << r);
        CHECK(peak_chunks(shape, r) == peak_chunks(order, r));
        CHECK(peak_activation_bytes(shape, r, bytes) == peak_activation_bytes(order, r, bytes));
      }
    }
  }
}

}  // namespace plansearch::testing::activations_test
