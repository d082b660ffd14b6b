// SPDX-License-Identifier: Apache-2.0
// Expected values: the trace of all micro-batches, made without leaving any out.
#include "report/trace.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "answer/schedule_question.hpp"
#include "answer/write_page.hpp"
#include "io/document/file.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch::trace_test {
namespace {

ScheduleReport report_of(std::string_view name, int stages, int micro_batches, int chunks) {
  ScheduleQuestion question;
  question.name = name;
  question.stages = stages;
  question.micro_batches = micro_batches;
  question.chunks = chunks;
  question.times = "10,13,7";
  question.p2p = "3";
  return answer(question);
}

std::string text_of(const Trace& trace) {
  std::string text;
  trace.write([&](std::string_view piece) { text += piece; });
  return text;
}

TEST_SUITE("unit") {
  TEST_CASE("a trace shows many micro-batches as the whole program has them") {
    // Of this process: several may run at a time.
    const std::string name = "plansearch-trace-" + std::to_string(::getpid()) + ".json";
    const std::string file = std::filesystem::temp_directory_path() / name;
    for (const ScheduleId id : all_schedules()) {
      const int chunks = schedule_row(id).chunks.fewest;
      const int stages = fault_of({id, 4, 400, chunks}) ? 1 : 4;
      const ScheduleReport report = report_of(to_text(id), stages, 400, chunks);
      INFO(to_text(id));
      write_trace(report, {file});
      const SimulatedProgram whole = simulated_schedule(report);
      REQUIRE(io::read_file(file) == text_of(Trace(whole, report.times.ticks_per_unit)));
    }
    std::filesystem::remove(file);
  }

  TEST_CASE("a trace has no more micro-batches than its program repeats") {
    const ScheduleReport report = report_of("1f1b", 4, 64, 1);
    const SimulatedProgram program = simulated_schedule(report);
    Trace trace(program, 1.0);
    const std::int64_t events = trace.events();
    // More than are seen to repeat.
    CHECK_FALSE(trace.extend({100, 1, 64, 4}));
    CHECK(trace.events() == events);
    CHECK(trace.extend({100, 1, 8, 4}));
    // Six messages with two arrows each, eight pieces, as many waits as devices have gaps.
    CHECK(trace.events() >= events + 100 * (6 * 3 + 8));
  }

  TEST_CASE("a trace of more than a million events wants to be forced") {
    const ScheduleReport report = report_of("1f1b", 4, 100'000, 1);
    CHECK_THROWS_WITH_AS(write_trace(report, {"/nowhere/trace.json"}),
                         doctest::Contains("events, more than 1,000,000"), InputError);
    // Forced, it is the file that is wrong.
    CHECK_THROWS_WITH_AS(write_trace(report, {"/nowhere/trace.json", true}),
                         doctest::Contains("No such file"), InputError);
    // An order that has to be made whole is refused before it is.
    const ScheduleReport flow = report_of("gpipe", 4, 1'000'000, 1);
    CHECK_THROWS_WITH_AS(write_trace(flow, {"/nowhere/trace.json"}),
                         doctest::Contains("at least 8,000,000 events"), InputError);
  }
}

}  // namespace
}  // namespace plansearch::trace_test
