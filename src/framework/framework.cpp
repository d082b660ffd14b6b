// SPDX-License-Identifier: Apache-2.0
#include "plansearch/framework.hpp"

namespace plansearch {

std::string_view to_text(LayerDistribution value) {
  static constexpr std::array<std::string_view, 4> kWords{"even", "first-more", "inner-more",
                                                          "by-cost"};
  return kWords.at(static_cast<std::size_t>(value));
}

std::string_view to_text(OptimizerStart value) {
  static constexpr std::array<std::string_view, 3> kWords{"together", "per-device",
                                                          "post-validated"};
  return kWords.at(static_cast<std::size_t>(value));
}

}  // namespace plansearch
