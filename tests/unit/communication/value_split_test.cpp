// SPDX-License-Identifier: Apache-2.0
// Operators that read the parts of a sum and make parts: what is sent then, and with numbers that
// it is what has to be. y = (x w1) w2 on two devices, which cut the 64 features that w1 contracts.
#include <doctest/doctest.h>

#include <array>
#include <random>

#include "small_networks.hpp"

namespace plansearch::value_split_test {
namespace {

using Lines = std::vector<std::string>;
using Matrix = std::vector<std::vector<std::int64_t>>;

constexpr int kRows = 8;
constexpr int kWide = 32;
constexpr int kNarrow = 4;
constexpr int kFeatures = 6;

/// x[s, h] by w1[h, f] is u, by w2[f, n] and a bias is y, and the sum of y and z.
struct Pair {
  explicit Pair(bool value) {
    test::BlockBuilder b;
    const DimId s = b.dim("s", DimRole::Other, kRows);
    const DimId h = b.dim("h", DimRole::Other, kFeatures);
    const DimId f = b.dim("f", DimRole::Other, kWide);
    const DimId n = b.dim("n", DimRole::Other, kNarrow);
    const TensorId x = b.tensor("x", {s, h});
    const TensorId z = b.tensor("z", {s, n});
    const TensorId u = b.tensor("u", {s, f});
    const TensorId y = b.tensor("y", {s, n});
    const TensorId out = b.tensor("out", {s, n});
    b.op("first", OperatorKind::Matmul, {s, h, f}, {x}, {b.parameter("w1", {h, f})}, {u});
    b.op("second", OperatorKind::Matmul, {s, f, n}, {u},
         {b.parameter("w2", {f, n}), b.parameter("bias", {n})}, {y});
    b.op("add", OperatorKind::Elementwise, {s, n}, {y, z}, {}, {out});
    b.block.inputs = {x, z};
    b.block.outputs = {out};
    network = b.finish();
    placements.factors = {2};
    const FactorCuts parts = value ? FactorCuts{{kValue, {0}}} : FactorCuts{};
    BlockChoice& choice = placements.blocks.emplace_back();
    choice.operators = {FactorCuts{{h, {0}}}, parts, parts};
    choice.entering = FactorCuts{{h, {0}}};
    choice.leaving = FactorCuts{};
  }

  [[nodiscard]] Lines lines() const {
    return test::lines(network, test::placed_messages(network, placements));
  }

  Network network;
  Placements placements;
};

Matrix random_matrix(int rows, int columns, std::mt19937& random) {
  Matrix made(static_cast<std::size_t>(rows));
  for (auto& row : made) {
    for (int i = 0; i < columns; ++i) row.push_back(static_cast<std::int64_t>(random() % 19) - 9);
  }
  return made;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix made(a.size(), std::vector<std::int64_t>(b.front().size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      for (std::size_t j = 0; j < b[k].size(); ++j) made[i][j] += a[i][k] * b[k][j];
    }
  }
  return made;
}

Matrix transposed(const Matrix& a) {
  Matrix made(a.front().size(), std::vector<std::int64_t>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) made[j][i] = a[i][j];
  }
  return made;
}

Matrix sum(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) a[i][j] += b[i][j];
  }
  return a;
}

/// Rows from `first` on.
Matrix rows_of(const Matrix& a, int first, int count) {
  return {a.begin() + first, a.begin() + first + count};
}

TEST_SUITE("unit") {
  TEST_CASE(
      "parts are summed where whole values are needed: before the second product, or behind") {
    // Without: u of 8 x 32. With: the sum of 8 x 4, and w2's gradient of 32 x 4 once a step; no
    // message for the bias, whose gradient is that of the summed result.
    CHECK(Pair(false).lines() == Lines{"forward: all-reduce t0 x2 of u, 256 per use"});
    CHECK(Pair(true).lines() == Lines{"forward: all-reduce t0 x2 of out, 32 per use",
                                      "step: all-reduce t0 x2 of gradient of w2, 128 per step"});
  }

  TEST_CASE("executed: sums where the list has them, and nowhere else") {
    std::mt19937 random(3);
    const Matrix x = random_matrix(kRows, kFeatures, random);
    const Matrix z = random_matrix(kRows, kNarrow, random);
    const Matrix w1 = random_matrix(kFeatures, kWide, random);
    const Matrix w2 = random_matrix(kWide, kNarrow, random);
    const Matrix gradient = random_matrix(kRows, kNarrow, random);
    const Matrix none(kRows, std::vector<std::int64_t>(kNarrow));
    std::array<Matrix, 2> out;
    std::array<Matrix, 2> of_w1;
    std::array<Matrix, 2> of_w2;
    const Matrix of_u = product(gradient, transposed(w2));
    for (int d = 0; d < 2; ++d) {
      constexpr int kOwn = kFeatures / 2;
      const Matrix own = transposed(rows_of(transposed(x), d * kOwn, kOwn));
      const Matrix u = product(own, rows_of(w1, d * kOwn, kOwn));
      const auto i = static_cast<std::size_t>(d);
      out[i] = sum(product(u, w2), d == 0 ? z : none);  // one device takes what is whole
      of_w2[i] = product(transposed(u), gradient);
      of_w1[i] = product(transposed(own), of_u);
    }
    const Matrix u = product(x, w1);
    CHECK(sum(out[0], out[1]) == sum(product(u, w2), z));
    CHECK(sum(of_w2[0], of_w2[1]) == product(transposed(u), gradient));
    Matrix whole = of_w1[0];
    whole.insert(whole.end(), of_w1[1].begin(), of_w1[1].end());
    CHECK(whole == product(transposed(x), of_u));
  }
}

}  // namespace
}  // namespace plansearch::value_split_test
