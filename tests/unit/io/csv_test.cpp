// SPDX-License-Identifier: Apache-2.0
#include "io/tables/csv.hpp"

#include <doctest/doctest.h>

#include <functional>

namespace plansearch::io::csv_test {
namespace {

CsvTable table(std::string_view text) {
  return CsvTable::parse(text, "t.csv");
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "no error";
}

std::string error_of(std::string_view text) {
  return error_of([&] { static_cast<void>(table(text)); });
}

TEST_SUITE("unit") {
  TEST_CASE("tables: quotes hold commas, line ends and quotes") {
    const CsvTable t =
        table("\xEF\xBB\xBFname,note\r\na,\"x, y\"\r\n\"b\nc\",\"say \"\"hi\"\"\"\n");
    CHECK(t.header() == std::vector<std::string>{"name", "note"});
    REQUIRE(t.rows().size() == 2);
    CHECK(t.text(t.rows()[0], "note") == "x, y");
    CHECK(t.text(t.rows()[1], "name") == "b\nc");
    CHECK(t.text(t.rows()[1], "note") == "say \"hi\"");
    CHECK(t.rows()[1].line == 3);
  }

  TEST_CASE("tables: blank lines are skipped, a last line may lack its end") {
    const CsvTable t = table("a,b\n\n1,2\n\r\n3,4");
    REQUIRE(t.rows().size() == 2);
    CHECK(t.number(t.rows()[1], "b", 0.0) == 4.0);
    CHECK(t.rows()[1].line == 5);
  }

  TEST_CASE("tables: what is not a table is refused with its place") {
    CHECK(error_of("") == "t.csv:1:1: error: the table is empty\nhint: start with a header line");
    CHECK(error_of("a,b,a\n") == "t.csv:1:5: error: column \"a\" appears twice");
    CHECK(error_of("a,b\n1\n").starts_with("t.csv:2:1: error: 1 cells where the header has 2"));
    CHECK(error_of("a,b\n1,2,3\n").starts_with("t.csv:2:1: error: 3 cells"));
    CHECK(error_of("a,b\n1,\"2\n").starts_with("t.csv:2:3: error: this quote never closes"));
    CHECK(error_of("a,b\n1,\"2\"3\n").starts_with("t.csv:2:6: error: text after a closing quote"));
    CHECK(error_of("a\n\"2\"x\n").starts_with("t.csv:2:4: error: text after a closing quote"));
    CHECK(error_of("a\n\"2\" ,\n").starts_with("t.csv:2:4: error: text after a closing quote"));
  }

  TEST_CASE("tables: an empty cell is unknown, not zero") {
    const CsvTable t = table("x,n\n,\n0,0\n-1,7\n");
    CHECK_FALSE(t.number(t.rows()[0], "x", 0.0).has_value());
    CHECK_FALSE(t.integer(t.rows()[0], "n", 0).has_value());
    CHECK(t.number(t.rows()[1], "x", 0.0) == 0.0);
    CHECK(error_of([&] {
            static_cast<void>(t.number(t.rows()[2], "x", 0.0));
          }).starts_with("t.csv:4:1: error:"));
    CHECK(t.integer(t.rows()[2], "n", 1) == 7);
  }

  TEST_CASE("tables: a number is a whole cell and finite") {
    for (const char* cell : {"1x", "x", "nan", "inf", "1e999", "1 2", "0x10", "--1"}) {
      const CsvTable t = table(std::string("v\n") + cell + "\n");
      CAPTURE(cell);
      CHECK(error_of([&] {
              static_cast<void>(t.number(t.rows()[0], "v", -1e300));
            }).starts_with("t.csv:2:1: error:"));
      CHECK(error_of([&] {
              static_cast<void>(t.integer(t.rows()[0], "v", -100));
            }).starts_with("t.csv:2:1: error:"));
    }
    const CsvTable t = table("v\n1.5\n99999999999999999999\n");
    CHECK(error_of([&] { static_cast<void>(t.integer(t.rows()[0], "v", 0)); }) != "no error");
    CHECK(error_of([&] { static_cast<void>(t.integer(t.rows()[1], "v", 0)); }) != "no error");
  }

  TEST_CASE("tables: control characters are no text") {
    CHECK(error_of("v\na\x1b[31m\n").starts_with("t.csv:2:2: error: byte 0x1b"));
    CHECK(error_of("v\na\tb\r\n") == "no error");
    CHECK(error_of(std::string_view("v\na\0b\n", 6)).starts_with("t.csv:2:2: error:"));
    CHECK(error_of(std::string_view("v\n\"a\0\"\n", 7)).starts_with("t.csv:2:3: error:"));
  }

  TEST_CASE("tables: a wide header is read in time that grows with its length") {
    // Each name against each other one are 2 x 10^10 comparisons: minutes.
    std::string header = "c0";
    for (int i = 1; i < 200'000; ++i) header += ",c" + std::to_string(i);
    CHECK(table(header + "\n").header().size() == 200'000);
    CHECK(error_of(header + ",c7\n").find("\"c7\" appears twice") != std::string::npos);
  }

  TEST_CASE("tables: a column that is not there is named, with the nearest one") {
    const CsvTable t = table("step_time,gpus\n1,2\n");
    CHECK(t.has("gpus"));
    CHECK_FALSE(t.has("gpu"));
    const std::string error = error_of([&] { t.require("gpu"); });
    CHECK(error.starts_with("t.csv:1:1: error:"));
    CHECK(error.find("gpus") != std::string::npos);
  }
}

}  // namespace
}  // namespace plansearch::io::csv_test
