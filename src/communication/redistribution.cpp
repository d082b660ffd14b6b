// SPDX-License-Identifier: Apache-2.0
// Computes: the cheapest way between two layouts, by uniform-cost search over the few layouts
// between. Source: the few single collectives between two layouts
// (communication/redistribution.hpp). Assumes: only cuts that differ move: the common leading
// digits of every dimension stay where they are. Units: elements of the whole message; prices in
// bytes that a rank receives. Checked by: tests/unit/communication/redistribution_test.cpp
#include "communication/redistribution.hpp"

#include <algorithm>
#include <limits>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Breaks ties toward fewer steps; far below one element of any real message.
constexpr double kStepCharge = 1e-3;

using Cut = SliceDigits;

std::size_t common_prefix(const Cut& a, const Cut& b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

bool holds(const Cut& digits, const SliceDigit& digit) {
  return std::find(digits.begin(), digits.end(), digit) != digits.end();
}

bool same_digits(const Cut& a, const Cut& b) {
  return a.size() == b.size() &&
         std::all_of(a.begin(), a.end(), [&](const SliceDigit& digit) { return holds(b, digit); });
}

/// Whether digits may take part in one collective: one digit, or factors of one tensor group.
bool one_group(const SliceDigit* first, const SliceDigit* last) {
  return last - first == 1 || std::all_of(first, last, [](const SliceDigit& digit) {
           return kFactorAxes.contains(digit.terms[0].axis);
         });
}

struct Node {
  Layout layout;
  double cost = 0.0;
  std::size_t parent = 0;
  bool settled = false;
  RedistributionStep step;
};

class Search {
 public:
  Search(const DeviceMesh& mesh, std::span<const double> extents, const Layout& from,
         const Layout& to, std::vector<Node>& nodes)
      : mesh_(mesh), extents_(extents), from_(from), to_(to), nodes_(nodes) {
    nodes_.clear();
  }

  void run(std::vector<RedistributionStep>& steps) {
    nodes_.push_back({from_, 0.0, 0, false, {}});
    while (true) {
      const std::size_t best = cheapest_open();
      PLANSEARCH_CHECK(best < nodes_.size());
      if (nodes_[best].layout == to_) return trace(best, steps);
      nodes_[best].settled = true;
      expand(best);
    }
  }

 private:
  [[nodiscard]] std::size_t cheapest_open() const {
    std::size_t best = nodes_.size();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].settled) continue;
      if (best == nodes_.size() || nodes_[i].cost < nodes_[best].cost) best = i;
    }
    return best;
  }

  void trace(std::size_t node, std::vector<RedistributionStep>& steps) {
    const std::size_t first = steps.size();
    for (; node != 0; node = nodes_[node].parent) {
      steps.push_back(nodes_[node].step);
      steps.back().result = nodes_[node].layout;
    }
    std::reverse(steps.begin() + static_cast<std::ptrdiff_t>(first), steps.end());
  }

  void expand(std::size_t index) {
    const Layout here = nodes_[index].layout;  // a copy: pushing nodes may move the storage
    const double local = local_elements(here, mesh_, extents_);
    reduce_partials(index, here, local);
    for (std::size_t dim = 0; dim < here.dims.size(); ++dim) {
      const Cut& digits = here.dims[dim].digits();
      if (digits.size() > common_prefix(digits, to_.dims[dim].digits())) {
        remove_cuts(index, here, local, dim);
      }
      slice(index, here, local, dim);
    }
  }

  /// Sums the parts along one axis, or along several factors of a tensor group in one go.
  void reduce_partials(std::size_t index, const Layout& here, double local) {
    const AxisSet parts = here.partial - to_.partial;
    for_each_axis(parts, [&](Axis axis) { reduce(index, here, local, {axis}); });
    const std::uint32_t factors = (parts & kFactorAxes).bits();
    for (std::uint32_t some = factors; some != 0; some = (some - 1U) & factors) {
      const AxisSet axes = subset(parts, some);
      if (axes.count() > 1) reduce(index, here, local, axes);
    }
  }

  static AxisSet subset(AxisSet axes, std::uint32_t bits) {
    AxisSet chosen;
    for_each_axis(axes, [&](Axis axis) {
      if ((AxisSet{axis}.bits() & bits) != 0) chosen.insert(axis);
    });
    return chosen;
  }

  void reduce(std::size_t index, const Layout& here, double local, AxisSet axes) {
    RedistributionStep step{
        CommunicationKind::AllReduce, axes, mesh_.size(axes), local, -1, -1, {}};
    Layout next = here;
    next.partial = here.partial - axes;
    push(index, next, step);
    for (std::size_t dim = 0; dim < here.dims.size(); ++dim) {
      Layout scattered = next;
      AxisSet left = axes;
      for (const SliceDigit& digit : to_.dims[dim].digits()) {
        const Axis axis = digit.terms[0].axis;
        if (!left.contains(axis) || digit.modulus != mesh_[axis].size) continue;
        scattered.dims[dim].push_back(digit);
        left.erase(axis);
      }
      if (!left.empty()) continue;
      step.kind = CommunicationKind::ReduceScatter;
      step.to_dim = static_cast<std::int8_t>(dim);
      push(index, scattered, step);
    }
  }

  /// Gathers the innermost cuts of `dim`, moves them to another dimension, or reorders the cuts.
  /// Several at a time where they are factors of one tensor group.
  void remove_cuts(std::size_t index, const Layout& here, double local, std::size_t dim) {
    const Cut& digits = here.dims[dim].digits();
    const std::size_t kept = common_prefix(digits, to_.dims[dim].digits());
    for (std::size_t count = 1; count <= digits.size() - kept; ++count) {
      if (!one_group(digits.end() - count, digits.end())) break;
      remove_cuts(index, here, local, dim, count);
    }
    if (same_digits(digits, to_.dims[dim].digits())) {
      Layout ordered = here;
      ordered.dims[dim] = to_.dims[dim];
      const auto same = static_cast<std::int8_t>(dim);
      const bool factors = one_group(digits.begin(), digits.end());
      const AxisSet axes = factors ? here.dims[dim].axes() : AxisSet{digits.back().terms[0].axis};
      push(index, ordered,
           {CommunicationKind::Permute, axes, here.dims[dim].slices(), local, same, same, {}});
    }
  }

  void remove_cuts(std::size_t index, const Layout& here, double local, std::size_t dim,
                   std::size_t count) {
    const Cut& digits = here.dims[dim].digits();
    AxisSet axes;
    int pieces = 1;
    bool full = true;
    Layout next = here;
    for (std::size_t i = digits.size() - count; i < digits.size(); ++i) {
      const Axis axis = digits[i].terms[0].axis;
      axes.insert(axis);
      pieces *= digits[i].modulus;
      full = full && digits[i].modulus == mesh_[axis].size;
      next.dims[dim].pop_back();
    }
    const auto lost = static_cast<std::int8_t>(dim);
    push(index, next, {CommunicationKind::AllGather, axes, pieces, local * pieces, lost, -1, {}});
    for (std::size_t other = 0; full && other < here.dims.size(); ++other) {
      if (other == dim) continue;
      Layout exchanged = next;
      std::size_t moved = 0;
      for (const SliceDigit& digit : to_.dims[other].digits()) {
        if (std::find(digits.end() - count, digits.end(), digit) == digits.end()) continue;
        exchanged.dims[other].push_back(digit);
        ++moved;
      }
      if (moved != count) continue;
      push(index, exchanged,
           {CommunicationKind::AllToAll,
            axes,
            pieces,
            local,
            lost,
            static_cast<std::int8_t>(other),
            {}});
    }
  }

  void slice(std::size_t index, const Layout& here, double local, std::size_t dim) {
    for (const SliceDigit& digit : to_.dims[dim].digits()) {
      const Axis axis = digit.terms[0].axis;
      if (here.partial.contains(axis) || here.axes().contains(axis)) continue;
      Layout next = here;
      next.dims[dim].push_back(digit);
      push(index, next,
           {CommunicationKind::Slice,
            {axis},
            digit.modulus,
            local,
            -1,
            static_cast<std::int8_t>(dim),
            {}});
    }
  }

  void push(std::size_t parent, const Layout& layout, const RedistributionStep& step) {
    const double price = elements_moved(step.kind, step.group_size, step.elements);
    const double cost = nodes_[parent].cost + price + kStepCharge;
    for (Node& node : nodes_) {
      if (!(node.layout == layout)) continue;
      if (!node.settled && cost < node.cost) {
        node.cost = cost;
        node.parent = parent;
        node.step = step;
      }
      return;
    }
    nodes_.push_back({layout, cost, parent, false, step});
  }

  const DeviceMesh& mesh_;
  std::span<const double> extents_;
  const Layout& from_;
  const Layout& to_;
  std::vector<Node>& nodes_;
};

