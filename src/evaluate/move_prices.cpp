// SPDX-License-Identifier: Apache-2.0
// Computes: ways between layouts and their prices, one search for all pairs that are alike.
// Source: communication/redistribution.hpp, which does not look at the names of axes but where it
//         sums parts, in their order.
// Assumes: factors of a tensor group are all of one size.
// Units: seconds per micro-batch; elements of the whole message.
// Checked by: tests/unit/evaluate/move_prices_test.cpp (every pair against its own search)
#include "evaluate/move_prices.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "plansearch/error.hpp"

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

MovePrices::MovePrices(const DeviceMesh& mesh) : mesh_(mesh), known_(1) {
  int size = 1;
  for (std::size_t f = 0; f < kMostFactors; ++f) {
    const int own = mesh[factor_axis(f)].size;
    if (own == 1) continue;
    PLANSEARCH_CHECK(size == 1 || own == size);
    size = own;
    factors_ = f + 1;
  }
  places_.assign(1U << 12U, 0);
}

std::size_t MovePrices::Key::hash() const {
  std::uint64_t sum = static_cast<std::uint64_t>(frames) << 32U | subject;
  for (std::size_t i = 0; i < roles.size(); i += 2) {
    sum ^= static_cast<std::uint64_t>(roles[i]) << 32U | roles[i + 1];
    sum *= 0x9E3779B97F4A7C15ULL;
    sum ^= sum >> 29U;
  }
  return static_cast<std::size_t>(sum);
}

std::uint16_t MovePrices::role(const std::string& places) {
  if (places.empty()) return 0;
  const auto next = static_cast<std::uint16_t>(numbers_.size() + 1);
  PLANSEARCH_CHECK(next != 0);
  return numbers_.try_emplace(places, next).first->second;
}

MovePrices::Known MovePrices::describe(const Layout& layout) {
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

NumberedLayout MovePrices::numbered(Layout layout) {
  NumberedLayout result{std::move(layout)};
  result.number = paths_.number(result.layout);
  if (result.number == known_.size()) known_.push_back(describe(result.layout));
  return result;
}

/// The place of the way of this key, or where it belongs.
std::size_t MovePrices::find(const Key& key) {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = key.hash() & mask;
  while (places_[at] != 0 && !(ways_[places_[at] - 1].key == key)) at = (at + 1) & mask;
  return at;
}

Move MovePrices::price(const MovedTensor& tensor, const NumberedLayout& from,
                       const NumberedLayout& to, ReadsAgain reader) {
  if (from.number == to.number) return {};
  const Known& start = known_[from.number];
  const Known& goal = known_[to.number];
  Key key;
  key.frames = static_cast<std::uint32_t>(start.frame) << 16U | goal.frame;
  key.subject = tensor.subject;
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
  std::size_t at = find(key);
  if (places_[at] == 0) {
    add_way(key, order, tensor, from, to);
    at = find(key);
  }
  const Way way = ways_[places_[at] - 1];
  Move move{way.length, sum(way.first, way.last, order, tensor), {}};
  if (reader != ReadsAgain::Never) {
    const bool always = reader == ReadsAgain::Always;
    move.again = sum(always ? way.again : way.again_in_context, way.last, order, tensor);
  }
  return move;
}

void MovePrices::add_way(const Key& key, const Order& order, const MovedTensor& tensor,
                         const NumberedLayout& from, const NumberedLayout& to) {
  const Path& path = paths_.path(mesh_, tensor.extents, from, to);
  Way way{key, length_of(path), static_cast<std::uint32_t>(steps_.size()), 0, 0, 0};
  for (const PathStep& step : path) {
    Step made{step, 0, 0};
    made.step.axes = step.axes - kFactorAxes;
    for (std::size_t i = 0; i < factors_; ++i) {
      if (step.axes.contains(factor_axis(order[i]))) made.factors |= 1U << i;
    }
    std::string size;
    put(size, tensor.subject);
    put(size, step.kind);
    put(size, made.step.axes.bits());
    put(size, step.elements);
    const auto [place, is_new] = sizes_.try_emplace(size, prices_.size());
    if (is_new) prices_.resize(prices_.size() + (std::size_t{1} << factors_), -1.0);
    made.prices = place->second;
    steps_.push_back(made);
  }
  way.last = way.again = way.again_in_context = static_cast<std::uint32_t>(steps_.size());
  if (from.layout.partial.empty()) {
    const double held = local_elements(from.layout, mesh_, tensor.extents);
    const auto repeated = [&](ReadsAgain reader) {
      return static_cast<std::uint32_t>(steps_again(reader, held, path).size());
    };
    way.again -= repeated(ReadsAgain::Always);
    way.again_in_context -= repeated(ReadsAgain::FromContextRanks);
  }
  ways_.push_back(way);
  if (2 * ways_.size() > places_.size()) {
    places_.assign(places_.size() * 4, 0);
    for (std::uint32_t i = 0; i < ways_.size(); ++i) places_[find(ways_[i].key)] = i + 1;
  } else {
    places_[find(key)] = static_cast<std::uint32_t>(ways_.size());
  }
}

Seconds MovePrices::sum(std::uint32_t first, std::uint32_t last, const Order& order,
                        const MovedTensor& tensor) {
  double total = 0.0;
  for (std::uint32_t i = first; i < last; ++i) {
    const Step& step = steps_[i];
    if (step.step.kind == CommunicationKind::Slice) continue;
    std::uint32_t factors = 0;
    for (std::uint32_t rest = step.factors; rest != 0; rest &= rest - 1U) {
      factors |= 1U << order[static_cast<std::size_t>(std::countr_zero(rest))];
    }
    double& price = prices_[step.prices + factors];
    if (price < 0.0) {
      AxisSet axes = step.step.axes;
      for (std::size_t f = 0; f < factors_; ++f) {
        if ((factors >> f & 1U) != 0) axes.insert(factor_axis(f));
      }
      price = tensor.price(step.step, axes).value();
    }
    total += price;
  }
  return Seconds(total);
}

}  // namespace plansearch
