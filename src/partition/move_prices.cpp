// SPDX-License-Identifier: Apache-2.0
// Computes: ways between layouts and their prices, one search for all pairs that are alike.
// Source: communication/redistribution/redistribution.hpp, which does not look at the names of axes
//         but where it
//         sums parts, in their order.
// Assumes: factors of a tensor group are all of one size; ways are the same for tensors of any
//          size.
// Units: seconds per micro-batch; elements of the whole message.
// Checked by: tests/unit/evaluate/move_prices_test.cpp (every pair against its own search)
#include "partition/move_prices.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

template <typename T>
void put(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// A term of a digit: where it stands, and all that the digit is but for its axes.
void put_place(std::string& text, std::size_t dim, std::size_t place, std::size_t term,
               const SliceDigit& digit) {
  put(text, static_cast<std::uint8_t>(dim));
  put(text, static_cast<std::uint8_t>(place));
  put(text, static_cast<std::uint8_t>(term));
  put(text, static_cast<std::uint8_t>(digit.terms.size()));
  put(text, digit.terms[term].coefficient);
  put(text, digit.modulus);
  put(text, digit.time);
  put(text, digit.last);
  put(text, digit.offset);
  put(text, digit.period);
}

}  // namespace

ReshardingPrices::ReshardingPrices(const DeviceMesh& mesh) {
  mesh_ = mesh;
  int size = 1;
  for (std::size_t f = 0; f < kMostFactors; ++f) {
    const int own = mesh[factor_axis(f)].size;
    if (own == 1) continue;
    PLANSEARCH_CHECK(size == 1 || own == size);
    size = own;
    factors_ = f + 1;
  }
  places_.assign(1U << 12U, {});
}

std::size_t KnownWays::Key::hash() const {
  std::uint64_t sum = frames;
  for (std::size_t i = 0; i < roles.size(); i += 2) {
    sum ^= static_cast<std::uint64_t>(roles[i]) << 32U | roles[i + 1];
    sum *= 0x9E3779B97F4A7C15ULL;
    sum ^= sum >> 29U;
  }
  return static_cast<std::size_t>(sum);
}

std::uint16_t ReshardingPrices::role(const std::string& places) {
  if (places.empty()) return 0;
  const auto next = static_cast<std::uint16_t>(numbers_.size() + 1);
  PLANSEARCH_CHECK(next != 0);
  return numbers_.try_emplace(places, next).first->second;
}

ReshardingPrices::Known ReshardingPrices::describe(const Layout& layout) {
  std::array<std::string, kMostFactors> places;
  std::string frame = "frame";
  const auto text_of = [&](Axis axis) -> std::string& {
    if (!kFactorAxes.contains(axis)) {
      put(frame, axis);
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
    put(text, rank++);
  });
  for (const Axis axis : layout.flat) put(text_of(axis), "flat");
  Known known;
  known.frame = role(frame);
  for (std::size_t f = 0; f < factors_; ++f) known.roles[f] = role(places[f]);
  std::iota(known.order.begin(), known.order.end(), std::uint8_t{0});
  std::sort(known.order.begin(), known.order.begin() + static_cast<std::ptrdiff_t>(factors_),
            [&](std::uint8_t a, std::uint8_t b) { return known.roles[a] < known.roles[b]; });
  return known;
}

NumberedLayout ReshardingPrices::numbered(Layout layout) {
  NumberedLayout result{std::move(layout)};
  result.number = layouts_.number(result.layout);
  if (result.number == known_.size()) known_.push_back(describe(result.layout));
  return result;
}

std::uint32_t ReshardingPrices::subject(double elements, WireClass wire, int sequences) {
  const auto next = static_cast<std::uint32_t>(subjects_.size());
  return subjects_.try_emplace({elements, wire, sequences}, next).first->second;
}

/// The place of the way of this key, or where it belongs.
ReshardingPrices::Place& ReshardingPrices::find(const Key& key, std::size_t hash) {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = hash & mask;
  while (places_[at].way != 0 &&
         !(places_[at].hash == hash && ways_[places_[at].way - 1].key == key)) {
    at = (at + 1) & mask;
  }
  return places_[at];
}

ReshardingCost ReshardingPrices::price(const ReshardedTensor& tensor, const NumberedLayout& from,
                                       const NumberedLayout& to, ReadsAgain reader) {
  if (from.number == to.number) return {};
  const Known& start = known_[from.number];
  const Known& goal = known_[to.number];
  Key key;
  key.frames = static_cast<std::uint32_t>(start.frame) << 16U | goal.frame;
  Order order = start.order;
  for (std::size_t i = 0; i < factors_; ++i) {
    const std::uint8_t factor = order[i];
    const auto roles = static_cast<std::uint32_t>(start.roles[factor]) << 16U | goal.roles[factor];
    std::size_t place = i;
    for (; place > 0 && key.roles[place - 1] > roles; --place) {
      key.roles[place] = key.roles[place - 1];
      order[place] = order[place - 1];
    }
    key.roles[place] = roles;
    order[place] = factor;
  }
  const std::size_t hash = key.hash();
  std::uint32_t number = find(key, hash).way;
  if (number == 0) {
    add_way(key, order, tensor, from, to);
    number = static_cast<std::uint32_t>(ways_.size());
    find(key, hash) = {hash, number};
    if (2 * ways_.size() > places_.size()) grow();
  }
  const Way& way = ways_[number - 1];
  ReshardingCost move{way.length, sum(way.first, way.last, order, tensor), 0.0};
  if (reader != ReadsAgain::Never) {
    const bool always = reader == ReadsAgain::Always;
    move.again = sum(always ? way.again : way.again_in_context, way.last, order, tensor);
  }
  return move;
}

