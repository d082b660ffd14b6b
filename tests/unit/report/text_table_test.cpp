// SPDX-License-Identifier: Apache-2.0
#include "report/text_table.hpp"

#include <doctest/doctest.h>

namespace plansearch::text_table_test {
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

  TEST_CASE("tables and sentences as Markdown, once or in parts") {
    TextTable table({{"plan", Align::Left}, {"a|b"}, {"none"}});
    table.add_row({"dp*4", "1", "-"});
    const std::string cells = "| plan | a\\|b |\n|:---|---:|\n| dp\\*4 | 1 |\n";
    CHECK(table.text(kMarkdown) == cells);
    const std::string part = wrapped("one _line_\n" + cells + "~: a tie\n", kMarkdown);
    CHECK(part == "one \\_line\\_\n\n" + cells + "\n\\~: a tie\n");
    CHECK(wrapped(part, kMarkdown) == part);
    const std::string picture = verbatim("stage 0 | <01>\n", kMarkdown);
    CHECK(picture == "```\nstage 0 | <01>\n```\n");
    CHECK(wrapped("see\n" + picture, kMarkdown) == "see\n\n" + picture);
    CHECK(verbatim("stage 0\n", 80) == "stage 0\n");
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

  TEST_CASE("tables: a column of quantities has one unit, of its largest") {
    TextTable table({{"time"}, {"memory"}, {"range"}, {"change"}});
    Cell less(Seconds(0.5));
    less.lead = "-";
    table.add_row({Seconds(0.0121), Bytes(0x1p30), range_cell(Seconds(0.01), Seconds(0.02)), less});
    table.add_row({Seconds(2.5), Bytes(0x1p29), range_cell(Seconds(2.0), Seconds(3.0)), "0"});
    CHECK(table.text() ==
          "    time    memory          range   change\n"
          "--------  --------  -------------  -------\n"
          "0.0121 s  1.00 GiB  0.01 - 0.02 s  -500 ms\n"
          "  2.50 s   0.5 GiB  2.00 - 3.00 s        0\n");
  }

  TEST_CASE("tables: values a million times apart have units of their own") {
    TextTable table({{"each"}});
    table.add_row({Seconds(531e-9)});
    table.add_row({Seconds(2.5)});
    const std::string text = table.text();
    CHECK(text.find("531 ns") != std::string::npos);
    CHECK(text.find("2.50 s") != std::string::npos);
  }

  TEST_CASE("tables: hours from one hour on, days from two, years from a thousand days") {
    const auto column = [](double first, double second) {
      const Cell a{Seconds(first)};
      const Cell b{Seconds(second)};
      return spelled({&a, &b});
    };
    constexpr double kDay = 86400.0;
    using Texts = std::vector<std::string>;
    CHECK(column(3599.0, 1000.0) == Texts{"3,599 s", "1,000 s"});
    CHECK(column(6291.0, 7704.0) == Texts{"1.75 h", "2.14 h"});
    CHECK(column(6291.0, 24.0) == Texts{"6,291 s", "24.0 s"});
    CHECK(column(2 * kDay, 12 * 3600.0) == Texts{"2.00 days", "0.5 days"});
    // 7,930 / 365.25 = 21.71
    CHECK(column(7930 * kDay, 820 * kDay) == Texts{"7,930 days (21.7 years)", "820 days"});
    CHECK(column(1e-9, 1.0) == Texts{"1.00 ns", "1.00 s"});
    CHECK(column(1e-6, 1.0) == Texts{"<0.0001 s", "1.00 s"});
  }

  TEST_CASE("tables: columns without a word are left out, but the first") {
    TextTable table({{"key"}, {"price"}, {"note", Align::Left}, {"step"}});
    table.add_row({"", "-", "", "1 s"});
    table.add_row({"", "-", "-", "2 s"});
    CHECK(table.text() ==
          "key  step\n"
          "---  ----\n"
          "      1 s\n"
          "      2 s\n");
    CHECK_FALSE(table.shows("price", kAnyWidth));
  }

  TEST_CASE("tables: columns that have no room are set below, behind the first once more") {
    TextTable table({{"name", Align::Left}, {"computation"}, {"communication"}, {"waiting"}});
    table.add_row({"a", "1 s", "2 s", "3 s"});
    CHECK(table.text(34) ==
          "name  computation  communication\n"
          "----  -----------  -------------\n"
          "a             1 s            2 s\n"
          "\n"
          "name  waiting\n"
          "----  -------\n"
          "a         3 s\n");
  }

  TEST_CASE("tables: long names are broken behind their signs") {
    TextTable table({{"field", Align::Left}, {"value"}});
    table.add_row({"kernels.matmul.bf16.flop_efficiency", "0.84"});
    CHECK(table.text(40) ==
          "field                              value\n"
          "---------------------------------  -----\n"
          "kernels.matmul.bf16.flop_           0.84\n"
          "efficiency\n");
  }

  TEST_CASE("sentences hang below the meaning of a word") {
    CHECK(wrapped("  tau  rank correlation of all\n", 20) ==
          "  tau  rank\n"
          "       correlation\n"
          "       of all\n");
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
}  // namespace plansearch::text_table_test
