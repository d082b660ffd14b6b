// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/session.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "io/document/file.hpp"
#include "plansearch/error.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::calibrate::sample_writer_test {
namespace {

const io::SampledMachine kMachine{
    .backend = "fake", .name = "fake one", .multiprocessors = 3, .facts = {{"threads", "3"}}};

io::Sample sample(const std::string& bytes, double time) {
  return {.probe = "stream",
          .cells = {{"pass", "copy"}, {"bytes", bytes}},
          .time_us = time,
          .blocks_us = {time, time},
          .flags = {"unstable"}};
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(io::parse_samples(text, "s.jsonl"));
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("what is written is read again") {
    const test::TemporaryDirectory directory;
    const std::string path = directory.path() / "s.jsonl";
    {
      SampleWriter writer(path, kMachine, "2026-01-02");
      writer.add(sample("1024", 12.5));
      writer.add({.probe = "gemm", .cells = {{"m", "64"}}, .failed = "no time"});
      writer.add({.probe = "host_copy", .skipped = "not here"});
    }
    const auto file = io::parse_samples(io::read_file(path), path);
    CHECK(file.machine.name == "fake one");
    CHECK(file.machine.multiprocessors == 3);
    CHECK(file.machine.facts.at("threads") == "3");
    REQUIRE(file.samples.size() == 3);
    CHECK(*file.samples[0].time_us == 12.5);
    CHECK(file.samples[0].cells.at("bytes") == "1024");
    CHECK(file.samples[0].flags == std::vector<std::string>{"unstable"});
    CHECK(file.samples[1].failed == "no time");
    CHECK(file.samples[2].skipped == "not here");
  }

  TEST_CASE("the half line of a killed run is cut off, at whatever byte it ends") {
    const test::TemporaryDirectory directory;
    const std::string path = directory.path() / "s.jsonl";
    const std::string head = io::machine_line(kMachine, "2026-01-02");
    const std::string first = io::sample_line(sample("1024", 1.0));
    const std::string second = io::sample_line(sample("2048", 2.0));
    const std::string whole = head + first + second;
    for (std::size_t size = 0; size <= whole.size(); ++size) {
      CAPTURE(size);
      directory.write("s.jsonl", whole.substr(0, size));
      {
        SampleWriter writer(path, kMachine, "2026-01-02");
        const std::size_t known = size < head.size() + first.size() ? 0
                                  : size < whole.size()             ? 1
                                                                    : 2;
        CHECK(writer.before().size() == known);
        if (known < 1) writer.add(sample("1024", 1.0));
        if (known < 2) writer.add(sample("2048", 2.0));
      }
      CHECK(io::read_file(path) == whole);
    }
  }

  TEST_CASE("files of another machine, of something else and in use are left alone") {
    const test::TemporaryDirectory directory;
    const std::string path = directory.path() / "s.jsonl";
    SampleWriter writer(path, kMachine, "2026-01-02");
    CHECK_THROWS_WITH_AS(SampleWriter(path, kMachine, ""),
                         doctest::Contains("another run writes the file"), InputError);
    io::SampledMachine other = kMachine;
    other.name = "other one";
    CHECK_THROWS_WITH_AS(SampleWriter(path, other, ""), doctest::Contains("fake one"), InputError);
    const std::string text = directory.write("notes.txt", "my notes\nof today\n");
    CHECK_THROWS_AS(SampleWriter(text, kMachine, ""), InputError);
    CHECK(io::read_file(text) == "my notes\nof today\n");
    const std::string line = directory.write("line.txt", "my notes");
    CHECK_THROWS_AS(SampleWriter(line, kMachine, ""), InputError);
    CHECK(io::read_file(line) == "my notes");
    CHECK_THROWS_AS(SampleWriter(directory.path() / "none" / "s.jsonl", kMachine, ""), InputError);
  }

  TEST_CASE("lines that are wrong are named") {
    const std::string head = io::machine_line(kMachine, "2026-01-02");
    CHECK(error_of(head + "{\"probe\": \"stream\", \"time_us\": -3}\n").find("time_us") !=
          std::string::npos);
    CHECK(error_of(head + "{\"probe\": \"stream\", \"time_ms\": 3}\n").find("time_ms") !=
          std::string::npos);
    CHECK(error_of(head + "{\"probe\": \"stream\"}\n").find("neither time_us nor a reason") !=
          std::string::npos);
    CHECK(error_of(head + "{\"time_us\": 3}\n").find("'probe' is missing") != std::string::npos);
    CHECK(error_of(head + "{\"probe\": \"gemm\", \"m\": 1.5, \"time_us\": 3}\n")
              .find("not a whole number") != std::string::npos);
    CHECK(error_of(head + "nonsense\n").find("not valid JSON") != std::string::npos);
  }
}

}  // namespace plansearch::calibrate::sample_writer_test
