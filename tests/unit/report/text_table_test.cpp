// SPDX-License-Identifier: Apache-2.0
#include "report/text_table.hpp"

#include <doctest/doctest.h>

namespace plansearch {
namespace {

TextTable plans() {
  TextTable table(
      {{"name", Align::Left}, {"step"}, {"rate", Align::Right, 1}, {"why", Align::Left, 2}});
  table.add_row({"first", "1 s", "10", "kernels"});
  table.add_row({"second", "12 s", "9", "bubble"});
  return table;
}

TEST_SUITE("unit") {
  TEST_CASE("tables: all columns where there is room, the least needed left out where not") {
    // 6 + 4 + 4 + 7 characters and three gaps of two: 27.
    const std::string whole =
        "name    step  rate  why\n"
        "------  ----  ----  -------\n"
        "first    1 s    10  kernels\n"
        "second  12 s     9  bubble\n";
    CHECK(plans().text() == whole);
    CHECK(plans().text(27) == whole);
    CHECK(plans().text(26) ==
          "name    step  rate\n"
          "------  ----  ----\n"
          "first    1 s    10\n"
          "second  12 s     9\n");
    CHECK(plans().shows("rate", 26));
    CHECK_FALSE(plans().shows("why", 26));
    // What is never left out may be too wide.
    CHECK(plans().text(5) ==
          "name    step\n"
          "------  ----\n"
          "first    1 s\n"
          "second  12 s\n");
  }

  TEST_CASE("tables: texts are broken at spaces where nothing more can be left out") {
    TextTable table({{"key"}, {"meaning", Align::Left}});
    table.add_row({"pp", "devices in a row that pass micro-batches on"});
    table.add_row({"tp", "slices"});
    // 3 + 2 + 43 characters; of 30 the text has 25, of 10 at least 16.
    CHECK(table.text(30) ==
          "key  meaning\n"
          "---  -------------------------\n"
          " pp  devices in a row that\n"
          "     pass micro-batches on\n"
          " tp  slices\n");
    CHECK(table.text(10) ==
          "key  meaning\n"
          "---  ----------------\n"
          " pp  devices in a row\n"
          "     that pass\n"
          "     micro-batches on\n"
          " tp  slices\n");
  }

  TEST_CASE("sentences are wrapped at spaces") {
    CHECK(wrapped("one two three\nfour\n", kAnyWidth) == "one two three\nfour\n");
    CHECK(wrapped("one two three\nfour\n", 13) == "one two three\nfour\n");
    CHECK(wrapped("one two three\nfour\n", 12) == "one two\n  three\nfour\n");
    CHECK(wrapped("incomprehensibly long\n", 6) == "incomprehensibly\n  long\n");
    CHECK(wrapped("a\n\nb  c\n", 40) == "a\n\nb  c\n");
  }
}

}  // namespace
}  // namespace plansearch
