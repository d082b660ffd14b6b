// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/table_problems.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace plansearch {

void TableProblems::refuse_any() const {
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

}  // namespace plansearch
