// SPDX-License-Identifier: Apache-2.0
// The numbers that pictures of an answer are drawn from.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "report/page/page.hpp"

namespace plansearch::page::plots_test {
namespace {

Figure drawn(std::string_view name, const PageContent& content) {
  const auto rows = plots();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const PlotRow& r) { return r.name == name; });
  REQUIRE(row != rows.end());
  return row->draw(content);
}

bool holds(const Figure& figure, const std::string& text) {
  return figure.content.find(text) != std::string::npos;
}

PlanReport plan(int rank, double seconds, double gib) {
  PlanReport report;
  report.rank = rank;
  report.estimate.step.compute = Seconds(seconds);
  report.estimate.memory.parameters = Bytes(gib * 1024 * 1024 * 1024);
  return report;
}

LadderRung rung(int gpus, double speedup) {
  LadderRung rung;
  rung.report.question.gpus = gpus;
  rung.report.plans.push_back(plan(1, 1.0 / speedup, 10));
  rung.speedup = speedup;
  return rung;
}

}  // namespace

TEST_CASE("plots: bars are of plans, not of their variants") {
  SearchReport report;
  report.plans = {plan(1, 1.0, 10), plan(2, 2.0, 20), plan(3, 3.0, 30)};
  report.plans[1].variant_of = 1;
  PageContent content;
  content.report = &report;
  for (const char* name : {"step", "memory"}) {
    const Figure figure = drawn(name, content);
    CHECK(holds(figure, "plan 1"));
    CHECK_FALSE(holds(figure, "plan 2"));
    CHECK(holds(figure, "plan 3"));
  }
  CHECK(holds(drawn("step", content), "compute: 3.00 s"));
}

TEST_CASE("plots: the front goes from little memory to much") {
  SearchReport report;
  report.front = {plan(1, 1.0, 40), plan(2, 2.0, 20), plan(3, 4.0, 10)};
  PageContent content;
  content.report = &report;
  const std::string text = drawn("pareto", content).content;
  const std::size_t slow = text.find("4.00 s, 10.0 GiB");
  const std::size_t middle = text.find("2.00 s, 20.0 GiB");
  const std::size_t fast = text.find("1.00 s, 40.0 GiB");
  REQUIRE(fast != std::string::npos);
  CHECK(slow < middle);
  CHECK(middle < fast);
}

TEST_CASE(
    "plots: the ladder sets speed-ups beside the growth in GPUs from the smallest that runs") {
  LadderReport ladder;
  LadderRung none;
  none.report.question.gpus = 32;  // too few
  ladder.rungs.push_back(none);
  ladder.rungs.push_back(rung(64, 1.0));
  ladder.rungs.push_back(rung(128, 2.0));
  ladder.rungs.push_back(rung(256, 4.0));
  PageContent content;
  content.report = &ladder.rungs[1].report;
  content.ladder = &ladder;
  const Figure figure = drawn("ladder", content);
  CHECK(holds(figure, "64 GPUs: 1.00 x"));
  CHECK_FALSE(holds(figure, "32 GPUs"));
  // Doubling with every doubling is ideal: both lines have the same points.
  const std::size_t first = figure.content.find("points=\"");
  REQUIRE(first != std::string::npos);
  const auto points = [&](std::size_t at) {
    return figure.content.substr(at, figure.content.find('"', at + 8) - at);
  };
  const std::size_t second = figure.content.find("points=\"", first + 1);
  REQUIRE(second != std::string::npos);
  CHECK(points(first) == points(second));
}

}  // namespace plansearch::page::plots_test
