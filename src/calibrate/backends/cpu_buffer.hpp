// SPDX-License-Identifier: Apache-2.0
// Memory of this processor, kept from point to point.
#pragma once

#include <cstdint>
#include <vector>

namespace plansearch::calibrate {

/// Numbers of every sign between -1 and 1: products of zeros run faster than those of a network.
class CpuBuffer {
 public:
  float* at_least(std::size_t count) {
    std::size_t filled = values_.size();
    if (filled < count) values_.resize(count);
    for (; filled < values_.size(); ++filled) {
      state_ ^= state_ << 13U;
      state_ ^= state_ >> 7U;
      state_ ^= state_ << 17U;
      values_[filled] = static_cast<float>(static_cast<std::int32_t>(state_ >> 32U)) / 2147483648.F;
    }
    return values_.data();
  }

 private:
  std::vector<float> values_;
  std::uint64_t state_ = 88172645463325252ULL;
};

}  // namespace plansearch::calibrate