bool is_plain(const Layout& layout) {
  return std::all_of(layout.dims.begin(), layout.dims.end(),
                     [](const SliceMap& map) { return map.plain(); });
}

Layout straightened(const Layout& layout, const DeviceMesh& mesh, AxisSet taken) {
  Layout plain = layout;
  for (const SliceMap& map : layout.dims) {
    if (map.plain()) taken = taken | map.axes();
  }
  for (SliceMap& map : plain.dims) {
    if (!map.plain()) map = map.straightened(taken, mesh);
  }
  return plain;
}

RedistributionStep permutation(const DeviceMesh& mesh, std::span<const double> extents,
                               const Layout& from, const Layout& to) {
  AxisSet axes;
  for (std::size_t i = 0; i < from.dims.size(); ++i) {
    if (!(from.dims[i] == to.dims[i])) axes = axes | from.dims[i].axes() | to.dims[i].axes();
  }
  const auto moved =
      moved_axes({from.dims.begin(), from.dims.size()}, {to.dims.begin(), to.dims.size()}, mesh);
  if (moved && !moved->empty()) axes = *moved;
  return {CommunicationKind::Permute,
          axes,
          mesh.size(axes),
          local_elements(from, mesh, extents),
          -1,
          -1,
          to};
}

/// The plain cuts that `longer` has inside those of `shorter`, and that one collective can add or
/// remove: their axes and how many pieces they make; nothing where there are others.
struct AddedCuts {
  AxisSet axes;
  int pieces = 1;
  bool full = true;  ///< no slice repeats along its axis
};

