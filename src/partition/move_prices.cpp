// SPDX-License-Identifier: Apache-2.0
// Computes: the price of every route that brings a tensor to another layout.
// Source: routes (partition/known_routes.hpp), whose messages a caller prices.
// Assumes: messages over alike factors cost the same (partition/known_routes.hpp).
// Units: seconds per micro-batch; elements of the whole message.
// Checked by: tests/unit/evaluate/move_prices_test.cpp (every pair against its own search)
#include "partition/choice_pricer.hpp"

#include <numeric>

#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

/// Pairs in tables that are kept: 32 MB.
constexpr std::size_t kMostPairs = 8'000'000;

}  // namespace

NumberedLayout ReshardingPrices::numbered(Layout layout) {
  const auto lock = routes_->lock();
  return routes_->numbered(std::move(layout));
}

std::uint32_t ReshardingPrices::subject(double elements, WireClass wire, int sequences) {
  const auto next = static_cast<std::uint32_t>(subjects_.size());
  return subjects_.try_emplace({elements, wire, sequences}, next).first->second;
}

double ReshardingPrices::price(const RouteStep& step, const ReshardedTensor& tensor) {
  if (steps_.size() <= tensor.subject) steps_.resize(tensor.subject + 1);
  std::vector<double>& known = steps_[tensor.subject];
  const std::size_t place = (std::size_t{step.message} << kMostFactors) + step.factors;
  if (place >= known.size()) known.resize((std::size_t{step.message} + 1) << kMostFactors, -1.0);
  if (known[place] >= 0.0) return known[place];
  const RouteMessage& message = routes_->message(step.message);
  if (message.kind == CommunicationKind::Slice) return known[place] = 0.0;
  AxisSet axes = message.axes;
  for (std::size_t f = 0; f < kMostFactors; ++f) {
    if ((step.factors >> f & 1U) != 0) axes.insert(factor_axis(f));
  }
  const double elements = std::accumulate(tensor.extents.begin(), tensor.extents.end(),
                                          message.share, std::multiplies<>());
  return known[place] = tensor.price(message.kind, axes, elements).value();
}

ReshardingCost ReshardingPrices::price(const KnownRoutes::Route& route,
                                       const ReshardedTensor& tensor, ReadsAgain reader) {
  ReshardingCost cost{route.length, 0.0, 0.0};
  const std::size_t again = reader == ReadsAgain::Always ? route.again : route.again_in_context;
  for (std::size_t i = 0; i < route.steps.size(); ++i) {
    const double time = price(route.steps[i], tensor);
    cost.time += time;
    if (reader != ReadsAgain::Never && i >= again) cost.again += time;
  }
  return cost;
}

ReshardingPrices::CostsPtr ReshardingPrices::price_all(const ReshardedTensor& tensor,
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
  if (pairs_ > kMostPairs) {
    tables_.clear();
    pairs_ = 0;
  }
  const auto made = std::make_shared<ReshardingCosts>(priced(tensor, from, to, pairs, reader));
  pairs_ += made->pairs.size();
  return tables_[asked] = made;
}

ReshardingCosts ReshardingPrices::priced(const ReshardedTensor& tensor, const Layouts& from,
                                         const Layouts& to, Pairs pairs, ReadsAgain reader) {
  const auto lock = routes_->lock();
  const auto costs = std::make_shared<std::vector<ReshardingCost>>();
  ReshardingCosts moves{{}, costs, reader != ReadsAgain::Never};
  moves.pairs.reserve(pairs == Pairs::All ? from.size() * to.size() : from.size());
  std::vector<std::uint32_t> number;  // of the cost of a route, from 1
  const auto add = [&](const NumberedLayout& start, const NumberedLayout& goal) {
    const std::uint32_t route = routes_->route(tensor.extents, start, goal, tensor.rates);
    if (route >= number.size()) number.resize(routes_->count(), 0);
    if (number[route] == 0) {
      costs->push_back(price((*routes_)[route], tensor, reader));
      number[route] = static_cast<std::uint32_t>(costs->size());
    }
    moves.pairs.push_back(number[route] - 1);
  };
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
