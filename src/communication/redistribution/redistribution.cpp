// SPDX-License-Identifier: Apache-2.0
// Computes: the cheapest sequence of steps between two layouts, by uniform-cost search over the few
//           layouts between; paths with lengths, and numbers of layouts.
// Source: the few single collectives between two layouts
//         (communication/redistribution/redistribution.hpp).
// Assumes: one mesh; only cuts that differ move: the common leading digits of every dimension stay
//          where they are.
// Units: elements of the whole message; prices in bytes that a rank receives.
// Checked by: tests/unit/communication/redistribution_test.cpp,
//             tests/unit/evaluate/choice_tables_test.cpp
#include "communication/redistribution/redistribution.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "communication/redistribution/redistribution_search.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

using Cut = SliceDigits;

bool is_plain(const Layout& layout) {
  return std::ranges::all_of(layout.dims, [](const SliceMap& map) { return map.plain(); });
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
  return {CommunicationKind::Permute, axes, mesh.size(axes), local_elements(from, mesh, extents),
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
  if (changed == from.dims.size()) {
    if (summed.count() != 1 && !(summed - kFactorAxes).empty()) return std::nullopt;
    return RedistributionStep{CommunicationKind::AllReduce, summed, mesh.size(summed), local, to};
  }
  const SliceMap& before = from.dims[changed];
  const SliceMap& after = to.dims[changed];
  if (summed.empty()) {
    const auto lost = added_cuts(mesh, after, before);
    if (!lost) return std::nullopt;
    return RedistributionStep{CommunicationKind::AllGather, lost->axes, lost->pieces,
                              local * lost->pieces, to};
  }
  const auto gained = added_cuts(mesh, before, after);
  if (!gained || !(gained->axes == summed) || !gained->full) return std::nullopt;
  return RedistributionStep{CommunicationKind::ReduceScatter, summed, gained->pieces, local, to};
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

/// Whether nothing is cheaper: several steps send no less, at the lowest rate.
bool is_cheapest(const RedistributionStep& step, const StepRates* rates) {
  return rates == nullptr || step.axes.count() <= 1 ||
         rates->rate(step.kind, step.axes) <= rates->least(step.axes, step.axes);
}

void find_steps(const TensorMove& move, RedistributionSearch& search,
                std::vector<RedistributionStep>& steps) {
  const auto& [mesh, extents, from, to, rates] = move;
  steps.clear();
  if (from == to) return;
  PLANSEARCH_CHECK(from.dims.size() == to.dims.size() && (to.partial - from.partial).empty());
  PLANSEARCH_CHECK(from.flat == to.flat);
  const bool plain = is_plain(from) && is_plain(to);
  const auto step = single_step(mesh, extents, from, to);
  if (step && (!plain || is_cheapest(*step, rates))) {
    steps.push_back(*step);
    return;
  }
  if (plain) return search.run(move, steps);
  const SharedCuts own(extents, from, to);
  const bool skewed_from = !is_plain(own.from());
  const bool skewed_to = !is_plain(own.to());
  const Layout start = skewed_from ? straightened(own.from(), mesh, own.axes()) : own.from();
  const Layout goal = skewed_to ? straightened(own.to(), mesh, own.axes()) : own.to();
  if (start == goal) {
    steps.push_back(permutation(mesh, own.extents(), own.from(), own.to()));
  } else {
    if (skewed_from) steps.push_back(permutation(mesh, own.extents(), own.from(), start));
    search.run({mesh, own.extents(), start, goal, rates}, steps);
    if (skewed_to) steps.push_back(permutation(mesh, own.extents(), goal, own.to()));
  }
  own.put_back(steps);
}

}  // namespace

bool tries_all(const DeviceMesh& mesh) {
  return mesh.active(kFactorAxes).count() <= kTriedFactors;
}

class RedistributionScratch {
 public:
  explicit RedistributionScratch(Remember remember) : search(remember) {}
  explicit RedistributionScratch(std::shared_ptr<LayoutGraphs> graphs)
      : search(Remember::Yes, std::move(graphs)) {}
  RedistributionSearch search;
};

RedistributionScratchPtr make_redistribution_scratch(Remember remember) {
  return std::make_shared<RedistributionScratch>(remember);
}

RedistributionScratchPtr make_redistribution_scratch(const RedistributionScratch& other) {
  return std::make_shared<RedistributionScratch>(other.search.graphs());
}

void redistribute(const TensorMove& move, RedistributionScratch& scratch,
                  std::vector<RedistributionStep>& steps) {
  find_steps(move, scratch.search, steps);
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

namespace {

std::string key_of(const Layout& layout) {
  std::string key;
  for (const SliceMap& map : layout.dims) {
    for (const SliceDigit& digit : map.digits()) {
      put_bytes(key, digit.modulus);
      put_bytes(key, static_cast<std::uint8_t>(digit.terms.size()));
      for (const SliceTerm& term : digit.terms) {
        put_bytes(key, term.axis);
        put_bytes(key, term.coefficient);
      }
      put_bytes(key, digit.time);
      put_bytes(key, digit.last);
      put_bytes(key, digit.offset);
      put_bytes(key, digit.period);
    }
    key += '|';
  }
  put_bytes(key, layout.partial.bits());
  return key;
}

}  // namespace

void write_path(const std::vector<RedistributionStep>& steps, const TensorMove& move, Path& path) {
  path.clear();
  for (const RedistributionStep& step : steps) {
    const bool priced = move.rates != nullptr && step.kind != CommunicationKind::Slice;
    const double rate = priced ? move.rates->rate(step.kind, step.axes) : 1.0;
    path.push_back({step.kind, step.axes, step.group_size, step.elements,
                    local_elements(step.result, move.mesh, move.extents),
                    elements_moved(step.kind, step.group_size, step.elements) * rate});
  }
}

std::uint32_t LayoutNumbers::number(const Layout& layout) {
  const auto next = static_cast<std::uint32_t>(layouts_.size() + 1);
  return layouts_.try_emplace(key_of(layout), next).first->second;
}

}  // namespace plansearch
