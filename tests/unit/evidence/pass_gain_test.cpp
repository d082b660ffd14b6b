// SPDX-License-Identifier: Apache-2.0
// Fixed plans of GPT-2 XL on three machines, before and after all passes over Alpa's lists.
#include "evidence/reproduce/reproduce.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace plansearch::pass_gain_test {

TEST_SUITE("evaluate") {
  TEST_CASE("passes gain what their closed form says, little on NVLink, nothing on free links") {
    const auto gains = pass_gains({"aws-p3-16xlarge", "dgx-1-v100", "gb200-nvl72"}, shipped_data());
    REQUIRE(gains.size() == 9);
    for (const PassGain& gain : gains) {
      INFO(gain.hardware, " p ", gain.stages, " c/tF ", gain.transfer_share, " gain ", gain.gain,
           " closed form ", gain.closed_form, " step ", gain.step_gain());
      CHECK(gain.free_gain == 0.0);
      CHECK(gain.step_after <= gain.step_before);
      if (gain.transfer_share <= 1.0) {
        CHECK(std::abs(gain.equal_gain - gain.closed_form) <= 0.02);
        // Unequal stages miss the closed form of equal ones: the embedding and the head are in two
        // of them.
        CHECK(std::abs(gain.gain - gain.closed_form) <= 0.03);
      }
      if (gain.hardware == "gb200-nvl72") CHECK(gain.step_gain() <= 0.03);
    }
  }
}

}  // namespace plansearch::pass_gain_test
