// SPDX-License-Identifier: Apache-2.0
// Parts sum to the total: every part is a different power of two, so a lost one shows.
#include <doctest/doctest.h>

#include "plansearch/evaluation.hpp"

namespace plansearch::breakdown_test {

TEST_SUITE("unit") {
  TEST_CASE("every part of a step counts once") {
    StepTimeBreakdown step;
    CHECK(step.total() == Seconds(0));
    double next = 1.0;
    double sum = 0.0;
    const auto part = [&] {
      sum += next;
      const Seconds value(next);
      next *= 2.0;
      return value;
    };
    step.compute = part();
    step.recompute = part();
    for (Seconds& axis : step.exposed) axis = part();
    step.bubble = part();
    step.optimizer = part();
    step.host = part();
    CHECK(step.total() == Seconds(sum));
    CHECK(step.exposed_total() ==
          step.total() - step.compute - step.recompute - step.bubble - step.optimizer - step.host);
  }

  TEST_CASE("every part of memory counts once") {
    const MemoryBreakdown memory{Bytes(1),  Bytes(2),  Bytes(4), Bytes(8),
                                 Bytes(16), Bytes(32), Bytes(64)};
    CHECK(memory.total() == Bytes(127));
  }
}

}  // namespace plansearch::breakdown_test
