// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "measure/calibrate/backends/nvml.hpp"
#include "measure/calibrate/probe.hpp"
#include "measure/calibrate/session.hpp"

namespace plansearch::calibrate::probes_test {
namespace {

Grid wide_grid() {
  Grid grid;
  grid.most_flops = 1e13;
  grid.most_bytes = 4e9;
  grid.formats = {"bf16", "fp8"};
  return grid;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("every key of a sample is known to its file") {
    Grid grid = wide_grid();
    grid.ranks = 16;
    grid.ranks_of_node = 8;
    for (const Probe& probe : probes()) {
      CAPTURE(probe.name);
      const std::vector<Point> points = probe.points(grid);
      REQUIRE_FALSE(points.empty());
      std::set<std::string> keys;
      std::string text = io::machine_line({.backend = "x", .name = "y"}, "2026-01-02");
      for (const Point& point : points) {
        CHECK(keys.insert(point.key()).second);
        const Work work = probe.work(point);
        CHECK(work.flops <= 2.0 * grid.most_flops);
        text += io::sample_line({.probe = std::string(point.probe),
                                 .cells = point.cells,
                                 .time_us = 1.5,
                                 .blocks_us = {1.5}});
      }
      const auto file = io::parse_samples(text, "s.jsonl");
      REQUIRE(file.samples.size() == points.size());
      CHECK(io::sample_key(file.samples.back().probe, file.samples.back().cells) ==
            points.back().key());
    }
  }

  TEST_CASE("products of 16 bits in three layouts, of 8 bits along the sum in whole vectors") {
    std::set<std::string> layouts;
    for (const Point& point : gemm_points(wide_grid())) {
      layouts.insert(point.word("dtype") + point.word("layout"));
      if (point.word("dtype") == "fp8") {
        for (const char* size : {"m", "n", "k"}) {
          CHECK(static_cast<int>(point.number(size)) % 32 == 0);
        }
      }
    }
    CHECK(layouts == std::set<std::string>{"bf16nn", "bf16nt", "bf16tn", "fp8nt"});
  }

  TEST_CASE("every probe has points where operands are small and the device is fast") {
    Grid grid = wide_grid();
    grid.quick = true;
    grid.most_flops = 5e12;
    grid.most_bytes = 5e8;
    grid.ranks = grid.ranks_of_node = 2;
    for (const Probe& probe : probes()) {
      CAPTURE(probe.name);
      CHECK_FALSE(probe.points(grid).empty());
    }
  }

  TEST_CASE("attention: two products forward, five backward, of half the scores") {
    const Point forward{"attention",
                        {{"direction", "forward"},
                         {"mask", "causal"},
                         {"dtype", "bf16"},
                         {"batch", "2"},
                         {"seq_len", "1024"},
                         {"heads", "16"},
                         {"kv_heads", "4"},
                         {"head_dim", "128"}}};
    // 2 sequences x 16 heads x 1024^2 / 2 scores x 128 features x 2 operations, twice.
    CHECK(attention_work(forward).flops == 2.0 * 2 * 16 * 1024.0 * 1024 / 2 * 128 * 2);
    // Queries and context of 16 heads, keys and values of 4, two bytes each.
    CHECK(attention_work(forward).bytes == 2.0 * 1024 * 128 * (2 * 16 + 2 * 4) * 2);
    Point backward = forward;
    backward.cells["direction"] = "backward";
    CHECK(attention_work(backward).flops == 2.5 * attention_work(forward).flops);
    CHECK(attention_shape(forward).useful_fraction == 0.5);
  }

  TEST_CASE("what overlaps is a point of its own probe") {
    Grid grid = wide_grid();
    grid.ranks = grid.ranks_of_node = 8;
    std::set<std::string> pairs;
    for (const Point& point : overlap_points(grid)) {
      const OverlapParts parts = overlap_parts(point);
      pairs.insert(point.word("timed") + "/" + point.word("beside"));
      CHECK(parts.beside.has_value() == !point.word("beside").empty());
      if (point.word("timed") == "all_reduce") CHECK(parts.timed.number("ranks") == 8);
      if (point.word("timed") == "gemm") CHECK(parts.timed.word("dtype") == "bf16");
    }
    CHECK(pairs.size() == 16);  // four alone, twelve pairs
    CHECK(pairs.contains("gemm/all_reduce"));
    grid.ranks = grid.ranks_of_node = 1;
    CHECK(overlap_points(grid).size() == 9);  // without messages
  }

  TEST_CASE("reasons of a slow clock are words") {
    CHECK(slowing_reasons(0x1).empty());  // idle
    CHECK(slowing_reasons(0x44) == std::vector<std::string>{"power limit", "hardware thermal"});
  }

  TEST_CASE("the rank that others wait for is named, one that is slow once is not") {
    const io::SampledMachine machine{
        .backend = "cuda", .name = "x", .facts = {{"rank 3", "node7: GPU-5"}}};
    const auto sample = [](const char* probe, double rank, double ratio) {
      io::Sample made{.probe = probe, .time_us = 1.0};
      made.state.values = {{"slowest_rank", rank}, {"slowest_over_middle", ratio}};
      return made;
    };
    std::vector<io::Sample> samples{sample("gemm", 3, 1.4),        sample("gemm", 3, 1.5),
                                    sample("stream", 3, 1.6),      sample("gemm", 1, 1.9),
                                    sample("collective", 0, 1.01), sample("collective", 0, 1.02)};
    const auto slow = slow_ranks(machine, samples);
    REQUIRE(slow.size() == 1);
    CHECK(slow.front().part == "kernels");
    CHECK(slow.front().rank == 3);
    CHECK(slow.front().where == "node7: GPU-5");
    CHECK(slow.front().ratio == doctest::Approx(1.5));
    CHECK(slow.front().points == 3);
  }
}

}  // namespace plansearch::calibrate::probes_test
