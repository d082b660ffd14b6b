// SPDX-License-Identifier: Apache-2.0
// Computes: paths between layouts, one search for all pairs that are alike, as routes; the factors
//           of a tensor group that may change places.
// Source: communication/redistribution/redistribution.hpp, which ignores the names of axes
//         but where it sums parts, in their order. Places of groups (cost/collective/place.hpp):
//         inside one switch only the number of ranks counts, and so it does between domains.
// Assumes: factors of a tensor group are all of one size; paths are the same for tensors of any
//          size; the price of a message depends on its group by the place of that alone.
// Units: shares of the tensor.
// Checked by: tests/unit/evaluate/move_prices_test.cpp (every pair against its own search; all
//             messages over all groups)
#include "partition/known_routes.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/hash.hpp"
#include "communication/redistribution/redistribution_search.hpp"
#include "communication/redistribution/step_rates.hpp"
#include "cost/collective/place.hpp"
#include "plansearch/error.hpp"

namespace plansearch {

KnownRoutes::KnownRoutes(const DeviceMesh& mesh, const AlikeFactors& alike,
                         const KnownRoutes* other)
    : mesh_(mesh),
      alike_(alike),
      scratch_(other == nullptr ? make_redistribution_scratch(Remember::Yes)
                                : make_redistribution_scratch(*other->scratch_)) {
  int size = 1;
  for (std::size_t f = 0; f < kMostFactors; ++f) {
    const int own = mesh[factor_axis(f)].size;
    if (own == 1) continue;
    PLANSEARCH_CHECK(size == 1 || own == size);
    size = own;
  }
  static_cast<void>(number_of({}));
}

std::uint16_t KnownRoutes::digit_number(const SliceDigit& digit) {
  Digit made;
  std::string shape;
  std::string whole;
  for (const SliceTerm& term : digit.terms) {
    put_bytes(whole, term.axis);
    const bool factor = kFactorAxes.contains(term.axis);
    put_bytes(shape, factor ? Axis::Factor0 : term.axis);
    put_bytes(shape, term.coefficient);
    if (!factor) continue;
    made.factors.push_back(static_cast<std::uint8_t>(static_cast<std::size_t>(term.axis) -
                                                     static_cast<std::size_t>(Axis::Factor0)));
    made.held |= 1U << made.factors.back();
  }
  put_bytes(shape, digit.modulus);
  put_bytes(shape, digit.time);
  put_bytes(shape, digit.last);
  put_bytes(shape, digit.offset);
  put_bytes(shape, digit.period);
  std::uint32_t& number = shapes_[shape];
  if (number == 0) number = static_cast<std::uint32_t>(shapes_.size());
  made.shape = static_cast<std::uint16_t>(number);
  put_bytes(whole, made.shape);
  std::uint32_t& known = digit_numbers_[whole];
  if (known == 0) {
    known = static_cast<std::uint32_t>(digits_.size());
    PLANSEARCH_CHECK(known <= std::numeric_limits<std::uint16_t>::max());
    digits_.push_back(made);
  }
  return static_cast<std::uint16_t>(known);
}

KnownRoutes::Known KnownRoutes::describe(const Layout& layout) {
  Known known;
  for (const SliceMap& map : layout.dims) {
    FixedVector<std::uint16_t, kMaxDigits> digits;
    for (const SliceDigit& digit : map.digits()) {
      digits.push_back(digit_number(digit));
      known.factors |= digits_[digits.back()].held;
    }
    known.dims.push_back(digits);
    known.plain = known.plain && map.plain();
    known.slices *= map.slices();
  }
  std::string frame;
  for_each_axis(layout.partial - kFactorAxes, [&](Axis axis) { put_bytes(frame, axis); });
  for (std::size_t f = 0; f < kMostFactors; ++f) {
    if (layout.partial.contains(factor_axis(f))) known.parts |= 1U << f;
  }
  if (!layout.flat.empty()) frame += "flat";
  for (const Axis axis : layout.flat) {
    put_bytes(frame, axis);
    known.slices *= mesh_[axis].size;
  }
  if (frame.empty()) return known;
  std::uint32_t& number = frames_[frame];
  if (number == 0) number = static_cast<std::uint32_t>(frames_.size());
  known.frame = static_cast<std::uint16_t>(number);
  return known;
}

namespace {

/// Without the cut of a dimension over replicas, where that is outermost.
Layout of_one_replica(Layout layout) {
  for (SliceMap& map : layout.dims) {
    const SliceDigits& digits = map.digits();
    if (digits.empty() || !digits[0].plain() || digits[0].terms[0].axis != Axis::Data) continue;
    SliceMap rest;
    for (std::size_t i = 1; i < digits.size(); ++i) rest.push_back(digits[i]);
    map = rest;
  }
  return layout;
}

}  // namespace

NumberedLayout KnownRoutes::numbered(Layout layout) {
  const Layout own = of_one_replica(layout);
  const std::uint32_t number = layouts_.number(own);
  if (number == known_.size()) known_.push_back(describe(own));
  return {std::move(layout), number};
}

std::uint32_t& KnownRoutes::pair(std::uint32_t from, std::uint32_t to) {
  if (from >= pairs_.size()) pairs_.resize(known_.size());
  Pages& pages = pairs_[from];
  const std::size_t page = to / kPage;
  if (page >= pages.size()) pages.resize(page + 1);
  if (!pages[page]) pages[page] = std::make_unique<Page>(Page{});
  return (*pages[page])[to % kPage];
}

std::uint32_t KnownRoutes::route(const std::vector<double>& extents, const NumberedLayout& from,
                                 const NumberedLayout& to, const StepRates* rates) {
  if (from.number == to.number) return 0;
  std::uint32_t& known = pair(from.number, to.number);
  if (known == 0) known = find_route(extents, from, to, rates);
  return known - 1;
}

/// The digits of dimensions that differ, but for those that both begin with.
void KnownRoutes::put_rest(const Known& layout, const Known& other, Names& names) {
  for (std::size_t dim = 0; dim < layout.dims.size(); ++dim) {
    const auto& own = layout.dims[dim];
    const auto& theirs = other.dims[dim];
    std::size_t i = 0;
    while (i < own.size() && i < theirs.size() && own[i] == theirs[i]) ++i;
    if (i == own.size() && i == theirs.size()) continue;
    for (; i < own.size(); ++i) {
      const Digit& digit = digits_[own[i]];
      put_bytes(key_, digit.shape);
      for (const std::uint8_t factor : digit.factors) put_bytes(key_, names(factor));
    }
    put_bytes(key_, std::uint16_t{0});
  }
}

void KnownRoutes::put_difference(const Known& from, const Known& to, Names& names) {
  key_.clear();
  put_rest(from, to, names);
  put_rest(to, from, names);
  for (std::uint32_t rest = from.parts; rest != 0; rest &= rest - 1U) {
    const auto factor = static_cast<std::uint8_t>(std::countr_zero(rest));
    put_bytes(key_, names(factor));
    put_bytes(key_, static_cast<std::uint8_t>(to.parts >> factor & 1U));
  }
  put_bytes(key_, from.frame);
  put_bytes(key_, to.frame);
  // Few factors have all sequences of steps tried, those that both begin with counted; skewed cuts
  // are straightened over factors that nothing else holds.
  const bool plain = from.plain && to.plain;
  const bool few = std::popcount(from.factors | to.factors | from.parts) <= kFewFactors;
  put_bytes(key_, static_cast<std::uint8_t>(plain ? (few ? 2 : 1) : 0));
  if (plain) return;
  std::uint8_t shared = 0;
  for (std::size_t dim = 0; dim < from.dims.size(); ++dim) {
    for (std::size_t i = 0; i < from.dims[dim].size() && i < to.dims[dim].size(); ++i) {
      if (from.dims[dim][i] != to.dims[dim][i]) break;
      for (const std::uint8_t factor : digits_[from.dims[dim][i]].factors) {
        if (names.of_factor[factor] != 0)
          shared |= static_cast<std::uint8_t>(1U << (names.of_factor[factor] - 1U));
      }
    }
  }
  put_bytes(key_, shared);
}

std::uint32_t KnownRoutes::find_route(const std::vector<double>& extents,
                                      const NumberedLayout& from, const NumberedLayout& to,
                                      const StepRates* rates) {
  const Known& start = known_[from.number];
  const Known& goal = known_[to.number];
  Names names;
  put_difference(start, goal, names);
  const std::size_t size = key_.size();
  for (const std::uint8_t factor : names.factors) put_bytes(key_, alike_.first[factor]);
  const std::size_t with_runs = key_.size();
  put_bytes(key_, start.slices);
  std::uint32_t& route = named_[key_];
  if (route != 0) return route;
  key_.resize(rates == nullptr ? size : with_runs);
  std::uint32_t& number = path_numbers_[key_];
  if (number == 0) {
    add_path({mesh_, extents, from.layout, to.layout, rates}, names);
    number = static_cast<std::uint32_t>(paths_.size());
  }
  return route = 1 + number_of(named_route(paths_[number - 1], names, start.slices));
}

void KnownRoutes::add_path(const TensorMove& move, Names& names) {
  redistribute(move, *scratch_, found_);
  write_path(found_, move, path_);
  const double tile = local_elements(move.from, mesh_, move.extents);
  KnownPath path{length_of(path_) / tile, static_cast<std::uint32_t>(steps_.size())};
  for (const PathStep& step : path_) {
    PathMessage& made = steps_.emplace_back(
        PathMessage{step.kind, step.axes - kFactorAxes, 0, step.elements / tile});
    for (std::size_t f = 0; f < kMostFactors; ++f) {
      if (!step.axes.contains(factor_axis(f))) continue;
      PLANSEARCH_CHECK(names.of_factor[f] != 0);
      made.names |= 1U << (names.of_factor[f] - 1U);
    }
  }
  path.last = path.again = path.again_in_context = static_cast<std::uint32_t>(steps_.size());
  if (move.from.partial.empty()) {
    const auto repeated = [&](ReadsAgain reader) {
      return static_cast<std::uint32_t>(steps_again(reader, tile, path_).size());
    };
    path.again -= repeated(ReadsAgain::Always);
    path.again_in_context -= repeated(ReadsAgain::FromContextRanks);
  }
  paths_.push_back(path);
}

/// The route of a path between layouts of these names: of alike factors only their number counts.
KnownRoutes::Route KnownRoutes::named_route(const KnownPath& path, const Names& names, int slices) {
  Route route{
      {}, path.length / slices, path.again - path.first, path.again_in_context - path.first};
  for (std::uint32_t i = path.first; i < path.last; ++i) {
    RouteStep& step = route.steps.emplace_back();
    for (std::uint32_t rest = steps_[i].names; rest != 0; rest &= rest - 1U) {
      std::uint32_t factor =
          alike_.first[names.factors[static_cast<std::size_t>(std::countr_zero(rest))]];
      while ((step.factors >> factor & 1U) != 0) ++factor;
      step.factors |= 1U << factor;
    }
    const RouteMessage message{steps_[i].kind, steps_[i].axes, steps_[i].tiles / slices};
    const auto known = std::ranges::find(messages_, message);
    step.message = static_cast<std::uint32_t>(known - messages_.begin());
    if (known == messages_.end()) messages_.push_back(message);
  }
  return route;
}

std::size_t KnownRoutes::RouteHash::operator()(const Route& route) const {
  std::uint64_t sum = route.again;
  for (const RouteStep& step : route.steps) {
    sum = (sum ^ (std::uint64_t{step.message} << 32U | step.factors)) * 0x9E3779B97F4A7C15ULL;
    sum ^= sum >> 29U;
  }
  return static_cast<std::size_t>(sum);
}

std::uint32_t KnownRoutes::number_of(Route route) {
  const auto next = static_cast<std::uint32_t>(routes_.size());
  const auto [known, is_new] = route_numbers_.try_emplace(std::move(route), next);
  if (is_new) routes_.push_back(&known->first);
  return known->second;
}

namespace {

/// Roles beside the factors and what they make up together, of equal ones the first.
AxisSet other_roles(const DeviceMesh& mesh) {
  AxisSet roles;
  std::vector<unsigned> known{mesh[Axis::Out].factors};
  for (std::size_t i = 0; i < kRoleCount; ++i) {
    const MeshRole& role = mesh[static_cast<Axis>(i)];
    const bool is_known = std::ranges::find(known, role.factors) != known.end();
    if (role.size == 1 || is_known) continue;
    known.push_back(role.factors);
    roles.insert(static_cast<Axis>(i));
  }
  return roles;
}

bool are_alike(const Cluster& cluster, const DeviceMesh& mesh, Axis one, Axis other,
               const std::vector<AxisSet>& groups) {
  const unsigned own = mesh[one].factors;
  const unsigned theirs = mesh[other].factors;
  if (mesh[one].size != mesh[other].size) return false;
  return std::ranges::all_of(groups, [&](AxisSet group) {
    if (group.contains(one) || group.contains(other)) return true;
    const unsigned held = mesh.factors_of(group);
    if (((held & own) != 0) != ((held & theirs) != 0)) return false;
    return cost_alike(cluster, process_group(mesh, group | AxisSet{one}),
                      process_group(mesh, group | AxisSet{other}));
  });
}

}  // namespace

bool lie_alike(const Cluster& cluster, const DeviceMesh& one, const DeviceMesh& other) {
  const AxisSet cutting = kFactorAxes | AxisSet{Axis::In, Axis::Depth, Axis::Context};
  bool alike = alike_factors(cluster, one).first == alike_factors(cluster, other).first;
  for_each_axis(cutting, [&](Axis axis) { alike = alike && one[axis].size == other[axis].size; });
  return alike && std::ranges::all_of(subsets(one.active(cutting)), [&](AxisSet group) {
           return cost_alike(cluster, process_group(one, group), process_group(other, group));
         });
}

AlikeFactors alike_factors(const Cluster& cluster, const DeviceMesh& mesh) {
  AxisSet axes = other_roles(mesh);
  for (std::size_t f = 0; f < kMostFactors; ++f) {
    if (mesh[factor_axis(f)].size > 1) axes.insert(factor_axis(f));
  }
  const std::vector<AxisSet> groups = subsets(axes);
  AlikeFactors alike;
  for (std::size_t f = 1; f < kMostFactors && mesh[factor_axis(f)].size > 1; ++f) {
    if (are_alike(cluster, mesh, factor_axis(f - 1), factor_axis(f), groups)) {
      alike.first[f] = alike.first[f - 1];
    }
  }
  return alike;
}

}  // namespace plansearch
