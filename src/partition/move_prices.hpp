// SPDX-License-Identifier: Apache-2.0
// Price of bringing tensors of one micro-batch from one layout to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "partition/known_routes.hpp"

namespace plansearch {

/// A tensor that moves: messages of equal subjects are priced alike.
struct ReshardedTensor {
  std::uint32_t subject = 0;  ///< a small number for its elements in all and what one of them costs
  std::vector<double> extents{};
  std::function<Seconds(CommunicationKind kind, AxisSet axes, double elements)> price{};
  const StepRates* rates = nullptr;  ///< that paths go by; as DerivationInput has them
};

struct ReshardingCost {
  double length = 0.0;  ///< length_of, in shares of the tensor
  double time = 0.0;    ///< seconds
  double again = 0.0;   ///< repeated in backward by a reader that reads it again
};

/// From each of some layouts to each of others, or from each to its own.
struct ReshardingCosts {
  std::vector<std::uint32_t> pairs;                          ///< the cost of each, by number
  std::shared_ptr<const std::vector<ReshardingCost>> costs;  ///< different ones
  bool repeats = false;                                      ///< whether anybody reads it again
  [[nodiscard]] const ReshardingCost& operator[](std::size_t pair) const {
    return (*costs)[pairs[pair]];
  }
};
enum class Pairs : std::uint8_t { All, OneToOne };

/// For one thread at a time.
class ReshardingPrices {
 public:
  explicit ReshardingPrices(std::shared_ptr<KnownRoutes> routes) : routes_(std::move(routes)) {}

  [[nodiscard]] KnownRoutes& routes() { return *routes_; }
  /// The same layout with its number.
  [[nodiscard]] NumberedLayout numbered(Layout layout);
  /// A number for tensors of so many elements, messages of which cost the same by their size.
  [[nodiscard]] std::uint32_t subject(double elements, WireClass wire, int sequences);
  /// Layouts have numbers from here; tensors of one subject between the same layouts share the
  /// costs. Throws Stopped.
  using Layouts = std::vector<const NumberedLayout*>;
  using CostsPtr = std::shared_ptr<const ReshardingCosts>;
  [[nodiscard]] CostsPtr price_all(const ReshardedTensor& tensor, const Layouts& from,
                                   const Layouts& to, Pairs pairs, ReadsAgain reader);

 private:
  [[nodiscard]] ReshardingCosts priced(const ReshardedTensor& tensor, const Layouts& from,
                                       const Layouts& to, Pairs pairs, ReadsAgain reader);
  [[nodiscard]] ReshardingCost price(const KnownRoutes::Route& route, const ReshardedTensor& tensor,
                                     ReadsAgain reader);
  [[nodiscard]] double price(const RouteStep& step, const ReshardedTensor& tensor);

  std::shared_ptr<KnownRoutes> routes_;
  std::map<std::tuple<double, WireClass, int>, std::uint32_t> subjects_;
  std::vector<std::vector<double>>
      steps_;  ///< by subject; by message and factors, below 0: not yet
  std::map<std::vector<std::uint32_t>, CostsPtr> tables_;
};

}  // namespace plansearch
