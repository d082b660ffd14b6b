// SPDX-License-Identifier: Apache-2.0
// Operands move on with every call, through more memory than the caches hold.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace plansearch::calibrate {

class Rotation {
 public:
  /// Sets of `footprint` bytes: twice the cache, within `most`.
  Rotation(double footprint, double cache, double most) {
    constexpr double kMostSets = 4096.0;
    const double wanted = footprint <= 0.0 ? 1.0 : std::ceil(2.0 * cache / footprint);
    sets_ = static_cast<std::size_t>(
        std::clamp(std::min(wanted, std::floor(most / std::max(footprint, 1.0))), 1.0, kMostSets));
  }
  [[nodiscard]] std::size_t sets() const { return sets_; }
  std::size_t next() { return turn_++ % sets_; }

 private:
  std::size_t sets_ = 1;
  std::size_t turn_ = 0;
};

}  // namespace plansearch::calibrate
