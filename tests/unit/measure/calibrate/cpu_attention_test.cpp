// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backends/cpu_trials.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace plansearch::calibrate::cpu_attention_test {
namespace {

struct Head {
  HeadShape shape;
  std::vector<float> queries;
  std::vector<float> keys;
  std::vector<float> values;
  [[nodiscard]] HeadInput input() const { return {queries.data(), keys.data(), values.data()}; }
};

std::vector<float> numbers(int count, float first) {
  std::vector<float> all;
  for (int i = 0; i < count; ++i) all.push_back(std::sin(first + 0.37F * static_cast<float>(i)));
  return all;
}

Head head_of(int length, int size, bool causal) {
  const int count = length * size;
  return {{length, size, causal}, numbers(count, 0.1F), numbers(count, 0.5F), numbers(count, 0.9F)};
}

double at(const std::vector<float>& values, int row, int column, int size) {
  return static_cast<double>(values[static_cast<std::size_t>(row * size + column)]);
}

/// By the definition, row by row in double precision.
std::vector<double> definition(const Head& head) {
  const auto [length, size, causal] = head.shape;
  std::vector<double> context;
  for (int row = 0; row < length; ++row) {
    const int seen = causal ? row + 1 : length;
    std::vector<double> weights;
    double sum = 0.0;
    for (int key = 0; key < seen; ++key) {
      double score = 0.0;
      for (int i = 0; i < size; ++i) {
        score += at(head.queries, row, i, size) * at(head.keys, key, i, size);
      }
      weights.push_back(std::exp(score / std::sqrt(size)));
      sum += weights.back();
    }
    for (int i = 0; i < size; ++i) {
      double value = 0.0;
      for (int key = 0; key < seen; ++key) {
        value += weights[static_cast<std::size_t>(key)] / sum * at(head.values, key, i, size);
      }
      context.push_back(value);
    }
  }
  return context;
}

/// sum of slope . context, whose gradients backward gives.
double loss(const Head& head, const std::vector<float>& slope) {
  const std::vector<double> context = definition(head);
  double sum = 0.0;
  for (std::size_t i = 0; i < context.size(); ++i) {
    sum += context[i] * static_cast<double>(slope[i]);
  }
  return sum;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("attention is that of its definition, over one block of queries and several") {
    const Blas blas = load_blas(1);
    AttentionScratch scratch;
    for (const int length : {5, 128, 200}) {
      for (const bool causal : {true, false}) {
        CAPTURE(length);
        CAPTURE(causal);
        const Head head = head_of(length, 8, causal);
        std::vector<float> context(head.queries.size(), 9.0F);
        attention_forward(blas, head.shape, head.input(), context.data(), scratch);
        const std::vector<double> right = definition(head);
        for (std::size_t i = 0; i < right.size(); ++i) {
          REQUIRE(static_cast<double>(context[i]) == doctest::Approx(right[i]).epsilon(1e-4));
        }
      }
    }
  }

  TEST_CASE("its gradients are differences of the loss") {
    const Blas blas = load_blas(1);
    AttentionScratch scratch;
    for (const bool causal : {true, false}) {
      Head head = head_of(131, 4, causal);
      const std::vector<float> slope = numbers(131 * 4, 2.0F);
      std::vector<float> context(head.queries.size());
      attention_forward(blas, head.shape, head.input(), context.data(), scratch);
      std::vector<float> queries(head.queries.size());
      std::vector<float> keys(head.queries.size());
      std::vector<float> values(head.queries.size());
      attention_backward(blas, head.shape, head.input(), context.data(), slope.data(),
                         {queries.data(), keys.data(), values.data()}, scratch);
      struct Row {
        std::vector<float>* of;
        const std::vector<float>* gradient;
      };
      for (const Row& row :
           {Row{&head.queries, &queries}, Row{&head.keys, &keys}, Row{&head.values, &values}}) {
        for (const std::size_t place : {std::size_t{0}, std::size_t{130}, std::size_t{522}}) {
          constexpr float kStep = 1e-2F;
          float& value = (*row.of)[place];
          const float before = value;
          value = before + kStep;
          const double above = loss(head, slope);
          value = before - kStep;
          const double below = loss(head, slope);
          value = before;
          const double difference = (above - below) / (2.0 * static_cast<double>(kStep));
          CHECK(static_cast<double>((*row.gradient)[place]) ==
                doctest::Approx(difference).epsilon(2e-3));
        }
      }
    }
  }
}

}  // namespace plansearch::calibrate::cpu_attention_test
