// SPDX-License-Identifier: Apache-2.0
#include "report/plan_timeline.hpp"
#include "report/text_table.hpp"
#include "report/trace.hpp"
#include "schedule/table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

namespace plansearch::plan_timeline_test {
namespace {

using nlohmann::json;

/// 1F1B on two stages, 10 B kept per micro-batch, then 6 s of reductions and 4 s of optimizer.
PricedProgram two_stages(int micro_batches, PipelineDurations times) {
  PricedProgram result;
  result.shape = {*find_schedule("1f1b"), 2, micro_batches};
  result.devices = {{0, 4, Bytes(100)}, {4, 4, Bytes(200)}};
  const auto order = std::get<ComputeOrder>(make_order(result.shape));
  const PipelineBytes bytes{{Bytes(10), Bytes(10)}, {}, {Bytes(1)}, {Bytes(1)}};
  const StepEnd end;
  const Ticks second = to_ticks(Seconds(1));
  for (auto* row :
       {&times.forward, &times.backward, &times.activation_transfer, &times.gradient_transfer}) {
    for (Ticks& time : *row) time *= second;
  }
  const std::vector<StepEndTicks> ends(2, {6 * second, 0, 4 * second});
  auto simulated = simulate_program(lower(order, {.bytes = &bytes, .end = &end}),
                                    duration_table(times.view(), order.weight_gradients, ends));
  static_cast<SimulatedProgram&>(result) = std::get<SimulatedProgram>(std::move(simulated));
  return result;
}
PricedProgram two_stages(int micro_batches, UniformTimes times) {
  const PipelineShape shape{*find_schedule("1f1b"), 2, micro_batches};
  return two_stages(micro_batches, uniform_durations(shape, times));
}

std::string times(char c, int count) {
  return std::string(static_cast<std::size_t>(count), c);
}

/// Slices of one track lie inside each other or apart.
bool nest(std::vector<std::pair<double, double>> slices) {
  std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first, -a.second) < std::tuple(b.first, -b.second);
  });
  std::vector<double> open;
  for (const auto& [start, end] : slices) {
    while (!open.empty() && open.back() <= start + 1e-9) open.pop_back();
    if (!open.empty() && end > open.back() + 1e-9) return false;
    open.push_back(end);
  }
  return true;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a pipeline is drawn in its own times") {
    // 1F1B of three micro-batches, F = 8 s, B = 14 s: (3 + 1) x 22 s, a column each.
    const PricedProgram program = two_stages(3, {8, 14, 0, 0});
    CHECK(pipeline_picture(program, 12, kAnyWidth) ==
          "1f1b pipeline, the plan's own times, 3 of 12 micro-batches, 2 of 2 stages, a column is "
          "1.00 s\n"
          "stage 0  | " +
              times('0', 8) + times('1', 8) + times('.', 14) + times('a', 14) + times('2', 8) +
              times('b', 14) + times('.', 8) + times('c', 14) + "\nstage 1  | " + times('.', 8) +
              times('0', 8) + times('a', 14) + times('1', 8) + times('b', 14) + times('2', 8) +
              times('c', 14) + times('.', 14) +
              "\n0-9: forward of a micro-batch; a-j: backward; .: waiting\n");
  }

  TEST_CASE("a longer second stage and a message show as waiting of the first") {
    // One micro-batch: F0 8 | 6 message, 8 F1, 52 B1, 6 back | B0 8.
    PipelineDurations durations{{8, 8}, {8, 52}, {}, {6}, {6}};
    const std::string text = pipeline_picture(two_stages(1, durations), 1, kAnyWidth);
    CHECK(text.find("stage 0  | " + times('0', 8) + times('.', 72) + times('a', 8) + "\n") !=
          std::string::npos);
    CHECK(text.find("stage 1  | " + times('.', 14) + times('0', 8) + times('a', 52) +
                    times('.', 14) + "\n") != std::string::npos);
  }

  // F 8, message 6, F 8, B 10, message 6, B 10, reductions 6, optimizer 4: 58 s in 58 columns.
  TEST_CASE("the timeline of a step shows messages, reductions, optimizers and memory") {
    const std::string text = plan_timeline(two_stages(1, {8, 10, 6, 0}), 58 + 11);
    CHECK(text.find("stage 0  | " + times('0', 8) + times('.', 30) + times('a', 10) +
                    times('~', 6) + times('^', 4) + "\n") != std::string::npos);
    CHECK(text.find("   sends | " + times('.', 8) + times('>', 6) + times('.', 44) + "\n") !=
          std::string::npos);
    CHECK(text.find("stage 1  | " + times('.', 14) + times('0', 8) + times('a', 10) +
                    times('~', 6) + times('.', 16) + times('^', 4) + "\n") != std::string::npos);
    CHECK(text.find("   sends | " + times('.', 32) + times('<', 6) + times('.', 20) + "\n") !=
          std::string::npos);
    CHECK(text.find("210 B") != std::string::npos);  // 200 always and 10 kept
  }

  TEST_CASE("a trace is JSON: slices nest, arrows are pairs, memory ends as it began") {
    const PricedProgram program = two_stages(5, {8, 14, 3, 0});
    std::string text;
    Trace(program).write([&](std::string_view piece) { text += piece; });
    const json trace = json::parse(text);
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
    std::map<int, int> arrows;
    std::map<int, double> memory;
    double work = 0.0;
    for (const json& event : trace.at("traceEvents")) {
      const std::string kind = event.at("ph");
      if (kind == "X") {
        const double start = event.at("ts");
        const double end = start + event.at("dur").get<double>();
        tracks[{event.at("pid"), event.at("tid")}].emplace_back(start, end);
        if (event.at("cat") == "work") work += end - start;
      }
      if (kind == "s") ++arrows[event.at("id")];
      if (kind == "f") --arrows[event.at("id")];
      if (kind == "C") memory[event.at("pid")] = event.at("args").at("bytes");
    }
    CHECK(tracks.size() == 4);  // computing and sending on two stages
    for (const auto& [track, slices] : tracks) CHECK(nest(slices));
    CHECK(arrows.size() == 10);  // five activations, five gradients
    for (const auto& [id, open] : arrows) CHECK(open == 0);
    CHECK(memory == std::map<int, double>{{0, 100.0}, {1, 200.0}});
    // Two stages of five micro-batches, reductions and optimizers, in microseconds.
    CHECK(work == doctest::Approx(1e6 * 2 * (5 * 22 + 6 + 4)));
  }
}

}  // namespace plansearch::plan_timeline_test
