// SPDX-License-Identifier: Apache-2.0
// Redistribution: known answers, and every sequence of steps carried out on simulated devices.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "communication/redistribution/redistribution.hpp"
#include "communication/redistribution/redistribution_search.hpp"
#include "support/moves.hpp"
#include "support/rounds.hpp"

namespace plansearch::redistribution_test {
namespace {

DeviceMesh small_mesh() {
  PlanDegrees plan;
  plan.tensor_out = 2;
  plan.context = 3;
  plan.data = 2;
  return make_device_mesh(plan, std::array{Axis::Out, Axis::Context, Axis::Data});
}

constexpr std::array kAxes{Axis::Out, Axis::Context, Axis::Data};
constexpr int kRows = 12;
constexpr int kColumns = 12;
constexpr std::array<double, 2> kExtents{kRows, kColumns};

/// A layout as one digit per axis: 0 replicated, 1 rows, 2 columns, 3 partial.
Layout layout_of(const DeviceMesh& mesh, std::array<int, 3> choice) {
  Layout layout;
  layout.dims.push_back({});
  layout.dims.push_back({});
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    if (choice[i] == 3) layout.partial.insert(kAxes[i]);
    if (choice[i] == 1 || choice[i] == 2) {
      const SliceMap cut = SliceMap::shard(mesh, {kAxes[i]});
      layout.dims[static_cast<std::size_t>(choice[i] - 1)].push_back(cut.digits()[0]);
    }
  }
  return layout;
}

/// Devices that hold cells (row, column) of a matrix, each cell with a value.
class Devices {
 public:
  using Tile = std::map<std::pair<int, int>, double>;

  /// Places the matrix value(r, c) = 100 r + c; partial axes hold shares that sum to the value.
  Devices(const DeviceMesh& mesh, const Layout& layout,
          std::vector<Axis> axes = {kAxes.begin(), kAxes.end()})
      : mesh_(mesh), axes_(std::move(axes)), layout_(layout) {
    for_each_device([&](const Coordinates& device) {
      Tile& tile = tiles_[device];
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kColumns; ++c) {
          if (!holds(layout, device, r, c)) continue;
          tile[{r, c}] = (100.0 * r + c) * share(layout, device);
        }
      }
    });
  }

  /// Devices with tiles of their own: what they computed of a matrix of these values.
  Devices(const DeviceMesh& mesh, const Layout& layout, std::vector<Axis> axes,
          const std::function<double(const Coordinates&, int, int)>& computed,
          std::function<double(int, int)> value)
      : mesh_(mesh), axes_(std::move(axes)), layout_(layout), value_(std::move(value)) {
    for_each_device([&](const Coordinates& device) {
      Tile& tile = tiles_[device];
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kColumns; ++c) {
          if (holds(layout, device, r, c)) tile[{r, c}] = computed(device, r, c);
        }
      }
    });
  }

  /// Carries out one step: cells come only from the group of the step's axis.
  void apply(const RedistributionStep& step) {
    std::map<Coordinates, Tile> next;
    for_each_device([&](const Coordinates& device) {
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kColumns; ++c) {
          if (!holds(step.result, device, r, c)) continue;
          next[device][{r, c}] = fetch(step, device, r, c);
        }
      }
    });
    tiles_ = std::move(next);
    layout_ = step.result;
  }

  [[nodiscard]] bool matches(const Layout& layout) const {
    bool equal = true;
    for_each_device([&](const Coordinates& device) {
      const Tile& tile = tiles_.at(device);
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kColumns; ++c) {
          const auto cell = tile.find({r, c});
          if ((cell != tile.end()) != holds(layout, device, r, c)) equal = false;
          if (cell == tile.end() || !layout.partial.empty()) continue;
          if (std::abs(cell->second - value_(r, c)) > 1e-9) equal = false;
        }
      }
    });
    return equal;
  }

 private:
  template <typename Visit>
  void for_each_device(Visit visit) const {
    Coordinates device{};
    for (bool more = true; more;) {
      visit(device);
      more = false;
      for (const Axis axis : axes_) {
        int& place = device[static_cast<std::size_t>(axis)];
        more = ++place < mesh_[axis].size;
        if (more) break;
        place = 0;
      }
    }
  }

  static bool holds(const Layout& layout, const Coordinates& device, int r, int c) {
    const auto inside = [&](const SliceMap& map, int index, int extent) {
      const int size = extent / map.slices();
      return index / size == map.evaluate(device);
    };
    return inside(layout.dims[0], r, kRows) && inside(layout.dims[1], c, kColumns);
  }

  [[nodiscard]] double share(const Layout& layout, const Coordinates& device) const {
    double result = 1.0;
    for_each_axis(layout.partial, [&](Axis axis) {
      // Shares 1/(n(n+1)/2), 2/(..), ...: different on every device, sum one.
      const int n = mesh_[axis].size;
      result *= (device[static_cast<std::size_t>(axis)] + 1.0) / (n * (n + 1) / 2.0);
    });
    return result;
  }

  [[nodiscard]] double fetch(const RedistributionStep& step, const Coordinates& device, int r,
                             int c) const {
    const bool reduces =
        step.kind == CommunicationKind::AllReduce || step.kind == CommunicationKind::ReduceScatter;
    const AxisSet group = step.axes;
    double sum = 0.0;
    int found = 0;
    for_each_device([&](const Coordinates& other) {
      for (std::size_t i = 0; i < other.size(); ++i) {
        const bool same_group = group.contains(static_cast<Axis>(i)) || other[i] == device[i];
        if (!same_group) return;
      }
      if (step.kind == CommunicationKind::Slice && !(other == device)) return;
      const auto cell = tiles_.at(other).find({r, c});
      if (cell == tiles_.at(other).end()) return;
      ++found;
      if (reduces) sum += cell->second;
      if (!reduces) sum = cell->second;
    });
    REQUIRE(found > 0);
    return sum;
  }

  const DeviceMesh& mesh_;
  std::vector<Axis> axes_;
  Layout layout_;
  std::function<double(int, int)> value_ = [](int r, int c) { return 100.0 * r + c; };
  std::map<Coordinates, Tile> tiles_;
};

