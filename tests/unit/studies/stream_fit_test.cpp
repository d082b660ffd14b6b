// SPDX-License-Identifier: Apache-2.0
#include "studies/fit/kernel_fit.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/profile_reader.hpp"
#include "unit/studies/run_tables.hpp"

namespace plansearch {
namespace {

constexpr SitePopulation kPopulation{
    .sites = 9, .mean = 0.07, .mean_error = 0.03, .between = 0.11, .within = 0.07};

/// Sizes from 64 KiB on, each so many microseconds a call and at so many GB/s.
KernelTable passes(int rows, double launch_us, double rate) {
  std::string text = "gpu,pass,bytes,time_us\n";
  for (int i = 0; i < rows; ++i) {
    const double bytes = 65536.0 * (std::int64_t{1} << i);
    text += fmt::format("h100,copy,{:.0f},{:.9g}\n", bytes, launch_us + bytes / (rate * 1e3));
  }
  KernelTable table{"mine.csv", TableKind::Stream, io::CsvTable::parse(text, "mine.csv"), {}};
  for (const io::CsvRow& row : table.table.rows()) table.lines.push_back(row.line);
  return table;
}

KernelFit fitted(const std::vector<KernelTable>& tables) {
  KernelFit fit;
  fit.cluster = io::load_cluster("dgx-h100", std::vector{test::shipped("hardware_profiles")});
  fit_streams(tables, kPopulation, Carried::WholeCurve, fit);
  return fit;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("rate and start of passes over memory are found") {
    const KernelFit fit = fitted({passes(14, 5.0, 2000.0)});
    REQUIRE(fit.groups.size() == 1);
    const StreamCurve& curve = fit.cluster.accelerator.kernels.stream;
    CHECK(curve.launch.value() == doctest::Approx(5e-6).epsilon(0.01));
    CHECK(curve.efficiency * 3350.0 == doctest::Approx(2000.0).epsilon(0.01));
    CHECK(fit.groups[0].held_out.value().error < 0.01);
  }

  TEST_CASE("a rate above the data sheet's ends at it") {
    const KernelFit fit = fitted({passes(14, 2.5, 5000.0)});
    CHECK(fit.cluster.accelerator.kernels.stream.efficiency == 1.0);
  }

  TEST_CASE("without passes nothing moves, and too few are refused") {
    CHECK(fitted({}).groups.empty());
    CHECK_THROWS_AS(fitted({passes(2, 5.0, 2000.0)}), FitRefusal);
  }
}

}  // namespace plansearch
