// SPDX-License-Identifier: Apache-2.0
// All that is wrong with a table, at once.
#pragma once

#include <fmt/format.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "plansearch/error.hpp"

namespace plansearch {

class TableProblems {
 public:
  /// What `read` gives; where it throws an InputError that is noted, and the value is empty.
  template <typename F>
  auto attempt(const F& read) -> std::invoke_result_t<F> {
    try {
      return read();
    } catch (const InputError& error) {
      problems_.push_back(error);
      return std::invoke_result_t<F>();
    }
  }
  [[nodiscard]] bool any() const { return !problems_.empty(); }
  /// Throws InputErrors where there are any: the first twenty, and how many more.
  void refuse_any() const {
    if (problems_.empty()) return;
    constexpr std::size_t kShown = 20;
    std::vector<InputError> shown = problems_;
    if (shown.size() > kShown) {
      const std::size_t more = shown.size() - kShown;
      shown.erase(shown.begin() + kShown, shown.end());
      shown.emplace_back(SourceLocation{shown.front().where().file, 0, 0},
                         fmt::format("{} more of the kind", more));
    }
    throw InputErrors(std::move(shown));
  }

 private:
  std::vector<InputError> problems_;
};

}  // namespace plansearch
