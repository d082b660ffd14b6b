// SPDX-License-Identifier: Apache-2.0
#include "question/gpu_count.hpp"

#include <doctest/doctest.h>

namespace plansearch::number_list_test {
namespace {

using Numbers = std::vector<std::int64_t>;

std::string problem_with(const char* text) {
  const auto read = read_numbers(text);
  const auto* problem = std::get_if<std::string>(&read);
  return problem == nullptr ? std::string() : *problem;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("numbers: one, a list in order, the powers of two of a range") {
    CHECK(std::get<Numbers>(read_numbers("64")) == Numbers{64});
    CHECK(std::get<Numbers>(read_numbers("64,8,64,-2")) == Numbers{-2, 8, 64});
    CHECK(std::get<Numbers>(read_numbers("512..4096")) == Numbers{512, 1024, 2048, 4096});
    CHECK(std::get<Numbers>(read_numbers("6..40")) == Numbers{8, 16, 32});
    CHECK(std::get<Numbers>(read_numbers("1k,1e3,128k")) == Numbers{1000, 1024, 131072});
  }

  TEST_CASE("machines: a size before or behind the name") {
    const auto sized = [](const char* hardware) {
      ProblemRequest request;
      request.hardware = hardware;
      request = with_own_size(request);
      return std::pair(request.hardware, request.gpus.value_or(0));
    };
    CHECK(sized("8xH100") == std::pair(std::string("H100"), 8));
    CHECK(sized("h100:16") == std::pair(std::string("h100"), 16));
    CHECK(sized("selene:16") == std::pair(std::string("selene"), 16));
    CHECK(sized("H100x8") == std::pair(std::string("H100"), 8));
    CHECK(sized("rtx4090x2") == std::pair(std::string("rtx4090"), 2));
    CHECK(sized("2xrtx4090") == std::pair(std::string("rtx4090"), 2));
    for (const char* name : {"h100", "xH100", "8x", "h100:", "h100:many", "0xh100", "rtx4090",
                             "mi300x-8", "h100x", "a100-4x100g-roce"}) {
      CAPTURE(name);
      CHECK(sized(name) == std::pair(std::string(name), 0));
    }
    ProblemRequest twice;
    twice.hardware = "8xH100";
    twice.gpus = 16;
    CHECK_THROWS_AS(static_cast<void>(with_own_size(twice)), InputError);
    twice.gpus = 8;
    CHECK(with_own_size(twice).gpus == 8);
  }

  TEST_CASE("numbers: what is wrong is said") {
    CHECK(problem_with("many") == "'many' is not a whole number");
    CHECK(problem_with("1,,2") == "'' is not a whole number");
    CHECK(problem_with("99999999999999999999") == "99999999999999999999 is far too large");
    CHECK(problem_with("4294967296") == "4294967296 is far too large");
    CHECK(problem_with("9..15") == "no power of two is in 9..15");
    CHECK(problem_with("1,2..4") == "'1,2..4' is neither a list nor a range");
    std::string long_list = "1";
    for (int i = 2; i <= 65; ++i) long_list += "," + std::to_string(i);
    CHECK(problem_with(long_list.c_str()) == "more than 64 values");
  }

  TEST_CASE("large counts have suffixes of thousand, million, billion and trillion") {
    const auto value = [](const char* text) { return std::get<double>(read_large_count(text)); };
    CHECK(value("1T") == 1e12);
    CHECK(value("300B") == 300e9);
    CHECK(value("1.5 G") == 1.5e9);
    CHECK(value("15e12") == 15e12);
    CHECK(value("20k") == 20e3);
    for (const char* text : {"", "T", "0", "-1T", "1Q", "nan", "1e30", "1 T T"}) {
      CAPTURE(text);
      CHECK(std::holds_alternative<std::string>(read_large_count(text)));
    }
  }
}

}  // namespace plansearch::number_list_test