double price_of(const std::vector<RedistributionStep>& steps) {
  double sum = 0.0;
  for (const auto& step : steps) sum += elements_moved(step.kind, step.group_size, step.elements);
  return sum;
}

/// A tensor group of 2 x 2 x 3 and two data ranks.
DeviceMesh factor_mesh() {
  PlanDegrees plan;
  plan.tensor_out = 12;
  plan.data = 2;
  return with_factors(make_device_mesh(plan, std::array{Axis::Out, Axis::Data}),
                      std::array{2, 2, 3});
}

/// Rows and columns, each over factors, the outermost first.
using Factors = std::vector<std::size_t>;
Layout factor_layout(const DeviceMesh& mesh, const Factors& rows, const Factors& columns) {
  Layout layout;
  for (const Factors& list : {rows, columns}) {
    SliceMap map;
    for (const std::size_t factor : list) {
      map.push_back(SliceMap::shard(mesh, {factor_axis(factor)}).digits()[0]);
    }
    layout.dims.push_back(map);
  }
  return layout;
}

Layout random_factor_layout(const DeviceMesh& mesh, std::mt19937& random) {
  std::vector<std::size_t> order{0, 1, 2};
  std::shuffle(order.begin(), order.end(), random);
  std::array<std::vector<std::size_t>, 2> factors;
  for (const std::size_t factor : order) {
    const auto where = random() % 3;
    if (where < 2) factors[where].push_back(factor);
  }
  return factor_layout(mesh, factors[0], factors[1]);
}

