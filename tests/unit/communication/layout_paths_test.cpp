// SPDX-License-Identifier: Apache-2.0
// The cheapest path between two layouts against all sequences of steps, on links of one and of two
// speeds.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "communication/redistribution/redistribution.hpp"
#include "support/moves.hpp"

namespace plansearch::layout_paths_test {
namespace {

constexpr std::array<double, 3> kExtents{64.0, 4096.0, 8192.0};
constexpr std::size_t kDims = 3;

/// A tensor group of factors of two devices each.
DeviceMesh factors_mesh(int factors) {
  PlanDegrees plan;
  plan.tensor_out = 1 << factors;
  return with_factors(make_device_mesh(plan, std::array{Axis::Out}),
                      std::vector<int>(static_cast<std::size_t>(factors), 2));
}

/// Which factors cut each dimension, the outermost first, and which hold parts of a sum.
struct Cuts {
  std::array<std::vector<int>, kDims> dims;
  std::set<int> parts;
  auto operator<=>(const Cuts&) const = default;

  [[nodiscard]] Layout layout(const DeviceMesh& mesh) const {
    Layout layout;
    for (const auto& dim : dims) {
      SliceMap map;
      for (const int factor : dim) {
        const Axis axis = factor_axis(static_cast<std::size_t>(factor));
        map.push_back(SliceMap::shard(mesh, {axis}).digits()[0]);
      }
      layout.dims.push_back(map);
    }
    for (const int part : parts) layout.partial.insert(factor_axis(static_cast<std::size_t>(part)));
    return layout;
  }

  [[nodiscard]] double local() const {
    double elements = 1.0;
    for (const double extent : kExtents) elements *= extent;
    for (const auto& dim : dims) elements /= static_cast<double>(1U << dim.size());
    return elements;
  }
};

/// Factors from the second on lie between nodes, at `far` times the price; one kind is dearer than
/// the others by half.
class TwoTiers final : public StepRates {
 public:
  TwoTiers(std::size_t inside, double far) : inside_(inside), far_(far) {}
  [[nodiscard]] double price(CommunicationKind kind, AxisSet axes) const {
    bool leaves = false;
    for_each_axis(axes, [&](Axis axis) { leaves |= axis >= factor_axis(inside_); });
    return (kind == CommunicationKind::AllToAll ? 1.5 : 1.0) * (leaves ? far_ : 1.0);
  }

 private:
  [[nodiscard]] double find(CommunicationKind kind, AxisSet axes) const override {
    return price(kind, axes);
  }
  std::size_t inside_;
  double far_;
};

/// Every step from one layout to another that some collective does.
class EveryPath {
 public:
  EveryPath(int factors, const TwoTiers* tiers) : factors_(factors), tiers_(tiers) {}

  /// The least cost of any sequence from one to every layout: Dijkstra over all of them. What cuts
  /// the other dimensions stays.
  [[nodiscard]] std::map<Cuts, double> costs(const Cuts& from, unsigned dims, unsigned sliced) {
    dims_ = dims;
    sliced_ = sliced;
    std::map<Cuts, double> best{{from, 0.0}};
    std::set<std::pair<double, Cuts>> open{{0.0, from}};
    while (!open.empty()) {
      const auto [cost, cuts] = *open.begin();
      open.erase(open.begin());
      next_.clear();
      expand(cuts);
      for (const auto& [after, step] : next_) {
        const auto [place, is_new] = best.try_emplace(after, cost + step);
        if (!is_new && place->second <= cost + step) continue;
        if (!is_new) open.erase({place->second, after});
        place->second = cost + step;
        open.insert({cost + step, after});
      }
    }
    return best;
  }

 private:
  void add(CommunicationKind kind, const std::vector<int>& group, double elements, Cuts after) {
    AxisSet axes;
    for (const int factor : group) axes.insert(factor_axis(static_cast<std::size_t>(factor)));
    const double moved = elements_moved(kind, 1 << group.size(), elements);
    next_.emplace_back(std::move(after), moved * (tiers_ ? tiers_->price(kind, axes) : 1.0));
  }

