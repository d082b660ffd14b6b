// SPDX-License-Identifier: Apache-2.0
#include "studies/fit/kernel_fit.hpp"

#include <doctest/doctest.h>

#include "io/profile_reader.hpp"
#include "unit/studies/run_tables.hpp"

namespace plansearch {
namespace {

io::Sample sample(const std::string& timed, const std::string& beside, double time) {
  io::Sample made{.probe = "overlap", .cells = {{"timed", timed}}, .time_us = time};
  if (!beside.empty()) made.cells["beside"] = beside;
  return made;
}

KernelFit fitted(const std::vector<io::Sample>& samples) {
  KernelFit fit;
  fit.cluster = io::load_cluster("dgx-h100", std::vector{test::shipped("hardware_profiles")});
  fit_overlap(samples, fit);
  return fit;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("shares follow from times together and alone") {
    const KernelFit fit =
        fitted({sample("gemm", "", 100), sample("all_reduce", "", 50), sample("to_device", "", 10),
                sample("from_device", "", 20),
                // 100 of 125: a fifth of the multiprocessors.
                sample("gemm", "all_reduce", 125),
                // 1.5 and 1.3: 0.4 of the path.
                sample("to_device", "from_device", 15), sample("from_device", "to_device", 26),
                // Faster together is noise.
                sample("all_reduce", "to_device", 49)});
    const ConcurrencyCoefficients& own = fit.cluster.accelerator.concurrency;
    CHECK(own.multiprocessor_share[static_cast<std::size_t>(Activity::Local)] ==
          doctest::Approx(0.2));
    CHECK(own.path_share.of(Activity::ToHost, Activity::FromHost) == doctest::Approx(0.4));
    CHECK(own.path_share.of(Activity::Local, Activity::FromHost) == 0.0);
    REQUIRE(fit.groups.size() == 1);
    CHECK(fit.groups[0].rows == 4);
    CHECK(fit.groups[0].error_after < fit.groups[0].error_before);
    CHECK(concurrency_section(fit) ==
          "  concurrency: {multiprocessors: {local: 0.2}, paths: {from_host: {to_host: 0.4}, "
          "local: {from_host: 0}}}\n");
  }

  TEST_CASE("a captured launch is taken over; pairs without their parts alone say nothing") {
    io::Sample launch{.probe = "launch", .cells = {{"kernel", "graph"}}, .time_us = 1.25};
    const KernelFit fit = fitted({launch, sample("gemm", "all_reduce", 125)});
    CHECK(fit.cluster.accelerator.kernels.stream.graph_launch.value() == doctest::Approx(1.25e-6));
    CHECK(fit.groups.empty());
    CHECK(concurrency_section(fit).empty());
  }
}

}  // namespace plansearch
