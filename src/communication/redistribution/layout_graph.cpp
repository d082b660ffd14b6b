// SPDX-License-Identifier: Apache-2.0
// Computes: the cheapest of all sequences of collectives between two layouts of a few units.
// Source: Dijkstra (1959) from the goal over all layouts.
// Assumes: what a layout is cut over alone decides what a step sends; a unit that cuts neither end
//          is not sliced over.
// Units: shares of the tensor that a device sends, by their rates, and a small charge per step.
// Checked by: tests/unit/communication/layout_paths_test.cpp (all sequences of steps)
#include "communication/redistribution/redistribution_search.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/hash.hpp"
#include "base/ranges.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr double kMostLayouts = 4096;
constexpr std::size_t kMostUnits = 8;
constexpr double kNever = std::numeric_limits<double>::infinity();
/// The most that graphs and distances of one search take.
constexpr std::size_t kMostBytes = 96U << 20U;

/// Whether a unit cuts two dimensions.
bool cuts_twice(const LayoutState& state) {
  int cuts = 0;
  for (const LayoutCuts& dim : state.dims) cuts += dim.size();
  return cuts > std::popcount(state.cut_units());
}

}  // namespace

/// Any of the units in any order, divided among the dimensions; of the others each may have parts.
bool LayoutGraph::covers(const RedistributionPattern& pattern) {
  if (pattern.units > kMostUnits || cuts_twice(pattern.start) || cuts_twice(pattern.goal)) {
    return false;
  }
  const double others = pattern.start.partial == 0 ? 1.0 : 2.0;
  double ordered = 1.0;  // ordered choices of so many units, times their divisions
  double layouts = 0.0;
  for (std::size_t held = 0; held <= pattern.units; ++held) {
    double with_parts = ordered;
    for (std::size_t i = held; i < pattern.units; ++i) with_parts *= others;
    layouts += with_parts;
    if (layouts > kMostLayouts) return false;
    ordered *= static_cast<double>(pattern.units - held) *
               static_cast<double>(pattern.rank + held) / static_cast<double>(held + 1);
  }
  return true;
}

void LayoutGraph::put_shape(const RedistributionPattern& pattern, std::string& bytes) {
  put_bytes(bytes, static_cast<std::uint8_t>(pattern.rank));
  put_bytes(bytes, static_cast<std::uint8_t>(pattern.units));
  put_bytes(bytes, pattern.start.partial);
  put_bytes(bytes, pattern.full);
  put_bytes(bytes, pattern.factors);
  put_bytes(bytes, pattern.taken);
  for (std::size_t unit = 0; unit < pattern.units; ++unit) {
    put_bytes(bytes, pattern.pieces[unit]);
    put_bytes(bytes, pattern.ranks[unit]);
    put_bytes(bytes, pattern.same_axes[unit]);
  }
}

LayoutGraph::LayoutGraph(const RedistributionPattern& shape) : shape_(shape) {
  shape_.start = shape_.goal = {};
  shape_.elements = 1.0;
  shape_.start_slices = 1;
  std::ranges::sort(shape_.parts);
  LayoutState none;
  add_states(none, 0, shape.start.partial);
  set(shape_, Landing::Anywhere);
  for (here_ = 0; here_ < states_.size(); ++here_) {
    first_.push_back(static_cast<std::uint32_t>(steps_.size()));
    const LayoutState here = states_[here_];
    local_ = shape_.local_elements(here);
    expand(here);
  }
  first_.push_back(static_cast<std::uint32_t>(steps_.size()));
  turn_steps();
}

void LayoutGraph::turn_steps() {
  first_back_.assign(states_.size() + 1, 0);
  for (const Step& step : steps_) ++first_back_[step.to + 1];
  for (std::size_t i = 0; i < states_.size(); ++i) first_back_[i + 1] += first_back_[i];
  back_.resize(steps_.size());
  std::vector<std::uint32_t> next(first_back_.begin(), first_back_.end() - 1);
  for (std::uint32_t from = 0; from < states_.size(); ++from) {
    for (std::uint32_t i = first_[from]; i < first_[from + 1]; ++i) {
      back_[next[steps_[i].to]++] = {from, steps_[i].price};
    }
  }
}