  void expand(const Cuts& cuts) {
    for (std::size_t dim = 0; dim < kDims; ++dim) {
      if (!moves(dim)) continue;
      for (std::size_t count = 1; count <= cuts.dims[dim].size(); ++count) leave(cuts, dim, count);
    }
    sum(cuts);
    slice(cuts);
    permute(cuts);
  }

  /// The innermost cuts are gathered, or go to another dimension in any order.
  void leave(const Cuts& cuts, std::size_t dim, std::size_t count) {
    Cuts after = cuts;
    auto& own = after.dims[dim];
    std::vector<int> group(own.end() - static_cast<std::ptrdiff_t>(count), own.end());
    own.resize(own.size() - count);
    add(CommunicationKind::AllGather, group, cuts.local() * (1 << count), after);
    std::sort(group.begin(), group.end());
    do {
      for (std::size_t to = 0; to < kDims; ++to) {
        if (to == dim || !moves(to)) continue;
        Cuts moved = after;
        moved.dims[to].insert(moved.dims[to].end(), group.begin(), group.end());
        add(CommunicationKind::AllToAll, group, cuts.local(), moved);
      }
    } while (std::next_permutation(group.begin(), group.end()));
  }

  /// Any parts together, to all or scattered.
  void sum(const Cuts& cuts) {
    const std::vector<int> parts(cuts.parts.begin(), cuts.parts.end());
    for (unsigned some = 1; some < 1U << parts.size(); ++some) {
      std::vector<int> group;
      Cuts after = cuts;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if ((some >> i & 1U) == 0) continue;
        group.push_back(parts[i]);
        after.parts.erase(parts[i]);
      }
      add(CommunicationKind::AllReduce, group, cuts.local(), after);
      do {
        for (std::size_t to = 0; to < kDims; ++to) {
          if (!moves(to)) continue;
          Cuts scattered = after;
          auto& own = scattered.dims[to];
          own.insert(own.end(), group.begin(), group.end());
          add(CommunicationKind::ReduceScatter, group, cuts.local(), scattered);
        }
      } while (std::next_permutation(group.begin(), group.end()));
    }
  }

  void slice(const Cuts& cuts) {
    for (int factor = 0; factor < factors_; ++factor) {
      bool used = (sliced_ >> factor & 1U) == 0 || cuts.parts.contains(factor);
      for (const auto& dim : cuts.dims)
        used |= std::find(dim.begin(), dim.end(), factor) != dim.end();
      if (used) continue;
      for (std::size_t to = 0; to < kDims; ++to) {
        if (!moves(to)) continue;
        Cuts after = cuts;
        after.dims[to].push_back(factor);
        next_.emplace_back(std::move(after), 0.0);
      }
    }
  }

  /// The same cuts in any other places, as many in every dimension.
  void permute(const Cuts& cuts) {
    std::vector<int> all;
    for (std::size_t dim = 0; dim < kDims; ++dim) {
      if (moves(dim)) all.insert(all.end(), cuts.dims[dim].begin(), cuts.dims[dim].end());
    }
    std::vector<int> order = all;
    std::sort(order.begin(), order.end());
    do {
      if (order == all) continue;
      Cuts after = cuts;
      std::size_t next = 0;
      std::vector<int> group;
      for (std::size_t dim = 0; dim < kDims; ++dim) {
        if (!moves(dim)) continue;
        for (int& factor : after.dims[dim]) {
          if (factor != order[next]) group.push_back(factor);
          factor = order[next++];
        }
      }
      add(CommunicationKind::Permute, group, cuts.local(), after);
    } while (std::next_permutation(order.begin(), order.end()));
  }

  [[nodiscard]] bool moves(std::size_t dim) const { return (dims_ >> dim & 1U) != 0; }