std::optional<AddedCuts> added_cuts(const DeviceMesh& mesh, const SliceMap& shorter,
                                    const SliceMap& longer) {
  const Cut& a = shorter.digits();
  const Cut& b = longer.digits();
  if (b.size() <= a.size() || common_prefix(a, b) != a.size()) return std::nullopt;
  if (!one_group(b.begin() + a.size(), b.end())) return std::nullopt;
  AddedCuts added;
  for (std::size_t i = a.size(); i < b.size(); ++i) {
    if (!b[i].plain()) return std::nullopt;
    const Axis axis = b[i].terms[0].axis;
    added.axes.insert(axis);
    added.pieces *= b[i].modulus;
    added.full = added.full && b[i].modulus == mesh[axis].size;
  }
  return added;
}

/// The frequent cases that one step solves and no sequence beats: gather one cut, sum one axis of
/// parts, or sum and scatter it.
std::optional<RedistributionStep> single_step(const DeviceMesh& mesh,
                                              std::span<const double> extents, const Layout& from,
                                              const Layout& to) {
  std::size_t changed = from.dims.size();
  for (std::size_t dim = 0; dim < from.dims.size(); ++dim) {
    if (from.dims[dim] == to.dims[dim]) continue;
    if (changed != from.dims.size()) return std::nullopt;
    changed = dim;
  }
  const AxisSet summed = from.partial - to.partial;
  const double local = local_elements(from, mesh, extents);
  const auto dim = static_cast<std::int8_t>(changed);
  if (changed == from.dims.size()) {
    if (summed.count() != 1 && !(summed - kFactorAxes).empty()) return std::nullopt;
    return RedistributionStep{
        CommunicationKind::AllReduce, summed, mesh.size(summed), local, -1, -1, to};
  }
  const SliceMap& before = from.dims[changed];
  const SliceMap& after = to.dims[changed];
  if (summed.empty()) {
    const auto lost = added_cuts(mesh, after, before);
    if (!lost) return std::nullopt;
    return RedistributionStep{
        CommunicationKind::AllGather, lost->axes, lost->pieces, local * lost->pieces, dim, -1, to};
  }
  const auto gained = added_cuts(mesh, before, after);
  if (!gained || !(gained->axes == summed) || !gained->full) return std::nullopt;
  return RedistributionStep{
      CommunicationKind::ReduceScatter, summed, gained->pieces, local, -1, dim, to};
}

/// Leading cuts that both layouts share stay where they are, skewed ones too: `from` and `to`
/// lose them, `extents` shrink to what one slice has.
class SharedCuts {
 public:
  SharedCuts(std::span<const double> extents, const Layout& from, const Layout& to)
      : from_(from), to_(to) {
    for (std::size_t dim = 0; dim < from.dims.size(); ++dim) {
      const Cut& a = from.dims[dim].digits();
      const Cut& b = to.dims[dim].digits();
      const std::size_t shared = common_prefix(a, b);
      SliceMap kept;
      for (std::size_t i = 0; i < shared; ++i) kept.push_back(a[i]);
      shared_.push_back(kept);
      extents_.push_back(extents[dim] / kept.slices());
      from_.dims[dim] = rest(a, shared);
      to_.dims[dim] = rest(b, shared);
    }
  }

