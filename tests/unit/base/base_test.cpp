// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/checked.hpp"
#include "base/hash.hpp"
#include "base/names.hpp"
#include "base/parallel.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/error.hpp"
#include "plansearch/provenance.hpp"

namespace plansearch::base_test {

TEST_SUITE("unit") {
  TEST_CASE("names: canonical form ignores case, underscores and spaces") {
    CHECK(canonical_name("DGX_H100") == "dgx-h100");
    CHECK(canonical_name("RTX 4090 Box") == "rtx-4090-box");
  }

  TEST_CASE("names: nearest first, far ones left out") {
    const std::vector<std::string> known = {"perlmutter", "perlmutter-80", "selene", "dgx-h100"};
    CHECK(nearest_names("perlmuter", known) ==
          std::vector<std::string>{"perlmutter", "perlmutter-80"});
    CHECK(nearest_names("slenee", known) == std::vector<std::string>{"selene"});
    CHECK(nearest_names("something else entirely", known).empty());
    CHECK(did_you_mean("perlmuter", known) == "did you mean perlmutter or perlmutter-80?");
    CHECK(did_you_mean("zzz", known).empty());
    CHECK(did_you_mean("h100", known) == "did you mean dgx-h100?");
    CHECK(did_you_mean("selene-80gb", known) == "did you mean selene?");
    CHECK(nearest_names("8B", std::vector<std::string>{"llama3-8b", "llama3-70b", "qwen3-8b"}) ==
          std::vector<std::string>{"llama3-8b", "qwen3-8b"});
    CHECK(nearest_names("--gpu", std::vector<std::string>{"--dp", "--gpus", "--pp", "--gpus"}) ==
          std::vector<std::string>{"--gpus"});
  }

  TEST_CASE("products of counts stop at the limit, before 64 bits do") {
    using Counts = std::vector<std::int64_t>;
    CHECK(product_within(24, Counts{2, 3, 4}) == 24);
    CHECK_FALSE(product_within(23, Counts{2, 3, 4}));
    CHECK(product_within(1, Counts{}) == 1);
    CHECK_FALSE(product_within(100, Counts{0}));
    CHECK_FALSE(product_within(100, Counts{5, -1}));
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    CHECK(product_within(most, Counts{most}) == most);
    CHECK_FALSE(product_within(most, Counts{1LL << 32U, 1LL << 32U}));  // 0 in 64 bits
    CHECK_FALSE(product_within(most, std::vector<int>{1 << 30, 1 << 30, 1 << 30}));
  }

  TEST_CASE("sums of counts stay at the largest number") {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    CHECK(saturated_sum(2, 3) == 5);
    CHECK(saturated_sum(kMost, 0) == kMost);
    CHECK(saturated_sum(kMost - 1, 1) == kMost);
    CHECK(saturated_sum(kMost, 1) == kMost);
    CHECK(saturated_sum(kMost, kMost) == kMost);
    CHECK(saturated(1e300) == kMost);
  }

  TEST_CASE("names: what is far too long is compared with nothing") {
    const std::vector<std::string> known = {std::string(4'000'000, 'a') + "b", "perlmutter"};
    CHECK(nearest_names(std::string(4'000'000, 'a') + "c", known).empty());  // 10^13 steps
  }

  TEST_CASE("messages: control characters are written out, long texts shortened") {
    CHECK(printable("caf\xC3\xA9, 4 \xC2\xB5s") == "caf\xC3\xA9, 4 \xC2\xB5s");
    CHECK(printable("\x1b[31m red\n\x7f") == "\\x1b[31m red\\x0a\\x7f");
    CHECK(printable("\xC2\x9B") == "\\xc2\\x9b");  // a control sequence of one character
    CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
    CHECK(printable("17\xC0\xAF, \xED\xA0\x80!") == "17\\xc0\\xaf, \\xed\\xa0\\x80!");
    // 20 and 10 of 30 characters; never half of one.
    CHECK(printable(std::string(50, 'a') + std::string(50, 'b'), 30) ==
          std::string(20, 'a') + " ... (70 bytes left out) ... " + std::string(10, 'b'));
    CHECK(printable("\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 5) ==
          "\xC3\xA9 ... (4 bytes left out) ... \xC3\xA9");
    const InputError error({"a\x1b.yaml", 1, 2}, std::string(1'000'000, 'k'), "x\ny");
    CHECK(error.formatted().size() < 2'000);
    CHECK(error.formatted().starts_with("a\\x1b.yaml:1:2: error: kkk"));
    CHECK(error.formatted().ends_with("\nhint: x\\x0ay"));
    CHECK(find_control("a\tb\r\n") == std::string_view::npos);
    CHECK(find_control("ab\x1b") == 2);
    // Bytes that are no UTF-8: continued without a beginning, overlong, half of a pair, too large, cut.
    CHECK(find_control("a\x80") == 1);
    for (const char* text :
         {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"})
      CHECK(find_control(text) == 0);
    CHECK(find_control("\xED\x9F\xBF \xEE\x80\x80 \xF4\x8F\xBF\xBF") == std::string_view::npos);
  }

  TEST_CASE("errors: printed with their place and remedy") {
    CHECK(InputError({"a.yaml", 3, 7}, "bad", "do this").formatted() ==
          "a.yaml:3:7: error: bad\nhint: do this");
    CHECK(InputError({"a.yaml", 0, 0}, "bad").formatted() == "a.yaml: error: bad");
    CHECK(InputError({}, "bad").formatted() == "error: bad");
    CHECK_THROWS_AS(PLANSEARCH_CHECK(1 + 1 == 3), InternalError);
  }

  TEST_CASE("data types: names, aliases and sizes round-trip") {
    for (std::size_t i = 0; i < kDataTypeCount; ++i) {
      const auto type = static_cast<DataType>(i);
      CHECK(parse_data_type(to_text(type)) == type);
    }
    CHECK(parse_data_type("bfloat16") == DataType::Bf16);
    CHECK(parse_data_type("E4M3") == DataType::Fp8);
    CHECK_FALSE(parse_data_type("int8").has_value());
    CHECK(element_size(DataType::Bf16) == Bytes(2));
    CHECK(element_size(DataType::Mxfp8) == Bytes(33.0 / 32.0));
    CHECK(element_size(DataType::Nvfp4) == Bytes(9.0 / 16.0));
  }

  TEST_CASE("hash: fixed values, order matters") {
    CHECK(hash_text(content_hash("")) == "f52a15e9a9b5e89b");
    CHECK(content_hash("ab") != content_hash("ba"));
    CHECK(combine_hashes(1, 2) != combine_hashes(2, 1));
  }

  TEST_CASE("parallel_for: every index once, whatever the number of threads") {
    for (const int threads : {0, 1, 2, 5, 64}) {
      std::vector<std::atomic<int>> calls(37);
      parallel_for(calls.size(), threads, [&](std::size_t i) { ++calls[i]; });
      for (const auto& c : calls) CHECK(c.load() == 1);
    }
    parallel_for(0, 4, [](std::size_t) { FAIL("nothing to call"); });
  }

  TEST_CASE("parallel_for: the exception of the lowest index is rethrown") {
    for (const int threads : {1, 2, 5}) {
      std::string message;
      try {
        parallel_for(100, threads, [](std::size_t i) {
          if (i >= 17) throw std::runtime_error(std::to_string(i));
        });
      } catch (const std::runtime_error& e) {
        message = e.what();
      }
      CHECK(message == "17");
    }
  }
}

}  // namespace plansearch::base_test