  int factors_;
  const TwoTiers* tiers_;
  unsigned dims_ = 0;
  unsigned sliced_ = 0;
  std::vector<std::pair<Cuts, double>> next_;
};

Cuts draw(int factors, bool parts, std::mt19937& random) {
  Cuts cuts;
  std::vector<int> order;
  for (int factor = 0; factor < factors; ++factor) order.push_back(factor);
  std::shuffle(order.begin(), order.end(), random);
  for (const int factor : order) {
    const auto place = random() % (parts ? 5 : 4);
    if (place < kDims) cuts.dims[place].push_back(factor);
    if (place == 4) cuts.parts.insert(factor);
  }
  return cuts;
}

/// One bit per factor.
unsigned cut_over(const Cuts& cuts) {
  unsigned factors = 0;
  for (const auto& dim : cuts.dims) {
    for (const int factor : dim) factors |= 1U << factor;
  }
  return factors;
}

/// Whether a dimension that differs begins with the same cut: it stays, and what is left is a move
/// of a smaller tensor.
bool begins_alike(const Cuts& a, const Cuts& b) {
  for (std::size_t dim = 0; dim < kDims; ++dim) {
    const auto& one = a.dims[dim];
    const auto& other = b.dims[dim];
    if (one != other && !one.empty() && !other.empty() && one[0] == other[0]) return true;
  }
  return false;
}

/// One bit per dimension.
unsigned differing(const Cuts& a, const Cuts& b) {
  unsigned dims = 0;
  for (std::size_t dim = 0; dim < kDims; ++dim) {
    if (a.dims[dim] != b.dims[dim]) dims |= 1U << dim;
  }
  return dims;
}

double cost_of(const std::vector<RedistributionStep>& steps, const TwoTiers* tiers) {
  double cost = 0.0;
  for (const RedistributionStep& step : steps) {
    if (step.kind == CommunicationKind::Slice) continue;
    cost += elements_moved(step.kind, step.group_size, step.elements) *
            (tiers ? tiers->price(step.kind, step.axes) : 1.0);
  }
  return cost;
}

/// Ten starts, four over four factors, every goal without parts.
void compare(int factors, const TwoTiers* tiers) {
  const DeviceMesh mesh = factors_mesh(factors);
  std::mt19937 random(static_cast<unsigned>(factors));
  const int starts = factors < 4 ? 10 : 4;
  for (int start = 0; start < starts; ++start) {
    const Cuts from = draw(factors, start % 2 == 1, random);
    const Layout source = from.layout(mesh);
    int pairs = 0;
    for (unsigned some = 0; some < 1U << (kDims + static_cast<unsigned>(factors)); ++some) {
      const unsigned dims = some & ((1U << kDims) - 1U);
      const unsigned sliced = some >> kDims;
      for (const auto& [to, cost] : EveryPath(factors, tiers).costs(from, dims, sliced)) {
        if (!to.parts.empty() || differing(from, to) != dims || cut_over(to) != sliced) continue;
        if (begins_alike(from, to)) continue;
        const Layout goal = to.layout(mesh);
        const auto steps = test::redistribute({mesh, kExtents, source, goal, tiers});
        CAPTURE(to_text(source));
        CAPTURE(to_text(goal));
        CHECK(cost_of(steps, tiers) == doctest::Approx(cost).epsilon(1e-9));
        ++pairs;
      }
    }
    CHECK(pairs >= 12);
  }
}

TEST_SUITE("unit") {
  TEST_CASE("layout paths: as cheap as the best of all sequences, links of one speed") {
    for (const int factors : {2, 3, 4}) compare(factors, nullptr);
  }

  TEST_CASE("layout paths: as cheap as the best of all sequences, links of two speeds") {
    for (const int factors : {2, 3, 4}) {
      for (const std::size_t inside : {1U, 2U}) {
        const TwoTiers tiers(inside, 9.0);
        compare(factors, &tiers);
      }
    }
  }
}

}  // namespace
}  // namespace plansearch::layout_paths_test
