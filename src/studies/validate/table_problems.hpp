// SPDX-License-Identifier: Apache-2.0
// All that is wrong with a table, at once.
#pragma once

#include <type_traits>
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
  void refuse_any() const;

 private:
  std::vector<InputError> problems_;
};

}  // namespace plansearch
