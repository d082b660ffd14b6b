// SPDX-License-Identifier: Apache-2.0
// How fast this build prices and searches, and one number that changes when its answers do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plansearch/quantity.hpp"
#include "plansearch/report.hpp"
#include "studies/bench/bench_rates.hpp"

namespace plansearch {

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
