// SPDX-License-Identifier: Apache-2.0
// From samples of a known machine to a profile: is the machine found again?
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evidence/validate/error_summary.hpp"
#include "io/document/file.hpp"
#include "io/hardware/profile_reader.hpp"
#include "measure/calibrate/session.hpp"
#include "measure/fit/fit_profile.hpp"
#include "measure/fit/fit_tables.hpp"
#include "support/source_directory.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::calibrate::synthetic_fit_test {
namespace {

/// An H100 whose constants nobody knows.
constexpr const char* kTruth = R"(
schema: plansearch/profile/v1
name: truth
like: dgx-h100
accelerator:
  name: h100-sxm5-80gb
  kernels:
    matmul:
      bf16: {launch: 4 us, flop_efficiency: 0.7, byte_efficiency: 0.7, prologue_depth: 180, unaligned_rows: 2.2}
    stream: {launch: 4 us, efficiency: 0.7}
)";

const ShippedData& shipped() {
  static const ShippedData kData{std::filesystem::path(PLANSEARCH_SOURCE_DIR)};
  return kData;
}

/// A folder with a true machine, samples of it and what follows from them.
class Bench {
 public:
  Bench() : truth_(directory_.write("truth.yaml", kTruth)) {}

  [[nodiscard]] std::unique_ptr<Backend> backend(double noise, double wild,
                                                 std::uint64_t seed) const {
    BackendOptions options;
    options.truth = truth_;
    options.noise = noise;
    options.wild = wild;
    options.seed = seed;
    return make_backend("synthetic", options, shipped());
  }

  std::string sample(const std::string& name, double noise, double wild, std::uint64_t seed,
                     std::vector<std::string> only = {"gemm", "stream"}) const {
    SessionRequest request;
    request.out = directory_.path() / name;
    request.only = std::move(only);
    request.most_bytes = 4e9;
    const auto device = backend(noise, wild, seed);
    static_cast<void>(run_session(*device, request, [](const SessionProgress&) {}));
    return request.out;
  }

  /// Of a machine of which only samples are known.
  [[nodiscard]] FitAnswer fit(std::vector<std::string> samples) const {
    FitRequest request;
    request.tables = std::move(samples);
    request.fresh = "found";
    request.out = directory_.path() / "found.yaml";
    return fit_profile(request, shipped());
  }

  [[nodiscard]] Cluster found(const std::string& samples) const {
    const FitAnswer answer = fit({samples});
    INFO(answer.report);
    REQUIRE_FALSE(answer.profile.empty());
    return io::parse_cluster(answer.profile, directory_.path() / "found.yaml",
                             std::vector{shipped().directory() / "hardware_profiles"});
  }

  [[nodiscard]] Cluster truth() const { return shipped().cluster(truth_); }
  [[nodiscard]] const test::TemporaryDirectory& directory() const { return directory_; }

 private:
  test::TemporaryDirectory directory_;
  std::string truth_;
};

const MatmulCurve& products(const Cluster& cluster) {
  return cluster.accelerator.kernels.matmul.at(static_cast<std::size_t>(DataType::Bf16)).value();
}

void check_recovered(const Cluster& found, const Cluster& truth) {
  constexpr double kWithin = 0.02;
  const MatmulCurve& own = products(found);
  const MatmulCurve& right = products(truth);
  CHECK(own.launch / right.launch == doctest::Approx(1.0).epsilon(kWithin));
  CHECK(own.flop_efficiency / right.flop_efficiency == doctest::Approx(1.0).epsilon(kWithin));
  CHECK(own.byte_efficiency / right.byte_efficiency == doctest::Approx(1.0).epsilon(kWithin));
  CHECK(own.prologue_depth / right.prologue_depth == doctest::Approx(1.0).epsilon(kWithin));
  CHECK(own.unaligned_rows / right.unaligned_rows == doctest::Approx(1.0).epsilon(kWithin));
  const StreamCurve& passes = found.accelerator.kernels.stream;
  const StreamCurve& true_passes = truth.accelerator.kernels.stream;
  CHECK(passes.launch / true_passes.launch == doctest::Approx(1.0).epsilon(kWithin));
  CHECK(passes.efficiency / true_passes.efficiency == doctest::Approx(1.0).epsilon(kWithin));
}

/// ln(measured / predicted) of the samples of a probe.
std::vector<double> errors(const std::string& path, const Cluster& cluster, TableKind kind) {
  const KernelProfiles only{[&](std::string_view) { return cluster.accelerator; },
                            [&](std::string_view) { return cluster; },
                            [&] { return std::vector<Cluster>{cluster}; }};
  std::vector<double> logs;
  for (const KernelTable& table : tables_of(io::parse_samples(io::read_file(path), path), "x")) {
    if (table.kind != kind) continue;
    for (const KernelRow& row : predict_kernels(table.table, kind, only)) {
      logs.push_back(std::log(row.measured.value() / row.predicted.value()));
    }
  }
  return logs;
}

std::vector<double> sizes_of(std::vector<double> logs) {
  for (double& log : logs) log = std::abs(log);
  return logs;
}

