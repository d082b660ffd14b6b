// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/run_record.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "plansearch/error.hpp"
#include "run_tables.hpp"

namespace plansearch::run_record_test {
namespace {

std::string message_of(const std::string& text) {
  try {
    (void)read_runs(io::CsvTable::parse(text, "runs.csv"));
  } catch (const InputErrors& errors) {
    std::string messages;
    for (const InputError& error : errors.all()) messages += error.formatted() + "\n";
    return messages;
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "nothing wrong";
}

std::string message_of_cell(const std::string& column, const std::string& value) {
  return message_of(test::header_line() + test::row_line() + test::row_line({{column, value}}));
}

/// Column (from 1) in which the cell starts on its line.
int start_of(const std::string& column) {
  int at = 1;
  for (const auto& [name, value] : test::good_row()) {
    if (name == column) return at;
    at += static_cast<int>(value.size()) + 1;
  }
  return 0;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("two rows of one name are refused with both lines") {
    try {
      static_cast<void>(test::runs_of({{}, {{"id", "b"}}, {}}));
      FAIL("accepted");
    } catch (const InputError& error) {
      CHECK(error.formatted().find("runs.csv:4") != std::string::npos);
      CHECK(error.formatted().find("line 2 has the id \"a\" too") != std::string::npos);
    }
  }

  TEST_CASE("a row without sizes is the network of its label, in a table that has sizes too") {
    const auto found = [](std::string_view name) {
      if (name != "llama2-7b") throw InputError({}, "no such model", "");
      return test::shipped_model(name);
    };
    test::Cells cells{{"id", "b"}, {"model", "llama2-7b"}};
    for (const char* column : {"mlp", "layers", "hidden", "ffn_hidden", "heads"})
      cells[column] = "";
    const auto read = [&](const test::Cells& changed) {
      const auto text = test::header_line() + test::row_line() + test::row_line(changed);
      return read_runs(io::CsvTable::parse(text, "runs.csv"), found);
    };
    CHECK(read(cells).at(0).shipped == nullptr);
    CHECK(read(cells).at(1).shipped->name == "llama2-7b");
    CHECK(read(cells).at(1).unknown.empty());
    cells["model"] = "nobody's";
    CHECK(read(cells).at(1).unknown.size() == 4);
  }

  TEST_CASE("empty cells are unknown") {
    const RunRecord run = test::run_of({{"peak_mem_gib", ""}, {"mem_kind", ""}, {"zero", ""}});
    CHECK(run.id == "a");
    CHECK(run.line == 2);
    CHECK(run.gpus == 16);
    CHECK(run.step_time == Seconds(0.5));
    CHECK_FALSE(run.ffn);
    CHECK_FALSE(run.vocab);
    CHECK_FALSE(run.peak_memory);
    CHECK_FALSE(run.degrees.has(Degree::Zero));
    CHECK(run.outcome == Outcome::Measured);
    CHECK(run.cell("source") == "test");
    CHECK(run.cell("no such column").empty());
  }

  TEST_CASE("empty cells without which nothing can be predicted are noted") {
    CHECK(test::run_of().unknown.empty());
    const RunRecord run = test::run_of({{"gpus", ""}, {"framework", ""}, {"precision", ""}});
    CHECK(run.unknown == std::vector<std::string>{"framework", "gpus"});
  }

  TEST_CASE("memory is read in bytes, outcomes by name") {
    CHECK(test::run_of().peak_memory == Bytes(12.0 * 1073741824));
    CHECK(test::run_of().memory_kind == MemoryKind::Allocated);
    CHECK(test::run_of({{"mem_kind", "nvidia-smi"}}).memory_kind == MemoryKind::NvidiaSmi);
    CHECK(test::run_of({{"oom", "1"}}).outcome == Outcome::OutOfMemory);
    CHECK(test::run_of({{"oom", "failed"}, {"step_time_s", ""}}).outcome == Outcome::Failed);
  }

  TEST_CASE("malformed cells are named with file, line and column") {
    const auto starts_with = [&](const std::string& column, const std::string& value,
                                 const std::string& text) {
      CAPTURE(column);
      const std::string expected =
          "runs.csv:3:" + std::to_string(start_of(column)) + ": error: " + text;
      CHECK(message_of_cell(column, value).substr(0, expected.size()) == expected);
    };
    starts_with("step_time_s", "-0.5", "-0.5 in column step_time_s is not above 0");
    starts_with("step_time_s", "fast", "\"fast\" in column step_time_s is not a number");
    starts_with("step_time_s", "0", "0 in column step_time_s");
    starts_with("step_time_s", "nan", "\"nan\" in column step_time_s is not a number");
    starts_with("hidden", "2048.5", "\"2048.5\" in column hidden is not a whole number");
    starts_with("gpus", "0", "0 in column gpus is below 1");
    starts_with("layers", "1e15", "1000000000000000 in column layers is too large");
    starts_with("layers", "10001",
                "10001 in column layers is too large");  // each is a block in memory
    starts_with("sp", "2", "2 in column sp is not from 0 to 1");
    starts_with("zero", "4", "4 in column zero is not from 0 to 3");
    starts_with("mem_kind", "rss", "\"rss\" in column mem_kind");
    starts_with("oom", "maybe", "\"maybe\" in column oom");
  }

  TEST_CASE("a missing column is named") {
    std::string text = test::header_line();
    text.replace(text.find("hidden"), 6, "hiden_");
    CHECK(message_of(text).starts_with("runs.csv:1:1: error: the table has no column \"hidden\""));
  }

  TEST_CASE("all that is wrong is in one message") {
    const std::string two = message_of(test::header_line() + test::row_line({{"hidden", "wide"}}) +
                                       test::row_line({{"zero", "4"}, {"oom", "maybe"}}));
    CHECK(two.starts_with("runs.csv:2:"));
    CHECK(two.find("\"wide\" in column hidden") != std::string::npos);
    CHECK(two.find("\nruns.csv:3:") != std::string::npos);
    CHECK(two.find("4 in column zero is not from 0 to 3") != std::string::npos);
    CHECK(two.find("\"maybe\" in column oom") != std::string::npos);
    const std::string columns = message_of("hw,model\nselene,gpt2\n");
    CHECK(columns.find("no columns \"gpus\", \"global_batch\", \"step_time_s\"") !=
          std::string::npos);
    CHECK(columns.find("hint: needed are hw, gpus, model") != std::string::npos);
  }

  TEST_CASE("the name of a shipped model stands for its sizes") {
    const auto read = [](const std::string& model) {
      return read_runs(
          io::CsvTable::parse(
              "hw,gpus,model,batch,micro_batch,tp,step_time_s\nselene,8," + model + ",64,2,1,1.5\n",
              "runs.csv"),
          [](std::string_view name) {
            if (name == "gpt2-xl") return test::shipped_model(name);
            throw InputError({}, "unknown model", "did you mean gpt2-xl?");
          });
    };
    const RunRecord run = read("gpt2-xl").front();
    CHECK(run.unknown.empty());
    CHECK(run.id == "line 2");
    CHECK(run.framework == "megatron");
    CHECK(run.framework_assumed);
    CHECK(run.global_batch == 64);
    CHECK(run.layers == 48);
    CHECK(run.heads == 25);
    CHECK(run.seq_len == 1024);
    REQUIRE(run.shipped);
    CHECK(run.shipped->hidden == 1600);
    CHECK_THROWS_AS((void)read("my-network"), InputError);
    CHECK(unread_columns(io::CsvTable::parse("hw,gpus,model,batch,wall_clock\n", "r.csv")) ==
          std::vector<std::string>{"wall_clock"});
  }

  TEST_CASE("a row of another length is named") {
    CHECK(message_of(test::header_line() + "a,b\n").starts_with("runs.csv:2:1: error: 2 cells"));
  }
}

}  // namespace plansearch::run_record_test
