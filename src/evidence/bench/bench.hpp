// SPDX-License-Identifier: Apache-2.0
// How fast this build prices and searches, and one number that changes when its answers do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/quantity.hpp"
#include "plansearch/report.hpp"
#include "plansearch/space.hpp"

namespace plansearch {

/// Seconds by two clocks. Other work on the machine lengthens the wall time only.
struct Clocks {
  double cpu = 0.0;
  double wall = 0.0;
};
[[nodiscard]] Clocks thread_clocks();
/// Processor time of all threads of the process.
[[nodiscard]] Clocks process_clocks();
[[nodiscard]] Clocks operator-(Clocks end, Clocks start);

struct Rate {
  std::string problem;
  std::string what;
  double per_cpu_second = 0.0;
  double per_wall_second = 0.0;
};

/// Legality, fresh class profiles, look-ups of known ones, bounds, and estimates and simulations of
/// the plans that fit, over runs of neighbouring plans spread over the space. Fresh classes are
/// made by an evaluator that has seen nothing before.
[[nodiscard]] std::vector<Rate> measure_rates(const std::string& name, const Problem& problem,
                                              const SearchSpace& space);

/// Alpa's stage program on two sizes of a network and a machine.
[[nodiscard]] std::vector<Rate> measure_stage_programs();

/// One order of 64 stages and 512 micro-batches with weight gradients apart: made, checked, lowered
/// and simulated, and the same again when it is known.
[[nodiscard]] std::vector<Rate> measure_orders();

/// One pipeline of 16 stages with 64 micro-batches.
[[nodiscard]] Rate measure_simulator();

struct SearchTiming {
  std::string problem;
  std::int64_t plans = 0;
  Clocks taken;
};

struct BenchReport {
  int threads = 1;
  std::vector<Rate> rates;
  std::vector<SearchTiming> searches;
  std::uint64_t signature = 0;  ///< of the rankings of five fixed searches
  Bytes peak_memory;
};

[[nodiscard]] BenchReport run_bench(int threads);
/// Its searches alone.
[[nodiscard]] BenchReport run_searches(int threads);
/// A table, or JSON.
[[nodiscard]] std::string render_bench(const BenchReport& report, Format format);

}  // namespace plansearch