/// A file with some of the lines of another.
std::string part(const Bench& bench, const std::string& path,
                 const std::function<bool(std::size_t line, const std::string& text)>& kept) {
  std::string text = io::read_file(path);
  std::string chosen;
  std::size_t begin = 0;
  for (std::size_t line = 0; begin < text.size(); ++line) {
    const std::size_t end = text.find('\n', begin) + 1;
    const std::string own = text.substr(begin, end - begin);
    if (line == 0 || kept(line, own)) chosen += own;
    begin = end;
  }
  return bench.directory().write("part.jsonl", chosen);
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("every constant is found within 2 % at 3 % noise, 5 % wild outliers or not") {
    const Bench bench;
    check_recovered(bench.found(bench.sample("s.jsonl", 0.03, 0.0, 2)), bench.truth());
    const Cluster with = bench.found(bench.sample("wild.jsonl", 0.03, 0.05, 2));
    check_recovered(with, bench.truth());
  }

  TEST_CASE("the interval covers 80 % of points that the fit did not see") {
    const Bench bench;
    const Residual residual =
        products(bench.found(bench.sample("s.jsonl", 0.03, 0.0, 1))).residual.value();
    const Cluster found = bench.found(bench.directory().path() / "s.jsonl");
    double inside = 0.0;
    double all = 0.0;
    for (const std::uint64_t seed : {11, 12, 13, 14, 15}) {
      const std::string path =
          bench.sample(fmt::format("{}.jsonl", seed), 0.03, 0.0, seed, {"gemm"});
      for (const double log : errors(path, found, TableKind::Matmul)) {
        inside += log >= residual.p10 && log <= residual.p90 ? 1.0 : 0.0;
        all += 1.0;
      }
    }
    CHECK(inside / all >= 0.75);
    CHECK(inside / all <= 0.85);
  }

  TEST_CASE("a tenth of the points in their order does nearly what all of them do") {
    const Bench bench;
    const std::string all = bench.sample("s.jsonl", 0.03, 0.0, 1);
    const std::size_t lines = io::parse_samples(io::read_file(all), all).samples.size();
    const std::string few =
        part(bench, all, [&](std::size_t line, const std::string&) { return line <= lines / 10; });
    const Cluster of_all = bench.found(all);
    const Cluster of_few = bench.found(few);
    const std::string unseen = bench.sample("unseen.jsonl", 0.03, 0.0, 99);
    for (const TableKind kind : {TableKind::Matmul, TableKind::Stream}) {
      const double error_all = median(sizes_of(errors(unseen, of_all, kind)));
      const double error_few = median(sizes_of(errors(unseen, of_few, kind)));
      CAPTURE(error_all);
      CAPTURE(error_few);
      CHECK(error_few <= 1.5 * error_all);
    }
  }

  TEST_CASE("samples that cannot carry a fit are refused with the reason") {
    const Bench bench;
    const std::string all = bench.sample("s.jsonl", 0.03, 0.0, 1);
    const auto refusal = [&](const std::string& samples) { return bench.fit({samples}).report; };
    const std::string single =
        part(bench, all, [n = 0](std::size_t, const std::string& line) mutable {
          return line.find("\"probe\":\"gemm\"") != std::string::npos && ++n <= 1;
        });
    CHECK(refusal(single).find("1 row: a fit needs 3") != std::string::npos);
    std::string text = io::read_file(
        part(bench, all, [](std::size_t line, const std::string&) { return line < 60; }));
    std::string repeated = text.substr(0, text.find('\n') + 1);
    const std::size_t row = text.find("{\"probe\":\"stream\"");
    for (int i = 0; i < 5; ++i) repeated += text.substr(row, text.find('\n', row) + 1 - row);
    CHECK(refusal(bench.directory().write("one.jsonl", repeated)).find("of one size") !=
          std::string::npos);
  }

  TEST_CASE("samples in several units are refused") {
    const Bench bench;
    int n = 0;
    std::string mixed;
    const std::string path = bench.sample("s.jsonl", 0.03, 0.0, 1, {"stream"});
    const auto file = io::parse_samples(io::read_file(path), path);
    mixed = io::machine_line(file.machine, "2026-01-02");
    for (io::Sample sample : file.samples) {
      if (++n % 2 == 0 && sample.time_us) *sample.time_us *= 1e-3;
      mixed += io::sample_line(sample);
    }
    const FitAnswer answer = bench.fit({bench.directory().write("mixed.jsonl", mixed)});
    CHECK(answer.profile.empty());
    CHECK(answer.report.find("microseconds and bytes") != std::string::npos);
  }

  TEST_CASE("a machine that nobody ships needs products and passes") {
    const Bench bench;
    const std::string all = bench.sample("s.jsonl", 0.03, 0.0, 1);
    std::string text = io::read_file(part(bench, all, [](std::size_t, const std::string& line) {
      return line.find("\"probe\":\"stream\"") != std::string::npos;
    }));
    text.replace(text.find("h100-sxm5-80gb"), 14, "unheard-of-one");
    const std::string unknown = bench.directory().write("unknown.jsonl", text);
    CHECK(bench.fit({unknown}).report.find("no sample of matrix products (gemm)") !=
          std::string::npos);
    CHECK(bench.fit({all, unknown}).report.find("mix machines") != std::string::npos);
  }
}

}  // namespace plansearch::calibrate::synthetic_fit_test
