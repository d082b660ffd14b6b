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
#include <numeric>
#include <utility>

#include "base/hash.hpp"
#include "communication/redistribution/step_rates.hpp"
#include "cost/collective/place.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// A term of a digit: where it stands, and all that the digit is but for its axes.
void put_place(std::string& text, std::size_t dim, std::size_t place, std::size_t term,
               const SliceDigit& digit) {
  put_bytes(text, static_cast<std::uint8_t>(dim));
  put_bytes(text, static_cast<std::uint8_t>(place));
  put_bytes(text, static_cast<std::uint8_t>(term));
  put_bytes(text, static_cast<std::uint8_t>(digit.terms.size()));
  put_bytes(text, digit.terms[term].coefficient);
  put_bytes(text, digit.modulus);
  put_bytes(text, digit.time);
  put_bytes(text, digit.last);
  put_bytes(text, digit.offset);
  put_bytes(text, digit.period);
}

}  // namespace

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
    factors_ = f + 1;
  }
  places_.assign(1U << 12U, {});
  static_cast<void>(number_of({}));
}

std::size_t KnownRoutes::Key::hash() const {
  std::uint64_t sum = frames;
  for (std::size_t i = 0; i < roles.size(); i += 2) {
    sum ^= static_cast<std::uint64_t>(roles[i]) << 32U | roles[i + 1];
    sum *= 0x9E3779B97F4A7C15ULL;
    sum ^= sum >> 29U;
  }
  return static_cast<std::size_t>(sum);
}

std::uint16_t KnownRoutes::role(const std::string& places) {
  if (places.empty()) return 0;
  const auto next = static_cast<std::uint16_t>(numbers_.size() + 1);
  PLANSEARCH_CHECK(next != 0);
  return numbers_.try_emplace(places, next).first->second;
}

KnownRoutes::Known KnownRoutes::describe(const Layout& layout) {
  std::array<std::string, kMostFactors> places;
  std::string frame = "frame";
  const auto text_of = [&](Axis axis) -> std::string& {
    if (!kFactorAxes.contains(axis)) {
      put_bytes(frame, axis);
      return frame;
    }
    return places[static_cast<std::size_t>(axis) - static_cast<std::size_t>(Axis::Factor0)];
  };
  for (std::size_t dim = 0; dim < layout.dims.size(); ++dim) {
    const SliceDigits& digits = layout.dims[dim].digits();
    for (std::size_t i = 0; i < digits.size(); ++i) {
      for (std::size_t t = 0; t < digits[i].terms.size(); ++t) {
        put_place(text_of(digits[i].terms[t].axis), dim, i, t, digits[i]);
      }
    }
  }
  std::uint8_t rank = 0;
  for_each_axis(layout.partial, [&](Axis axis) {
    std::string& text = text_of(axis);
    text += "part";
    put_bytes(text, rank++);
  });
  for (const Axis axis : layout.flat) put_bytes(text_of(axis), "flat");
  Known known;
  known.frame = role(frame);
  for (std::size_t f = 0; f < factors_; ++f) known.roles[f] = role(places[f]);
  std::iota(known.order.begin(), known.order.end(), std::uint8_t{0});
  std::sort(known.order.begin(), known.order.begin() + static_cast<std::ptrdiff_t>(factors_),
            [&](std::uint8_t a, std::uint8_t b) { return known.roles[a] < known.roles[b]; });
  return known;
}

NumberedLayout KnownRoutes::numbered(Layout layout) {
  NumberedLayout result{std::move(layout)};
  result.number = layouts_.number(result.layout);
  if (result.number == known_.size()) known_.push_back(describe(result.layout));
  return result;
}

/// The place of the path of this key, or where it belongs.
KnownRoutes::Place& KnownRoutes::find(const Key& key, std::size_t hash) {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = hash & mask;
  while (places_[at].path != 0 &&
         !(places_[at].hash == hash && paths_[places_[at].path - 1].key == key)) {
    at = (at + 1) & mask;
  }
  return places_[at];
}

void KnownRoutes::grow() {
  std::vector<Place> old(places_.size() * 4);
  std::swap(old, places_);
  for (const Place& place : old) {
    if (place.path != 0) find(paths_[place.path - 1].key, place.hash) = place;
  }
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
  if (known == 0) known = 1 + find_route(extents, from, to, rates);
  return known - 1;
}

