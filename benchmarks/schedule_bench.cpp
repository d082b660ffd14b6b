// SPDX-License-Identifier: Apache-2.0
// Time of one simulated evaluation, one estimate and one bound; a report, not a test.
//   schedule_bench
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <new>
#include <string_view>

#include "schedule/program/lowering.hpp"
#include "schedule/simulation/closed_form.hpp"
#include "schedule/simulation/simulator.hpp"

namespace {
long allocations = 0;
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace {

using namespace plansearch;

struct Measured {
  double microseconds = 0.0;
  double allocations = 0.0;
};

/// Best of several batches, each of about ten milliseconds.
template <typename Work>
Measured measure(Work&& work) {
  using Clock = std::chrono::steady_clock;
  work();
  Measured best{1e300, 0.0};
  for (int batch = 0; batch < 7; ++batch) {
    const long before = allocations;
    const auto start = Clock::now();
    std::chrono::duration<double, std::micro> spent{};
    int runs = 0;
    while (spent.count() < 10'000.0) {
      for (int i = 0; i < 10; ++i) work();
      runs += 10;
      spent = Clock::now() - start;
    }
    best.microseconds = std::min(best.microseconds, spent.count() / runs);
    best.allocations = static_cast<double>(allocations - before) / runs;
  }
  return best;
}

void line(std::string_view what, const PipelineShape& shape, std::string_view stages,
          const Measured& time) {
  fmt::print("{:<12} p {:>3}  m {:>5}  v {}  {:<7} {:>10.2f} us {:>6.1f} allocations\n", what,
             shape.stages, shape.micro_batches, shape.chunks, stages, time.microseconds,
             time.allocations);
}

/// A millisecond forward, two backward, 50 us transfers; `spread` percent of difference.
PipelineDurations durations(const PipelineShape& shape, unsigned spread) {
  auto times = uniform_durations(shape, {1'000'000'000, 2'000'000'000, 50'000'000});
  unsigned state = 12345;
  for (auto* row : {&times.forward, &times.backward}) {
    for (Ticks& time : *row) {
      state = state * 1664525U + 1013904223U;
      time += time / 1000 * (state >> 16) % (10 * spread + 1);
    }
  }
  return times;
}

void report(const PipelineShape& shape, unsigned spread) {
  const auto times = durations(shape, spread);
  const auto view = times.view();
  const std::string_view stages = spread == 0 ? "equal" : "uneven";
  PipelineSimulator simulator;
  Ticks sum = 0;
  line("simulate", shape, stages, measure([&] { sum += simulator.run(shape, view).makespan; }));
  line("no skipping", shape, stages,
       measure([&] { sum += simulator.run(shape, view, SteadyState::SimulateAll).makespan; }));
  line("estimate", shape, stages, measure([&] { sum += estimate_makespan(shape, view); }));
  line("bound", shape, stages, measure([&] { sum += order_bound(shape, view); }));
  if (sum == 0) fmt::print("\n");
}

void report_task_graph(const PipelineShape& shape) {
  const auto order = std::get<ComputeOrder>(make_order(shape));
  const auto graph = std::get<TaskGraph>(build_task_graph(lower(order)));
  const auto table = duration_table(durations(shape, 5).view(), order.weight_gradients);
  TaskSimulator simulator;
  line("task graph", shape, "uneven", measure([&] { simulator.run(graph, table); }));
}

}  // namespace

int main() {
  for (const int micro_batches : {64, 512, 4096}) {
    for (const unsigned spread : {0U, 5U}) {
      report({*find_schedule("gpipe"), 16, micro_batches}, spread);
      report({kDefaultSchedule, 16, micro_batches}, spread);
      report({*find_schedule("interleaved"), 16, micro_batches, 4}, spread);
    }
  }
  report_task_graph({kDefaultSchedule, 16, 64});
  report_task_graph({kDefaultSchedule, 64, 512});
}