/// From a unit on: nowhere, in parts where it can be, or anywhere between the cuts of a dimension.
void LayoutGraph::add_states(LayoutState& state, std::size_t unit, std::uint32_t parts) {
  if (unit == shape_.units) {
    numbers_.emplace(state, static_cast<std::uint32_t>(states_.size()));
    states_.push_back(state);
    return;
  }
  add_states(state, unit + 1, parts);
  if ((parts >> unit & 1U) != 0) {
    state.partial |= 1U << unit;
    add_states(state, unit + 1, parts);
    state.partial &= ~(1U << unit);
  }
  for (std::size_t dim = 0; dim < shape_.rank; ++dim) {
    const LayoutCuts before = state.dims[dim];
    for (int at = 0; at <= before.size(); ++at) {
      LayoutCuts cuts = before.first(at);
      cuts.push_back(static_cast<int>(unit));
      for (int i = at; i < before.size(); ++i) cuts.push_back(before[i]);
      state.dims[dim] = cuts;
      add_states(state, unit + 1, parts);
    }
    state.dims[dim] = before;
  }
}

std::uint32_t LayoutGraph::number(const LayoutState& state) const {
  const auto known = numbers_.find(state);
  PLANSEARCH_CHECK(known != numbers_.end());
  return known->second;
}

void LayoutGraph::reach(const PathMove& move, const LayoutState& after) {
  const auto size = static_cast<std::uint32_t>(std::ranges::find(sizes_, local_) - sizes_.begin());
  if (size == sizes_.size()) sizes_.push_back(local_);
  const std::uint32_t price =
      (size << shape_.units | move.units) << kKindBits | static_cast<std::uint32_t>(move.kind);
  steps_.push_back({number(after), price, move});
}

/// `wanted`: units that cut the goal.
double LayoutGraph::price(std::uint32_t number, std::uint32_t wanted,
                          const UnitRates& rates) const {
  PathMove move;
  move.kind = static_cast<CommunicationKind>(number & ((1U << kKindBits) - 1U));
  move.units = number >> kKindBits & ((1U << shape_.units) - 1U);
  if (move.kind == CommunicationKind::Slice) {
    return (move.units & ~wanted) == 0 ? kStepCharge : kNever;
  }
  const double local = sizes_[number >> kKindBits >> shape_.units];
  const double moved =
      elements_moved(move.kind, shape_.group_size(move), shape_.message(move, local));
  return moved * rates(move.kind, move.units) + kStepCharge;
}

void LayoutGraph::find_distance(std::uint32_t start, const LayoutState& goal,
                                const UnitRates& rates, Distances& distances) {
  std::vector<double>& of = distances.of;
  if (of.empty()) {
    of.assign(states_.size(), kNever);
    of[number(goal)] = 0.0;
  }
  if (of[start] <= distances.final) return;
  const std::uint32_t wanted = goal.cut_units();
  prices_.assign(sizes_.size() << shape_.units << kKindBits, -1.0);
  open_.clear();
  for (std::uint32_t layout = 0; layout < of.size(); ++layout) {
    if (of[layout] >= distances.final && of[layout] < kNever)
      open_.emplace_back(of[layout], layout);
  }
  std::make_heap(open_.begin(), open_.end(), std::greater<>());
  const auto reach = [&](std::uint32_t layout, double distance) {
    if (distance >= of[layout]) return;
    of[layout] = distance;
    open_.emplace_back(distance, layout);
    std::push_heap(open_.begin(), open_.end(), std::greater<>());
  };
  while (!open_.empty()) {
    std::pop_heap(open_.begin(), open_.end(), std::greater<>());
    const auto [distance, here] = open_.back();
    open_.pop_back();
    if (distance > of[here]) continue;  // reached at less since
    distances.final = distance;
    if (here == start) return;
    for (std::uint32_t i = first_back_[here]; i < first_back_[here + 1]; ++i) {
      double& known = prices_[back_[i].price];
      if (known < 0.0) known = price(back_[i].price, wanted, rates);
      reach(back_[i].from, distance + known);
    }
  }
}

void LayoutGraph::find_path(const LayoutState& start, const LayoutState& goal,
                            const UnitRates& rates, const Distances& distances,
                            const std::vector<std::uint32_t>& names,
                            std::vector<LayoutStep>& steps) const {
  const std::uint32_t last = number(goal);
  const std::uint32_t wanted = goal.cut_units();
  steps.clear();
  for (std::uint32_t here = number(start); here != last;) {
    const Step* best = nullptr;
    double least = kNever;
    for (std::uint32_t i = first_[here]; i < first_[here + 1]; ++i) {
      const double behind = distances.of[names[steps_[i].to]];
      if (behind >= least) continue;
      const double left = behind + price(steps_[i].price, wanted, rates);
      if (left < least) {
        least = left;
        best = &steps_[i];
      }
    }
    PLANSEARCH_CHECK(best != nullptr && distances.of[names[best->to]] < distances.of[names[here]]);
    here = best->to;
    steps.push_back({best->move, states_[here]});
  }
}