void ReshardingPrices::add_way(const Key& key, const Order& order, const ReshardedTensor& tensor,
                               const NumberedLayout& from, const NumberedLayout& to) {
  const double elements =
      std::accumulate(tensor.extents.begin(), tensor.extents.end(), 1.0, std::multiplies<>());
  redistribute(mesh_, tensor.extents, from.layout, to.layout, *scratch_, found_);
  write_path(found_, mesh_, tensor.extents, path_);
  Way way{key, length_of(path_) / elements, static_cast<std::uint32_t>(steps_.size()), 0, 0, 0};
  for (const PathStep& step : path_) {
    Step made;
    for (std::size_t i = 0; i < factors_; ++i) {
      if (step.axes.contains(factor_axis(order[i]))) made.factors |= 1U << i;
    }
    const Size size{step.kind, step.axes - kFactorAxes, step.elements / elements};
    const auto known = std::find(sizes_.begin(), sizes_.end(), size);
    made.size = static_cast<std::uint32_t>(known - sizes_.begin());
    if (known == sizes_.end()) sizes_.push_back(size);
    steps_.push_back(made);
  }
  way.last = way.again = way.again_in_context = static_cast<std::uint32_t>(steps_.size());
  if (from.layout.partial.empty()) {
    const double held = local_elements(from.layout, mesh_, tensor.extents);
    const auto repeated = [&](ReadsAgain reader) {
      return static_cast<std::uint32_t>(steps_again(reader, held, path_).size());
    };
    way.again -= repeated(ReadsAgain::Always);
    way.again_in_context -= repeated(ReadsAgain::FromContextRanks);
  }
  ways_.push_back(way);
}

void ReshardingPrices::grow() {
  std::vector<Place> old(places_.size() * 4);
  std::swap(old, places_);
  for (const Place& place : old) {
    if (place.way != 0) find(ways_[place.way - 1].key, place.hash) = place;
  }
}

double ReshardingPrices::sum(std::uint32_t first, std::uint32_t last, const Order& order,
                             const ReshardedTensor& tensor) {
  if (prices_.size() <= tensor.subject) prices_.resize(tensor.subject + 1);
  std::vector<double>& prices = prices_[tensor.subject];
  double total = 0.0;
  for (std::uint32_t i = first; i < last; ++i) {
    const Step& step = steps_[i];
    std::uint32_t factors = 0;
    for (std::uint32_t rest = step.factors; rest != 0; rest &= rest - 1U) {
      factors |= 1U << order[static_cast<std::size_t>(std::countr_zero(rest))];
    }
    const std::size_t place = (std::size_t{step.size} << factors_) + factors;
    if (place >= prices.size()) prices.resize(sizes_.size() << factors_, -1.0);
    if (prices[place] < 0.0) prices[place] = price_of(sizes_[step.size], factors, tensor);
    total += prices[place];
  }
  return total;
}

double ReshardingPrices::price_of(const Size& size, std::uint32_t factors,
                                  const ReshardedTensor& tensor) {
  if (size.kind == CommunicationKind::Slice) return 0.0;
  AxisSet axes = size.axes;
  for (std::size_t f = 0; f < factors_; ++f) {
    if ((factors >> f & 1U) != 0) axes.insert(factor_axis(f));
  }
  const double elements = std::accumulate(tensor.extents.begin(), tensor.extents.end(), size.share,
                                          std::multiplies<>());
  return tensor.price(size.kind, axes, elements).value();
}

const ReshardingCosts& ReshardingPrices::price_all(const ReshardedTensor& tensor,
                                                   const Layouts& from, const Layouts& to,
                                                   Pairs pairs, ReadsAgain reader) {
  std::vector<std::uint32_t> asked{tensor.subject, static_cast<std::uint32_t>(reader),
                                   static_cast<std::uint32_t>(pairs),
                                   static_cast<std::uint32_t>(from.size())};
  for (const Layouts* ends : {&from, &to}) {
    for (const NumberedLayout* layout : *ends) asked.push_back(layout->number);
  }
  const auto known = tables_.find(asked);
  if (known != tables_.end()) return known->second;
  return tables_.try_emplace(std::move(asked), priced(tensor, from, to, pairs, reader))
      .first->second;
}

ReshardingCosts ReshardingPrices::priced(const ReshardedTensor& tensor, const Layouts& from,
                                         const Layouts& to, Pairs pairs, ReadsAgain reader) {
  ReshardingCosts moves;
  const auto add = [&](const NumberedLayout& start, const NumberedLayout& goal) {
    const ReshardingCost move = price(tensor, start, goal, reader);
    moves.lengths.push_back(move.length);
    moves.times.push_back(move.time);
    if (reader != ReadsAgain::Never) moves.again.push_back(move.again);
  };
  const std::size_t size = pairs == Pairs::All ? from.size() * to.size() : from.size();
  moves.lengths.reserve(size);
  moves.times.reserve(size);
  for (std::size_t i = 0; i < from.size(); ++i) {
    check_stop();
    if (pairs == Pairs::OneToOne) {
      add(*from[i], *to[i]);
      continue;
    }
    for (const NumberedLayout* goal : to) add(*from[i], *goal);
  }
  return moves;
}

}  // namespace plansearch
