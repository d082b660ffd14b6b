// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include "measure/calibrate/session.hpp"
#include "plansearch/shipped_data.hpp"
#include "support/source_directory.hpp"

namespace plansearch::calibrate::drift_test {
namespace {

/// Every class of the samples that `truth` gives, against dgx-h100.
std::vector<Drift> seen(const std::function<double(const io::Sample&)>& slower) {
  const ShippedData data{std::filesystem::path(PLANSEARCH_SOURCE_DIR)};
  const auto backend = make_backend("synthetic", BackendOptions{}, data);
  SessionRequest request;
  request.quick = true;
  request.most_bytes = 4e9;
  SessionSummary summary = run_session(*backend, request, [](const SessionProgress&) {});
  for (io::Sample& sample : summary.samples) {
    if (sample.time_us) *sample.time_us *= slower(sample);
  }
  return drifts(backend->machine(), summary.samples, data.cluster("dgx-h100"));
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a machine that is as it was has not drifted, whatever its noise") {
    const auto all = seen([](const io::Sample&) { return 1.0; });
    CHECK(all.size() > 8);
    for (const Drift& drift : all) {
      CAPTURE(drift.part);
      CHECK(drift.points > 0);
      CHECK_FALSE(drift.drifted());
    }
  }

  TEST_CASE("what became slower is named, and nothing else") {
    const auto all = seen([](const io::Sample& sample) {
      const auto kind = sample.cells.find("collective");
      return kind != sample.cells.end() && kind->second == "all_reduce" ? 1.5 : 1.0;
    });
    for (const Drift& drift : all) {
      CAPTURE(drift.part);
      CHECK(drift.drifted() == drift.part.starts_with("all_reduce"));
    }
  }
}

}  // namespace plansearch::calibrate::drift_test
