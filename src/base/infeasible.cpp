// SPDX-License-Identifier: Apache-2.0
#include "plansearch/infeasible.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace plansearch {

std::string_view to_text(Obstacle obstacle) {
  static constexpr std::array<std::string_view, kObstacleCount> kNames{
      "degrees do not multiply to the GPUs",
      "batch not divisible",
      "heads not divisible",
      "key/value heads not divisible",
      "FFN width not divisible",
      "hidden width not divisible",
      "vocabulary not divisible",
      "sequence not divisible",
      "experts not divisible",
      "layers not divisible",
      "more stages than layers",
      "schedule needs other micro-batches",
      "forbidden by the framework",
      "no such feature",
      "out of memory",
      "too long to simulate",
  };
  return kNames[static_cast<std::size_t>(obstacle)];
}

std::string legal_values_text(const Infeasible& infeasible) {
  if (!infeasible.legal_numbers.empty()) {
    return fmt::format("legal: {}", fmt::join(infeasible.legal_numbers, ", "));
  }
  if (infeasible.legal_words.empty()) return {};
  return fmt::format("legal: {}", fmt::join(infeasible.legal_words, ", "));
}

std::string to_text(const Infeasible& infeasible) {
  const std::string legal = legal_values_text(infeasible);
  return legal.empty() ? infeasible.detail : fmt::format("{}; {}", infeasible.detail, legal);
}

}  // namespace plansearch
