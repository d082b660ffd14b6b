// SPDX-License-Identifier: Apache-2.0
#include "plansearch/infeasible.hpp"

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
  };
  return kNames[static_cast<std::size_t>(obstacle)];
}

}  // namespace plansearch