std::uint32_t KnownRoutes::find_route(const std::vector<double>& extents,
                                      const NumberedLayout& from, const NumberedLayout& to,
                                      const StepRates* rates) {
  const Known& start = known_[from.number];
  const Known& goal = known_[to.number];
  Key key;
  key.frames = static_cast<std::uint32_t>(start.frame) << 16U | goal.frame;
  FactorOrder order = start.order;
  const auto run = [&](std::uint8_t factor) { return rates == nullptr ? 0 : alike_.first[factor]; };
  for (std::size_t i = 0; i < factors_; ++i) {
    const std::uint8_t factor = order[i];
    const auto roles = static_cast<std::uint32_t>(start.roles[factor]) << 16U | goal.roles[factor];
    const auto comes_first = [&](std::size_t other) {
      const auto first = run(factor);
      const auto second = run(order[other]);
      return first != second ? first < second : roles < key.roles[other];
    };
    std::size_t place = i;
    for (; place > 0 && comes_first(place - 1); --place) {
      key.roles[place] = key.roles[place - 1];
      order[place] = order[place - 1];
    }
    key.roles[place] = roles;
    order[place] = factor;
  }
  const std::size_t hash = key.hash();
  std::uint32_t number = find(key, hash).path;
  if (number == 0) {
    add_path(key, order, {mesh_, extents, from.layout, to.layout, rates});
    number = static_cast<std::uint32_t>(paths_.size());
    find(key, hash) = {hash, number};
    if (2 * paths_.size() > places_.size()) grow();
  }
  return named_route(paths_[number - 1], order);
}

void KnownRoutes::add_path(const Key& key, const FactorOrder& order, const TensorMove& move) {
  const double elements =
      std::accumulate(move.extents.begin(), move.extents.end(), 1.0, std::multiplies<>());
  redistribute(move, *scratch_, found_);
  write_path(found_, move, path_);
  KnownPath path{key, length_of(path_) / elements, static_cast<std::uint32_t>(steps_.size())};
  for (const PathStep& step : path_) {
    RouteStep made;
    for (std::size_t i = 0; i < factors_; ++i) {
      if (step.axes.contains(factor_axis(order[i]))) made.factors |= 1U << i;
    }
    const RouteMessage message{step.kind, step.axes - kFactorAxes, step.elements / elements};
    const auto known = std::ranges::find(messages_, message);
    made.message = static_cast<std::uint32_t>(known - messages_.begin());
    if (known == messages_.end()) messages_.push_back(message);
    steps_.push_back(made);
  }
  path.last = path.again = path.again_in_context = static_cast<std::uint32_t>(steps_.size());
  if (move.from.partial.empty()) {
    const double held = local_elements(move.from, mesh_, move.extents);
    const auto repeated = [&](ReadsAgain reader) {
      return static_cast<std::uint32_t>(steps_again(reader, held, path_).size());
    };
    path.again -= repeated(ReadsAgain::Always);
    path.again_in_context -= repeated(ReadsAgain::FromContextRanks);
  }
  paths_.push_back(path);
}

/// The route of a path whose places are these factors: of alike factors only their number counts.
std::uint32_t KnownRoutes::named_route(KnownPath& path, const FactorOrder& order) {
  std::uint32_t runs = 0;
  for (std::size_t i = 0; i < factors_; ++i) runs = runs << 3U | alike_.first[order[i]];
  for (std::uint32_t at = path.named; at != 0; at = named_[at - 1].next) {
    if (named_[at - 1].runs == runs) return named_[at - 1].route;
  }
  Route route{{}, path.length, path.again - path.first, path.again_in_context - path.first};
  for (std::uint32_t i = path.first; i < path.last; ++i) {
    RouteStep& step = route.steps.emplace_back(RouteStep{0, steps_[i].message});
    for (std::uint32_t rest = steps_[i].factors; rest != 0; rest &= rest - 1U) {
      const auto place = static_cast<std::size_t>(std::countr_zero(rest));
      std::uint32_t factor = alike_.first[order[place]];
      while ((step.factors >> factor & 1U) != 0) ++factor;
      step.factors |= 1U << factor;
    }
  }
  const std::uint32_t number = number_of(std::move(route));
  named_.push_back({runs, number, path.named});
  path.named = static_cast<std::uint32_t>(named_.size());
  return number;
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
    unsigned held = 0;
    for_each_axis(group, [&](Axis axis) { held |= mesh[axis].factors; });
    if (((held & own) != 0) != ((held & theirs) != 0)) return false;
    return cost_alike(cluster, process_group(mesh, group | AxisSet{one}),
                      process_group(mesh, group | AxisSet{other}));
  });
}

}  // namespace

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