std::vector<std::uint32_t> LayoutGraph::renamed(const UnitNames& names) const {
  return transformed(
      states_, [&](const LayoutState& state) { return number(plansearch::renamed(state, names)); });
}

LayoutState renamed(const LayoutState& state, const UnitNames& names) {
  LayoutState made;
  for (std::size_t dim = 0; dim < state.dims.size(); ++dim) {
    for (int i = 0; i < state.dims[dim].size(); ++i) {
      made.dims[dim].push_back(names[static_cast<std::size_t>(state.dims[dim][i])]);
    }
  }
  for (std::uint32_t rest = state.partial; rest != 0; rest &= rest - 1U) {
    made.partial |= 1U << names[static_cast<std::size_t>(std::countr_zero(rest))];
  }
  return made;
}

UnitNames names_by_goal(const RedistributionPattern& pattern, const UnitRates& rates) {
  const auto alike = [&](std::size_t a, std::size_t b) {
    const auto bit = [&](std::uint32_t set) { return (set >> a & 1U) == (set >> b & 1U); };
    const bool alone = pattern.same_axes[a] == 1U << a && pattern.same_axes[b] == 1U << b;
    return a == b || (alone && pattern.pieces[a] == pattern.pieces[b] &&
                      pattern.ranks[a] == pattern.ranks[b] && bit(pattern.full) &&
                      bit(pattern.factors) && bit(pattern.taken) && bit(pattern.start.partial));
  };
  std::vector<std::size_t> order;  // of units: as they cut the goal, the others by their rates
  for (std::size_t dim = 0; dim < pattern.rank; ++dim) {
    const LayoutCuts& cuts = pattern.goal.dims[dim];
    for (int i = 0; i < cuts.size(); ++i) order.push_back(static_cast<std::size_t>(cuts[i]));
  }
  const std::size_t cutting = order.size();
  for (std::size_t unit = 0; unit < pattern.units; ++unit) {
    if (!contains(order, unit)) order.push_back(unit);
  }
  std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(cutting), order.end(),
                   [&](std::size_t a, std::size_t b) {
                     const auto rank = [&](std::size_t unit) {
                       return std::pair(pattern.goal.partial >> unit & 1U,
                                        rates(CommunicationKind::AllGather, 1U << unit));
                     };
                     return rank(a) < rank(b);
                   });
  UnitNames names{};
  std::uint32_t taken = 0;
  for (const std::size_t unit : order) {
    std::size_t name = 0;
    while ((taken >> name & 1U) != 0 || !alike(unit, name)) ++name;
    taken |= 1U << name;
    names[unit] = static_cast<std::uint8_t>(name);
  }
  return names;
}

LayoutGraphs::Known& LayoutGraphs::known(const RedistributionPattern& pattern) {
  key_.clear();
  LayoutGraph::put_shape(pattern, key_);
  if (bytes_ > kMostBytes) {
    graphs_.clear();
    bytes_ = 0;
  }
  const auto known = graphs_.find(key_);
  if (known != graphs_.end()) return known->second;
  Known& made = graphs_[key_];
  made.graph = std::make_unique<LayoutGraph>(pattern);
  bytes_ += made.graph->bytes();
  return made;
}

void LayoutGraphs::find_path(const RedistributionPattern& pattern, const UnitRates& rates,
                             std::vector<LayoutStep>& steps) {
  const std::scoped_lock lock(mutex_);
  Known& shape = known(pattern);
  LayoutGraph& graph = *shape.graph;
  if (remember_ == Remember::No) {
    std::vector<std::uint32_t> own(graph.layouts());
    std::iota(own.begin(), own.end(), 0U);
    LayoutGraph::Distances distances;
    graph.find_distance(graph.number(pattern.start), pattern.goal, rates, distances);
    return graph.find_path(pattern.start, pattern.goal, rates, distances, own, steps);
  }
  const UnitNames names = names_by_goal(pattern, rates);
  std::vector<std::uint32_t>& layouts = shape.renamed[names];
  if (layouts.empty()) {
    layouts = graph.renamed(names);
    bytes_ += graph.layouts() * sizeof(std::uint32_t);
  }
  const UnitRates named_rates = rates.renamed(names);
  key_.clear();
  put_bytes(key_, layouts[graph.number(pattern.goal)]);
  named_rates.put(key_);
  const auto [place, is_new] = shape.distances.try_emplace(key_);
  if (is_new) bytes_ += graph.layouts() * sizeof(double);
  LayoutGraph::Distances& distances = place->second;
  graph.find_distance(layouts[graph.number(pattern.start)], renamed(pattern.goal, names),
                      named_rates, distances);
  graph.find_path(pattern.start, pattern.goal, rates, distances, layouts, steps);
}

}  // namespace plansearch
