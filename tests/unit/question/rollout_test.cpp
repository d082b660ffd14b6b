// SPDX-License-Identifier: Apache-2.0
// Memory of an inference engine beside the trainer, by hand.
#include <doctest/doctest.h>

#include <string>

#include "plansearch/error.hpp"
#include "question/rollout.hpp"

namespace plansearch::rollout_test {
namespace {

constexpr double kGiB = 1073741824.0;
const Bytes kDevice(80.0 * kGiB);

RolloutMemory read(const std::string& text, std::int64_t parameters = 8'000'000'000) {
  return read_rollout(text, kDevice, parameters);
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(read_rollout(text, kDevice, 8'000'000'000));
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("an engine takes its share: weights, and the rest as its cache") {
    const RolloutMemory half = read("util=0.5");
    CHECK(half.weights.value() == 16e9);
    CHECK(half.cache.value() == doctest::Approx(40.0 * kGiB - 16e9));
    CHECK(half.exchange.value() == 0.0);
    const RolloutMemory two = read("util=0.5, tp=2, buffer=1 GiB");
    CHECK(two.weights.value() == 8e9);
    CHECK(two.held().value() == doctest::Approx(41.0 * kGiB));
    CHECK(read("40 GiB").held().value() == doctest::Approx(40.0 * kGiB));
  }

  TEST_CASE("a sleeping engine keeps its weights and the buffer of the exchange") {
    const RolloutMemory asleep = read("util=0.5,buffer=512 MiB,asleep");
    CHECK(asleep.cache.value() == 0.0);
    CHECK(asleep.held().value() == doctest::Approx(16e9 + 0.5 * kGiB));
  }

  TEST_CASE("wrong words are refused") {
    CHECK(refusal("util=1.5").find("'1.5' is not a share") != std::string::npos);
    CHECK(refusal("util=0.5,tp=0").find("'0' is not a number of ranks") != std::string::npos);
    CHECK(refusal("often").find("'often' is not a memory size") != std::string::npos);
    CHECK(refusal("tp=2").find("nothing says") != std::string::npos);
    CHECK(refusal("util=0.1").find("its weights are") != std::string::npos);
  }
}

}  // namespace plansearch::rollout_test
