// SPDX-License-Identifier: Apache-2.0
// How graph files write tensors: "h[b, 2v+p-1, (x+q)/2, c]: mask".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace plansearch::io {

/// An index as it is written: (sum of dimensions, each so many times, and a number) / divisor.
struct IndexText {
  struct Term {
    std::string dim;
    std::int64_t factor = 1;
  };
  std::vector<Term> terms;
  std::int64_t offset = 0;
  std::int64_t divisor = 1;
  /// One dimension by itself.
  [[nodiscard]] bool is_plain() const {
    return terms.size() == 1 && terms.front().factor == 1 && offset == 0 && divisor == 1;
  }
};

struct TensorText {
  std::string name;
  bool indexed = false;  ///< brackets follow
  std::vector<IndexText> indices;
  std::vector<std::string> words;  ///< behind the colon
};

/// A fault of a text.
struct TextProblem {
  std::string what;
};
[[nodiscard]] std::variant<TensorText, TextProblem> parse_tensor(std::string_view text);

[[nodiscard]] std::string to_text(const IndexText& index);

}  // namespace plansearch::io
