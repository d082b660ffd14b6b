// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/session.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "io/document/file.hpp"
#include "plansearch/error.hpp"
#include "unit/io/temporary_directory.hpp"
#include "unit/measure/calibrate/fake_backend.hpp"

namespace plansearch::calibrate::session_test {
namespace {

SessionRequest request_to(const std::string& path) {
  SessionRequest request;
  request.out = path;
  request.quick = true;
  request.most_bytes = 1e9;
  request.date = "2026-01-02";
  return request;
}

void show_nothing(const SessionProgress& /*progress*/) {}

std::set<std::string> keys_in(const std::string& path) {
  std::set<std::string> keys;
  for (const io::Sample& sample : io::parse_samples(io::read_file(path), path).samples) {
    keys.insert(io::sample_key(sample.probe, sample.cells));
  }
  return keys;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a session goes on where the last one ended, and measures nothing twice") {
    const test::TemporaryDirectory directory;
    const std::string path = directory.path() / "s.jsonl";
    const auto time = [](int calls, double /*bytes*/) { return 1e-3 * calls; };
    SessionRequest request = request_to(path);
    request.budget_s = 1.0;
    test::FakeBackend backend(time);
    const SessionSummary first = run_session(backend, request, show_nothing);
    CHECK(first.measured > 2);
    CHECK(first.left > 2);
    CHECK(first.measured + first.left == first.points);
    request.budget_s.reset();
    const SessionSummary second = run_session(backend, request, show_nothing);
    CHECK(second.known == first.measured);
    CHECK(second.measured == first.left);
    const SessionSummary third = run_session(backend, request, show_nothing);
    CHECK(third.measured == 0);
    CHECK(third.known == third.points);

    const std::string whole = directory.path() / "whole.jsonl";
    test::FakeBackend another(time);
    static_cast<void>(run_session(another, request_to(whole), show_nothing));
    CHECK(keys_in(path) == keys_in(whole));
  }

  TEST_CASE("a device that breaks ends the session, which goes on behind the point that broke it") {
    const test::TemporaryDirectory directory;
    const std::string path = directory.path() / "s.jsonl";
    int trials = 0;
    test::FakeBackend* device = nullptr;
    test::FakeBackend backend([&](int calls, double /*bytes*/) {
      if (++trials == 40) device->fault = "illegal access";
      if (device->fault) throw Unmeasurable{"no answer"};
      return 1e-3 * calls;
    });
    device = &backend;
    const SessionSummary broken = run_session(backend, request_to(path), show_nothing);
    CHECK(broken.measured > 0);
    CHECK(broken.failed == 1);
    CHECK(broken.left > 0);
    CHECK(broken.measured + broken.failed + broken.left == broken.points);
    CHECK(broken.broken.find("illegal access") != std::string::npos);
    backend.fault.reset();
    const SessionSummary rest = run_session(backend, request_to(path), show_nothing);
    CHECK(rest.known == broken.measured + broken.failed);
    CHECK(rest.measured == broken.left);
    CHECK(rest.broken.empty());
  }

  TEST_CASE("a budget is used up and not exceeded") {
    const test::TemporaryDirectory directory;
    for (const double budget : {5.0, 10.0}) {
      SessionRequest request = request_to(directory.path() / fmt::format("{}.jsonl", budget));
      request.budget_s = budget;
      request.quick = false;
      // A third of the rate that the back end claims.
      test::FakeBackend backend(
          [](int calls, double bytes) { return calls * (1e-3 + bytes / 0.3e9); });
      const SessionSummary summary = run_session(backend, request, show_nothing);
      CHECK(summary.left > 0);
      CHECK(backend.now() <= budget * 1.1);
      CHECK(backend.now() >= budget * 0.9);
    }
  }

  TEST_CASE("points that fail are recorded with the reason and the others are kept") {
    const test::TemporaryDirectory directory;
    int run = 0;
    test::FakeBackend backend(
        [&](int calls, double /*bytes*/) { return ++run > 40 ? -1.0 : 1e-3 * calls; });
    const SessionSummary summary =
        run_session(backend, request_to(directory.path() / "s.jsonl"), show_nothing);
    CHECK(summary.failed > 0);
    CHECK(summary.measured > 0);
    CHECK(summary.failed + summary.measured == summary.points);
  }

  TEST_CASE("probes that the back end lacks are skipped by name, unknown ones refused") {
    const test::TemporaryDirectory directory;
    test::FakeBackend backend([](int calls, double /*bytes*/) { return 1e-3 * calls; });
    SessionRequest request = request_to(directory.path() / "s.jsonl");
    const SessionPlan plan = plan_session(backend, request);
    REQUIRE(plan.skipped.size() == probes().size() - 1);
    CHECK(plan.skipped.front().probe == "gemm");
    CHECK(plan.skipped.front().skipped == "not here");
    request.only = {"streams"};
    CHECK_THROWS_AS(static_cast<void>(plan_session(backend, request)), InputError);
  }
}

}  // namespace plansearch::calibrate::session_test
