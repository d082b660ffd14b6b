// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/run_prediction.hpp"

#include <doctest/doctest.h>

#include "plansearch/error.hpp"

namespace plansearch::schedule_words_test {
namespace {

ScheduleWords words() {
  const io::Document document = io::Document::parse(
      "orders:\n  1f1b: [one forward one backward]\n  interleaved: [interleaved 1f1b]\n"
      "remarks: [variable rounds]\n",
      "words.yaml", io::Syntax::Yaml);
  return read_schedule_words(document.root());
}

TEST_SUITE("unit") {
  TEST_CASE("what tables call an order is looked up without remarks") {
    const ScheduleWords known = words();
    CHECK(known.find("One forward one backward") == find_schedule("1f1b"));
    CHECK(known.find("1F1B [inferred]") == find_schedule("1f1b"));
    CHECK(known.find("interleaved 1F1B (Megatron-LM)") == find_schedule("interleaved"));
    CHECK(known.find("interleaved 1F1B, variable rounds") == find_schedule("interleaved"));
  }

  TEST_CASE("an order that is not known is none, never the usual one") {
    const ScheduleWords known = words();
    CHECK(!known.find("1F1B+vocab-parallel-1"));
    CHECK(!known.find("1F1B, uneven layers"));
    CHECK(!known.find("interlaced pipeline"));
    CHECK(!known.find(""));
  }

  TEST_CASE("a word for a schedule that does not exist is a mistake of the file") {
    const io::Document document =
        io::Document::parse("orders: {2f2b: [two]}\nremarks: []\n", "words.yaml", io::Syntax::Yaml);
    CHECK_THROWS_AS((void)read_schedule_words(document.root()), InputError);
  }
}

}  // namespace
}  // namespace plansearch::schedule_words_test
