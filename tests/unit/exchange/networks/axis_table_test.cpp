// SPDX-License-Identifier: Apache-2.0
// Which dimensions are one and the same, by hand.
#include <doctest/doctest.h>

#include "exchange/networks/draft.hpp"

namespace plansearch::io::axis_table_test {
namespace {

std::vector<std::int64_t> extents(const AxisTable& table, const ImportedAxis& axis) {
  std::vector<std::int64_t> list;
  for (const AtomId atom : table.leaves(axis)) list.push_back(table.extent(atom));
  return list;
}

using Extents = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a reshape splits an axis and joins it again") {
  AxisTable table;
  const ImportedAxes width = {{table.make(24)}};
  const auto heads = table.reshaped(width, {4, 6});
  REQUIRE(heads.has_value());
  CHECK(extents(table, (*heads)[0]) == Extents{4});
  CHECK(extents(table, width[0]) == Extents{4, 6});  // of the tensor in front, too
  const auto again = table.reshaped(*heads, {24});
  REQUIRE(again.has_value());
  CHECK(table.leaves((*again)[0]) == table.leaves(width[0]));
}

TEST_CASE("a reshape whose parts do not fit has no axes") {
  AxisTable table;
  CHECK_FALSE(table.reshaped({{table.make(6)}, {table.make(4)}}, {4, 6}).has_value());
  // 6 x 4 as 3 x 8: 6 is 3 x 2, and 2 x 4 is 8.
  const auto fits = table.reshaped({{table.make(6)}, {table.make(4)}}, {3, 8});
  REQUIRE(fits.has_value());
  CHECK(extents(table, (*fits)[1]) == Extents{2, 4});
}

TEST_CASE("a batch of one is not lost") {
  AxisTable table;
  const AtomId batch = table.make_batch(1);
  const ImportedAxes tensor = {{batch}, {table.make(32)}, {table.make(8)}};
  const auto rows = table.reshaped(tensor, {32, 8});
  REQUIRE(rows.has_value());
  CHECK((*rows)[0].front() == batch);
  const auto back = table.reshaped(*rows, {1, 32, 8});
  REQUIRE(back.has_value());
  CHECK((*back)[0] == ImportedAxis{batch});
  CHECK((*back)[1].size() == 1);
  // Tokens first: the batch goes where there is one place.
  const auto turned = table.reshaped({{table.make(32), batch}, {table.make(8)}}, {32, 1, 8});
  REQUIRE(turned.has_value());
  CHECK((*turned)[1] == ImportedAxis{batch});
}

TEST_CASE("axes that are walked together become one, split where one has parts") {
  AxisTable table;
  const ImportedAxis whole = {table.make(24)};
  const ImportedAxis parts = {table.make(4), table.make(6)};
  CHECK(table.unify(whole, parts));
  CHECK(table.leaves(whole) == table.leaves(parts));
  CHECK_FALSE(table.unify({table.make(6), table.make(4)}, {table.make(4), table.make(6)}));
  CHECK_FALSE(table.unify({table.make(5)}, {table.make(6)}));
}

TEST_CASE("twins are split as each other and never joined") {
  AxisTable table;
  const ImportedAxis queries = {table.make(24)};
  const ImportedAxis keys = table.twin(queries);
  CHECK(table.unify(queries, keys));
  CHECK(table.leaves(queries) != table.leaves(keys));
  REQUIRE(table.reshaped({queries}, {4, 6}).has_value());
  CHECK(extents(table, keys) == Extents{4, 6});
  CHECK(table.unify(queries, keys));
  CHECK(table.leaves(queries) != table.leaves(keys));
}

TEST_CASE("what is joined later joins what it was joined with before") {
  AxisTable table;
  const ImportedAxis a = {table.make(8)};
  const ImportedAxis b = {table.make(8)};
  const ImportedAxis c = {table.make(8)};
  CHECK(table.unify(a, b));
  CHECK(table.unify(c, b));
  CHECK(table.leaves(a) == table.leaves(c));
}

}  // namespace plansearch::io::axis_table_test
