// SPDX-License-Identifier: Apache-2.0
// Computes: steps between two plain layouts: of few factors the cheapest of all sequences, of many
//           those that send least where each cut goes straight to where the goal has it.
// Source: LayoutGraph of redistribution_search.hpp; for many factors A* (Hart, Nilsson,
//         Raphael 1968), of equal costs the one that was reached first.
// Assumes: only cuts that differ move: the common leading digits of every dimension stay where they
//          are.
// Units: elements that a device sends, and a small charge per step.
// Checked by: tests/unit/communication/layout_paths_test.cpp (all sequences of steps),
//             tests/unit/communication/directed_paths_test.cpp (Dijkstra without a bound)
#include "communication/redistribution/redistribution_search.hpp"

#include <algorithm>
#include <limits>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Breaks ties toward fewer steps; far below one element of any real message.
constexpr double kStepCharge = 1e-3;
/// Steps of paths that are kept: 40 MB.
constexpr std::size_t kMostSteps = 400'000;

}  // namespace

bool one_group(const SliceDigit* first, const SliceDigit* last) {
  return last - first == 1 || std::all_of(first, last, [](const SliceDigit& digit) {
           return kFactorAxes.contains(digit.terms[0].axis);
         });
}

std::size_t common_prefix(const SliceDigits& a, const SliceDigits& b) {
  std::size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

void RedistributionSearch::run(const TensorMove& move, std::vector<RedistributionStep>& steps) {
  const AxisSet axes = move.from.axes() | move.to.axes() | move.from.partial;
  const bool few = (axes & kFactorAxes).count() <= kFewFactors || tries_all(move.mesh);
  run(move, few ? PathFactors::Few : PathFactors::Many, steps);
}

void RedistributionSearch::run(const TensorMove& move, PathFactors factors,
                               std::vector<RedistributionStep>& steps) {
  units_.set(move, factors);
  if (factors == PathFactors::Few && LayoutGraph::covers(units_.pattern())) {
    rates_.set(units_, move.rates);
    graphs_->find_path(units_.pattern(), rates_, moves_);
    return write(moves_, steps);
  }
  if (factors == PathFactors::Few) units_.set(move, PathFactors::Many);
  if (remember_ == Remember::No || !units_.pattern().key(key_)) {
    search_.run(units_.pattern(), moves_);
    return write(moves_, steps);
  }
  if (known_steps_ > kMostSteps) {
    known_.clear();
    known_steps_ = 0;
  }
  const auto [place, is_new] = known_.try_emplace(key_);
  if (is_new) {
    search_.run(units_.pattern(), moves_);
    place->second = moves_;
    known_steps_ += 1 + moves_.size();
  }
  write(place->second, steps);
}

void RedistributionSearch::write(const RedistributionSearcher::Moves& moves,
                                 std::vector<RedistributionStep>& steps) const {
  const RedistributionPattern& pattern = units_.pattern();
  const LayoutState* before = &pattern.start;
  steps.reserve(steps.size() + moves.size());
  for (const auto& [move, after] : moves) {
    const double local = pattern.local_elements(*before) * units_.scale();
    steps.push_back({move.kind, units_.axes(move.units), pattern.group_size(move),
                     pattern.message(move, local), units_.layout(after)});
    before = &after;
  }
}

/// Finds the least cost first. Then it visits only layouts on paths of that cost, those with fewer
/// bytes sent first, so that among equal costs the path with the fewest steps wins.
void RedistributionSearcher::run(const RedistributionPattern& pattern, Moves& moves) {
  pattern_ = &pattern;
  set(pattern, Landing::AtGoal);
  limit_ = std::numeric_limits<double>::infinity();
  order_ = Order::InAll;
  limit_ = nodes_[find_goal()].cost + kStepCharge / 2.0;
  order_ = Order::Sent;
  moves.clear();
  for (std::uint32_t node = find_goal(); node != 0; node = nodes_[node].parent) {
    moves.push_back({nodes_[node].move, nodes_[node].state});
  }
  std::ranges::reverse(moves);
}

std::uint32_t RedistributionSearcher::find_goal() {
  nodes_.clear();
  open_.clear();
  places_.assign(64, 0);
  nodes_.push_back({pattern_->start, 0.0, 0.0, 0, {}});
  *place_of(pattern_->start) = 1;
  open_.push_back({0.0, 0});
  while (true) {
    PLANSEARCH_CHECK(!open_.empty());
    std::pop_heap(open_.begin(), open_.end(), later);
    const Open next = open_.back();
    open_.pop_back();
    if (next.rank != rank_of(nodes_[next.node])) continue;
    if (nodes_[next.node].state == pattern_->goal) return next.node;
    here_number_ = next.node;
    const LayoutState here = nodes_[here_number_].state;
    local_ = pattern_->local_elements(here);
    expand(here);
  }
}

/// Where the number of a state's node stands, or belongs.
std::uint32_t* RedistributionSearcher::place_of(const LayoutState& state) {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = state.hash() & mask;
  while (places_[at] != 0 && !(nodes_[places_[at] - 1].state == state)) at = (at + 1) & mask;
  return &places_[at];
}

void RedistributionSearcher::grow() {
  places_.assign(places_.size() * 4, 0);
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) *place_of(nodes_[i].state) = i + 1;
}

void RedistributionSearcher::reach(const PathMove& move, const LayoutState& state) {
  const double moved =
      elements_moved(move.kind, pattern_->group_size(move), pattern_->message(move, local_));
  const double cost = nodes_[here_number_].cost + moved + kStepCharge;
  if (cost > limit_) return;
  std::uint32_t* place = place_of(state);
  std::uint32_t number = *place;
  if (number == 0) {
    const double rest = pattern_->least_left(state, kStepCharge);
    if (cost + rest > limit_) return;
    nodes_.push_back({state, cost, rest, here_number_, move});
    number = static_cast<std::uint32_t>(nodes_.size());
    *place = number;
    if (2 * nodes_.size() > places_.size()) grow();
  } else {
    Node& known = nodes_[number - 1];
    if (cost >= known.cost) return;
    known.cost = cost;
    known.parent = here_number_;
    known.move = move;
  }
  open_.push_back({rank_of(nodes_[number - 1]), number - 1});
  std::push_heap(open_.begin(), open_.end(), later);
}

}  // namespace plansearch