  [[nodiscard]] const Layout& from() const { return from_; }
  [[nodiscard]] const Layout& to() const { return to_; }
  [[nodiscard]] std::span<const double> extents() const {
    return {extents_.begin(), extents_.size()};
  }

  /// That shared cuts use: skews around them are straightened over others.
  [[nodiscard]] AxisSet axes() const {
    AxisSet axes;
    for (const SliceMap& map : shared_) axes = axes | map.axes();
    return axes;
  }

  void put_back(std::vector<RedistributionStep>& steps) const {
    for (RedistributionStep& step : steps) {
      for (std::size_t dim = 0; dim < shared_.size(); ++dim) {
        SliceMap whole = shared_[dim];
        for (const SliceDigit& digit : step.result.dims[dim].digits()) whole.push_back(digit);
        step.result.dims[dim] = whole;
      }
    }
  }

 private:
  static SliceMap rest(const Cut& digits, std::size_t shared) {
    SliceMap map;
    for (std::size_t i = shared; i < digits.size(); ++i) map.push_back(digits[i]);
    return map;
  }

  Layout from_;
  Layout to_;
  FixedVector<SliceMap, kMaxTensorRank> shared_;
  FixedVector<double, kMaxTensorRank> extents_;
};

void find_steps(const DeviceMesh& mesh, std::span<const double> extents, const Layout& from,
                const Layout& to, std::vector<Node>& nodes,
                std::vector<RedistributionStep>& steps) {
  steps.clear();
  if (from == to) return;
  PLANSEARCH_CHECK(from.dims.size() == to.dims.size() && (to.partial - from.partial).empty());
  PLANSEARCH_CHECK(from.flat == to.flat);
  if (const auto step = single_step(mesh, extents, from, to)) {
    steps.push_back(*step);
    return;
  }
  if (is_plain(from) && is_plain(to)) {
    Search(mesh, extents, from, to, nodes).run(steps);
    return;
  }
  const SharedCuts own(extents, from, to);
  const bool skewed_from = !is_plain(own.from());
  const bool skewed_to = !is_plain(own.to());
  const Layout start = skewed_from ? straightened(own.from(), mesh, own.axes()) : own.from();
  const Layout goal = skewed_to ? straightened(own.to(), mesh, own.axes()) : own.to();
  if (start == goal) {
    steps.push_back(permutation(mesh, own.extents(), own.from(), own.to()));
  } else {
    if (skewed_from) steps.push_back(permutation(mesh, own.extents(), own.from(), start));
    Search(mesh, own.extents(), start, goal, nodes).run(steps);
    if (skewed_to) steps.push_back(permutation(mesh, own.extents(), goal, own.to()));
  }
  own.put_back(steps);
}

}  // namespace

class RedistributionScratch {
 public:
  std::vector<Node> nodes;
};

void RedistributionScratchDeleter::operator()(RedistributionScratch* scratch) const {
  delete scratch;
}

RedistributionScratchPtr make_redistribution_scratch() {
  return RedistributionScratchPtr(new RedistributionScratch);
}

void redistribute(const DeviceMesh& mesh, std::span<const double> extents, const Layout& from,
                  const Layout& to, RedistributionScratch& scratch,
                  std::vector<RedistributionStep>& steps) {
  find_steps(mesh, extents, from, to, scratch.nodes, steps);
}

double elements_moved(CommunicationKind kind, int group_size, double elements) {
  const double others = (group_size - 1.0) / group_size;
  switch (kind) {
    case CommunicationKind::AllGather:
    case CommunicationKind::ReduceScatter:
    case CommunicationKind::AllToAll:
      return others * elements;
    case CommunicationKind::AllReduce:
      return 2.0 * others * elements;
    case CommunicationKind::SendReceive:
    case CommunicationKind::Permute:
      return elements;
    case CommunicationKind::Slice:
      return 0.0;
  }
  throw InternalError("unknown communication kind");
}

std::vector<RedistributionStep> redistribute(const DeviceMesh& mesh,
                                             std::span<const double> extents, const Layout& from,
                                             const Layout& to) {
  std::vector<Node> nodes;
  std::vector<RedistributionStep> steps;
  find_steps(mesh, extents, from, to, nodes, steps);
  return steps;
}

}  // namespace plansearch
