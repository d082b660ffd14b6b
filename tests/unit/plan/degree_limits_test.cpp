// SPDX-License-Identifier: Apache-2.0
#include "plansearch/degree_table.hpp"

#include <doctest/doctest.h>

#include "plansearch/error.hpp"

namespace plansearch::degree_limits_test {
namespace {

struct Read {
  PinnedDegrees pinned;
  DegreeLimits limits;
};

Read read(const char* text, Degree degree) {
  Read result;
  read_degree("--flag", text, degree, result.pinned, result.limits);
  return result;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("limits: one value pins, several are a list, numbers have ranges") {
    const Read one = read("8", Degree::Pipeline);
    CHECK(one.pinned.get(Degree::Pipeline) == 8);
    CHECK(one.limits.empty());
    const Read list = read("4,1,4,2", Degree::Pipeline);
    CHECK(list.pinned.empty());
    CHECK(list.limits.listed(Degree::Pipeline) == std::vector<int>{1, 2, 4});
    CHECK(list.limits.admits(Degree::Pipeline, 2));
    CHECK_FALSE(list.limits.admits(Degree::Pipeline, 3));
    CHECK(list.limits.admits(Degree::Data, 3));
    CHECK(list.limits.text(Degree::Pipeline) == "1,2,4");
    const Read range = read("2..8", Degree::Pipeline);
    CHECK(range.limits.listed(Degree::Pipeline).empty());
    for (int value = 1; value <= 9; ++value) {
      CHECK(range.limits.admits(Degree::Pipeline, value) == (value >= 2 && value <= 8));
    }
    CHECK(to_text(range.limits) == "pp 2..8");
    const Read words = read("full,none", Degree::Recompute);
    CHECK(words.limits.text(Degree::Recompute) == "none,full");
    CHECK(read("0,1", Degree::SequenceParallel).limits.has(Degree::SequenceParallel));
  }

  TEST_CASE("limits: bounds tighten, and are released") {
    DegreeLimits limits;
    limits.at_most(Degree::TensorOut, 8);
    limits.at_most(Degree::TensorOut, 16);
    CHECK(limits.text(Degree::TensorOut) == "at most 8");
    CHECK(to_text(limits) == "tp at most 8");
    limits.at_least(Degree::TensorOut, 2);
    limits.at_least(Degree::TensorOut, 1);
    CHECK(limits.text(Degree::TensorOut) == "2..8");
    limits.release(Degree::TensorOut);
    CHECK(limits.empty());
  }

  TEST_CASE("limits: what is no value names the flag, the text and the legal values") {
    for (const char* text : {"", "1,,2", "0", "1,x", "2..", "..4", "8..2", "2..x", "1;2"}) {
      CAPTURE(text);
      CHECK_THROWS_AS((void)read(text, Degree::Pipeline), InputError);
    }
    CHECK_THROWS_WITH((void)read("0", Degree::Pipeline), "--flag 0: must be at least 1");
    CHECK_THROWS_WITH((void)read("8..2", Degree::Pipeline), "--flag 8..2: the range is empty");
    try {
      (void)read("ful", Degree::Recompute);
      FAIL("accepted");
    } catch (const InputError& error) {
      CHECK(error.hint() == "did you mean full?");
    }
    CHECK_THROWS_AS((void)read("none..full", Degree::Recompute), InputError);
  }
}

}  // namespace plansearch::degree_limits_test
