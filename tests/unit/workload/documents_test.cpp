// SPDX-License-Identifier: Apache-2.0
// Pairs of tokens that documents in one sequence leave, counted one by one.
#include <doctest/doctest.h>

#include <vector>

#include "workload/block_builder.hpp"

namespace plansearch::documents_test {
namespace {

/// Whether query i of a document sees its key j; both from 0.
bool sees(AttentionSpan span, std::int64_t i, std::int64_t j) {
  const std::int64_t window = span.window.value_or(std::int64_t{1} << 40);
  if (span.visibility == Visibility::All) {
    const std::int64_t distance = i > j ? i - j : j - i;
    return !span.window || distance <= window / 2;
  }
  if (j > i) return false;
  if (span.window_kind == WindowKind::Chunked) return i / window == j / window;
  return i - j < window;
}

double counted(const std::vector<std::int64_t>& lengths, AttentionSpan span) {
  std::int64_t pairs = 0;
  std::int64_t tokens = 0;
  for (const std::int64_t length : lengths) {
    tokens += length;
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t j = 0; j < length; ++j) pairs += sees(span, i, j) ? 1 : 0;
    }
  }
  return static_cast<double>(pairs) / (static_cast<double>(tokens) * static_cast<double>(tokens));
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("documents see themselves alone, under every kind of window") {
    // One sequence of 96 tokens: three documents of 8, two of 20, one of 32.
    const std::vector<std::int64_t> lengths{8, 8, 8, 20, 20, 32};
    const Documents documents{{8, 3.0}, {20, 2.0}, {32, 1.0}};
    for (const AttentionSpan span :
         {AttentionSpan{}, AttentionSpan{Visibility::All}, AttentionSpan{Visibility::Causal, 12},
          AttentionSpan{Visibility::All, 12},
          AttentionSpan{Visibility::Causal, 16, WindowKind::Chunked}}) {
      CHECK(visible_fraction(96, documents, span) == doctest::Approx(counted(lengths, span)));
    }
    // A longer document is cut.
    CHECK(visible_fraction(96, Documents{{1000, 1.0}}, {}) == visible_fraction(96, 96, {}));
  }
}

}  // namespace plansearch::documents_test