TEST_SUITE("unit") {
  TEST_CASE("redistribution: single steps are the collectives everyone expects") {
    const DeviceMesh mesh = small_mesh();
    struct Expected {
      std::array<int, 3> from, to;
      CommunicationKind kind;
      double elements;  // 144 cells in all
    };
    const std::vector<Expected> cases{
        {{1, 0, 0}, {0, 0, 0}, CommunicationKind::AllGather, 144},
        {{3, 0, 0}, {0, 0, 0}, CommunicationKind::AllReduce, 144},
        {{3, 0, 0}, {1, 0, 0}, CommunicationKind::ReduceScatter, 144},
        {{1, 0, 0}, {2, 0, 0}, CommunicationKind::AllToAll, 72},
        {{0, 0, 0}, {2, 0, 0}, CommunicationKind::Slice, 144},
        {{3, 1, 2}, {0, 1, 2}, CommunicationKind::AllReduce, 24},
    };
    for (const Expected& expected : cases) {
      const auto steps = test::redistribute(
          {mesh, kExtents, layout_of(mesh, expected.from), layout_of(mesh, expected.to)});
      REQUIRE(steps.size() == 1);
      CHECK(steps[0].kind == expected.kind);
      CHECK(steps[0].elements == expected.elements);
      CHECK(steps[0].group_size == 2);
    }
    CHECK(
        test::redistribute({mesh, kExtents, layout_of(mesh, {1, 2, 0}), layout_of(mesh, {1, 2, 0})})
            .empty());
  }

  TEST_CASE("redistribution: reduce-scatter and all-gather move what an all-reduce moves") {
    for (const int n : {2, 3, 8, 64}) {
      CHECK(elements_moved(CommunicationKind::ReduceScatter, n, 960) +
                elements_moved(CommunicationKind::AllGather, n, 960) ==
            doctest::Approx(elements_moved(CommunicationKind::AllReduce, n, 960)));
    }
  }

  TEST_CASE("redistribution: all pairs of layouts on 12 devices give the right data") {
    const DeviceMesh mesh = small_mesh();
    int checked = 0;
    for (int from = 0; from < 64; ++from) {
      for (int to = 0; to < 64; ++to) {
        const std::array<int, 3> a{from % 4, from / 4 % 4, from / 16};
        const std::array<int, 3> b{to % 4, to / 4 % 4, to / 16};
        bool possible = true;  // a partial value cannot be made from a whole one
        for (std::size_t i = 0; i < 3; ++i) possible = possible && !(b[i] == 3 && a[i] != 3);
        if (!possible) continue;
        const Layout source = layout_of(mesh, a);
        const Layout target = layout_of(mesh, b);
        const auto steps = test::redistribute({mesh, kExtents, source, target});
        Devices devices(mesh, source);
        double local = local_elements(source, mesh, kExtents);
        for (const RedistributionStep& step : steps) {
          devices.apply(step);
          const double now = local_elements(step.result, mesh, kExtents);
          // Elements are conserved: a gather grows the tile by the group, a scatter shrinks it.
          if (step.kind == CommunicationKind::AllGather) CHECK(now == step.elements);
          if (step.kind == CommunicationKind::AllGather) CHECK(now == local * step.group_size);
          if (step.kind == CommunicationKind::ReduceScatter) CHECK(step.elements == local);
          if (step.kind == CommunicationKind::ReduceScatter) CHECK(now * step.group_size == local);
          if (step.kind == CommunicationKind::AllToAll) CHECK(now == local);
          local = now;
        }
        CAPTURE(to_text(source));
        CAPTURE(to_text(target));
        CHECK(devices.matches(target));
        ++checked;
      }
    }
    CHECK(checked == 13 * 13 * 13);
  }

  TEST_CASE("redistribution: never dearer than going through the replicated layout") {
    const DeviceMesh mesh = small_mesh();
    const Layout whole = layout_of(mesh, {0, 0, 0});
    std::mt19937 random(7);
    for (int i = 0; i < test::rounds(200); ++i) {
      std::array<int, 3> a{};
      std::array<int, 3> b{};
      for (std::size_t k = 0; k < 3; ++k) {
        a[k] = static_cast<int>(random() % 4);
        b[k] = static_cast<int>(random() % 3);
      }
      const Layout from = layout_of(mesh, a);
      const Layout to = layout_of(mesh, b);
      const double direct = price_of(test::redistribute({mesh, kExtents, from, to}));
      const double detour = price_of(test::redistribute({mesh, kExtents, from, whole})) +
                            price_of(test::redistribute({mesh, kExtents, whole, to}));
      CHECK(direct <= detour + 1e-9);
    }
  }

  TEST_CASE("redistribution: factors of a tensor group move together") {
    // Two of three factors at once: one all-reduce of four ranks, not two of two.
    const DeviceMesh mesh = factor_mesh();
    Layout parts = factor_layout(mesh, {}, {});
    parts.partial = {Axis::Factor0, Axis::Factor1};
    const Layout whole = factor_layout(mesh, {}, {});
    const Layout rows = factor_layout(mesh, {1, 0}, {});
    const Layout columns = factor_layout(mesh, {}, {1, 0});
    struct Expected {
      Layout from, to;
      CommunicationKind kind;
      double elements;
    };
    for (const Expected& expected : {Expected{parts, whole, CommunicationKind::AllReduce, 144},
                                     Expected{parts, rows, CommunicationKind::ReduceScatter, 144},
                                     Expected{rows, whole, CommunicationKind::AllGather, 144},
                                     Expected{rows, columns, CommunicationKind::AllToAll, 36}}) {
      const auto steps = test::redistribute({mesh, kExtents, expected.from, expected.to});
      REQUIRE(steps.size() == 1);
      CHECK(steps[0].kind == expected.kind);
      CHECK(steps[0].group_size == 4);
      CHECK(steps[0].axes == AxisSet{Axis::Factor0, Axis::Factor1});
      CHECK(steps[0].elements == expected.elements);
    }
  }

  TEST_CASE("redistribution: cuts that stay are put before those that leave, then these gathered") {
    // Rows over (0, 1), wanted over 1: a quarter of the rows to another device, then half gathered,
    // where gathering both and keeping half sends three quarters.
    const DeviceMesh mesh = factor_mesh();
    const Layout both = factor_layout(mesh, {0, 1}, {});
    const Layout one = factor_layout(mesh, {1}, {});
    const auto steps = test::redistribute({mesh, kExtents, both, one});
    REQUIRE(steps.size() == 2);
    CHECK(steps[0].kind == CommunicationKind::Permute);
    CHECK(steps[0].axes == AxisSet{Axis::Factor0, Axis::Factor1});
    CHECK(steps[0].elements == 36);
    CHECK(steps[1].kind == CommunicationKind::AllGather);
    CHECK(steps[1].axes == AxisSet{Axis::Factor0});
    CHECK(price_of(steps) == 36 + 36);
  }

  TEST_CASE("redistribution: a permutation leaves out the cuts whose slices stay where they are") {
    // Of (0, 1, 2) with 2 of three slices, 0 and 1 change places around the same slices of 2.
    const DeviceMesh mesh = factor_mesh();
    const auto steps = test::redistribute(
        {mesh, kExtents, factor_layout(mesh, {0, 1, 2}, {}), factor_layout(mesh, {1, 0, 2}, {})});
    REQUIRE(steps.size() == 1);
    CHECK(steps[0].kind == CommunicationKind::Permute);
    CHECK(steps[0].axes == AxisSet{Axis::Factor0, Axis::Factor1});
    CHECK(steps[0].group_size == 4);
  }

  TEST_CASE("redistribution: random cuts over three factors give the right data on 24 devices") {
    const DeviceMesh mesh = factor_mesh();
    std::mt19937 random(5);
    for (int round = 0; round < test::rounds(300); ++round) {
      Layout from = random_factor_layout(mesh, random);
      const Layout to = random_factor_layout(mesh, random);
      for_each_axis(kFactorAxes - from.axes(), [&](Axis axis) {
        if (mesh[axis].size > 1 && random() % 2 == 0) from.partial.insert(axis);
      });
      const auto steps = test::redistribute({mesh, kExtents, from, to});
      Devices devices(mesh, from, {Axis::Factor0, Axis::Factor1, Axis::Factor2, Axis::Data});
      for (const RedistributionStep& step : steps) devices.apply(step);
      CAPTURE(to_text(from));
      CAPTURE(to_text(to));
      CHECK(devices.matches(to));
    }
  }

  TEST_CASE("redistribution: paths over many factors bring the right data, no cheaper than all") {
    // The search for many factors on three: with factors side by side as one, each straight to
    // where the goal has it. With names left out it finds them again.
    const DeviceMesh mesh = factor_mesh();
    std::mt19937 random(6);
    RedistributionSearch search;
    RedistributionSearch remembering(Remember::Yes);
    double cheapest = 0.0;
    double directed = 0.0;
    for (int round = 0; round < test::rounds(300); ++round) {
      Layout from = random_factor_layout(mesh, random);
      const Layout to = random_factor_layout(mesh, random);
      for_each_axis(kFactorAxes - from.axes(), [&](Axis axis) {
        if (mesh[axis].size > 1 && random() % 2 == 0) from.partial.insert(axis);
      });
      std::vector<RedistributionStep> few;
      std::vector<RedistributionStep> many;
      std::vector<RedistributionStep> again;
      search.run({mesh, kExtents, from, to}, PathFactors::Few, few);
      search.run({mesh, kExtents, from, to}, PathFactors::Many, many);
      for (int time = 0; time < 2; ++time) {
        again.clear();
        remembering.run({mesh, kExtents, from, to}, PathFactors::Many, again);
        CHECK(again == many);
      }
      CAPTURE(to_text(from));
      CAPTURE(to_text(to));
      CHECK(price_of(many) >= price_of(few) * (1.0 - 1e-9));
      cheapest += price_of(few);
      directed += price_of(many);
      Devices devices(mesh, from, {Axis::Factor0, Axis::Factor1, Axis::Factor2, Axis::Data});
      for (const RedistributionStep& step : many) devices.apply(step);
      CHECK(devices.matches(to));
    }
    if (test::rounds(100) == 100) CHECK(directed < 1.1 * cheapest);  // a mean of many cases
  }

  TEST_CASE("products of matrices cut over factors arrive whole wherever they are needed") {
    // Every device multiplies its rows, columns and summands of small integer matrices; what the
    // summands are cut over is left in parts.
    constexpr int kSummands = 12;
    const DeviceMesh mesh = factor_mesh();
    const std::vector<Axis> axes{Axis::Factor0, Axis::Factor1, Axis::Factor2, Axis::Data};
    std::mt19937 random(6);
    std::array<std::array<int, kSummands>, kRows> left{};
    std::array<std::array<int, kColumns>, kSummands> right{};
    for (auto& row : left) {
      for (int& value : row) value = static_cast<int>(random() % 19) - 9;
    }
    for (auto& row : right) {
      for (int& value : row) value = static_cast<int>(random() % 19) - 9;
    }
    const auto product = [&](int r, int c, const SliceMap* map, const Coordinates& device) {
      int sum = 0;
      for (int k = 0; k < kSummands; ++k) {
        const bool mine =
            map == nullptr || k / (kSummands / map->slices()) == map->evaluate(device);
        if (mine) sum += left[r][k] * right[k][c];
      }
      return static_cast<double>(sum);
    };
    for (int round = 0; round < test::rounds(300); ++round) {
      std::vector<std::size_t> order{0, 1, 2};
      std::shuffle(order.begin(), order.end(), random);
      std::array<SliceMap, 3> loop;  // rows, columns, summands
      for (const std::size_t factor : order) {
        const auto where = random() % 4;
        if (where == 3) continue;
        loop[where].push_back(SliceMap::shard(mesh, {factor_axis(factor)}).digits()[0]);
      }
      Layout produced;
      produced.dims.push_back(loop[0]);
      produced.dims.push_back(loop[1]);
      produced.partial = loop[2].axes();
      const Layout needed = random_factor_layout(mesh, random);
      Devices devices(
          mesh, produced, axes,
          [&](const Coordinates& device, int r, int c) { return product(r, c, &loop[2], device); },
          [&](int r, int c) { return product(r, c, nullptr, {}); });
      for (const RedistributionStep& step :
           test::redistribute({mesh, kExtents, produced, needed})) {
        devices.apply(step);
      }
      CAPTURE(to_text(produced));
      CAPTURE(to_text(needed));
      CHECK(devices.matches(needed));
    }
  }

  TEST_CASE("redistribution: a skew is one permutation") {
    PlanDegrees plan;
    plan.tensor_in = plan.tensor_out = 3;
    const DeviceMesh mesh = make_device_mesh(plan, std::array{Axis::In, Axis::Out});
    Layout straight;
    straight.dims.push_back(SliceMap::shard(mesh, {Axis::In}));
    straight.dims.push_back(SliceMap::shard(mesh, {Axis::Out}));
    Layout skewed = straight;
    SliceDigit digit;
    digit.modulus = 3;
    digit.terms = {{Axis::In, 1}, {Axis::Out, 1}};
    skewed.dims[1] = SliceMap{};
    skewed.dims[1].push_back(digit);
    const auto steps = test::redistribute({mesh, kExtents, straight, skewed});
    REQUIRE(steps.size() == 1);
    CHECK(steps[0].kind == CommunicationKind::Permute);
    CHECK(steps[0].elements == 16);
  }
}

}  // namespace
}  // namespace plansearch::redistribution_test
