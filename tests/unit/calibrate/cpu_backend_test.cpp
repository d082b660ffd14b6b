// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "calibrate/backends/cpu_loops.hpp"
#include "calibrate/backends/cpu_trials.hpp"

namespace plansearch::calibrate {
namespace {

constexpr int kPlain = 111;
constexpr int kTransposed = 112;

std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::sin(first + 0.7F * static_cast<float>(i));
  }
  return values;
}

/// By the definition, element by element.
std::vector<float> product(bool turn_a, bool turn_b, int m, int n, int k,
                           const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> c;
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      double sum = 0.0;
      for (int i = 0; i < k; ++i) {
        const auto of_a = static_cast<std::size_t>(turn_a ? i * m + row : row * k + i);
        const auto of_b = static_cast<std::size_t>(turn_b ? column * k + i : i * n + column);
        sum += static_cast<double>(a[of_a]) * static_cast<double>(b[of_b]);
      }
      c.push_back(static_cast<float>(sum));
    }
  }
  return c;
}

void check_products(Sgemm sgemm) {
  constexpr int m = 37;
  constexpr int n = 29;
  constexpr int k = 150;
  const auto a = numbers(m * k, 0.1F);
  const auto b = numbers(k * n, 0.4F);
  for (const bool turn_a : {false, true}) {
    for (const bool turn_b : {false, true}) {
      CAPTURE(turn_a);
      CAPTURE(turn_b);
      std::vector<float> c(m * n, 7.0F);
      sgemm(101, turn_a ? kTransposed : kPlain, turn_b ? kTransposed : kPlain, m, n, k, 1.0F,
            a.data(), turn_a ? m : k, b.data(), turn_b ? k : n, 0.0F, c.data(), n);
      const auto right = product(turn_a, turn_b, m, n, k, a, b);
      for (std::size_t i = 0; i < c.size(); ++i) {
        REQUIRE(c[i] == doctest::Approx(right[i]).epsilon(1e-4));
      }
    }
  }
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("products of every layout are right, by a library and by loops") {
    check_products(plain_sgemm);
    check_products(load_blas(1).sgemm);
  }

  TEST_CASE("passes over memory compute what their names say") {
    constexpr std::size_t count = 2048;
    const auto read = numbers(2 * count, 0.2F);
    std::vector<float> written(3 * count, 0.5F);
    memory_pass("copy")(read.data(), written.data(), count, count);
    CHECK(written[count - 1] == read[count - 1]);
    CHECK(written[count] == 0.5F);
    memory_pass("elementwise")(read.data(), written.data(), count, count);
    CHECK(written[5] == doctest::Approx(read[5] * read[5 + count] + read[5]));
    memory_pass("norm")(read.data(), written.data(), count, count);
    float squares = 0.0F;
    for (std::size_t i = 0; i < 1024; ++i) squares += written[i] * written[i];
    CHECK(squares == doctest::Approx(1024.0F).epsilon(1e-3));
    const float before = written[3];
    memory_pass("optimizer")(read.data(), written.data(), count, count);
    CHECK(written[3 + count] == doctest::Approx(0.9F * 0.5F + 0.1F * read[3]));
    CHECK(written[3] != before);
    CHECK((memory_pass("none") == nullptr));
  }
}

}  // namespace plansearch::calibrate
