// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "evidence/reproduce/reproduce.hpp"

namespace plansearch {

TEST_CASE("a range is inside where the published value lies between its ends") {
  ReproducedRow row;
  row.kind = FigureKind::Range;
  row.published = 1.5;
  row.low = row.high = row.published;
  CHECK(row.within() == false);  // nothing is predicted
  row.widen(std::nullopt);
  CHECK(row.within() == false);
  row.widen(1.2);
  CHECK(row.within() == false);
  row.widen(1.4);
  CHECK(row.within() == false);
  row.widen(1.6);
  CHECK(row.least == 1.2);
  CHECK(row.most == 1.6);
  CHECK(row.within() == true);
  row.published = 1.7;
  CHECK(row.within() == false);
}

TEST_CASE("a measurement is inside where the prediction is within its band, whatever its range") {
  ReproducedRow row;
  row.kind = FigureKind::Measured;
  row.published = 1.5;
  CHECK(row.within() == std::nullopt);
  row.low = 1.4;
  row.high = 1.6;
  row.predicted = 1.39;
  row.widen(1.39);
  row.widen(1.7);
  CHECK(row.within() == false);
  row.predicted = 1.41;
  CHECK(row.within() == true);
}

}  // namespace plansearch
