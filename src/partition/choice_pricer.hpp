// SPDX-License-Identifier: Apache-2.0
// Price of one launch of a block under one choice, and of one tensor between some of them: the
// functions that price a plan, for a placement in which nothing else is cut.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "communication/derive/tensor_layouts.hpp"
#include "evaluate/block/class_profile.hpp"
#include "evaluate/block/phase_message.hpp"
#include "partition/known_routes.hpp"
#include "partition/partition_options.hpp"

namespace plansearch {

/// A tensor that moves: messages of equal subjects are priced alike.
struct ReshardedTensor {
  std::uint32_t subject = 0;  ///< a small number for its elements in all and what one of them costs
  std::vector<double> extents{};  ///< of one replica
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
  std::size_t pairs_ = 0;  ///< in all tables
};

/// Whether tiles that travel while an operator runs are waited for at once, or only where they take
/// longer than its products.
enum class Rings : std::uint8_t { Exposed, Hidden };

/// Seconds of one micro-batch and copy of the block.
struct PhaseCost {
  Seconds forward;  ///< that a recomputation of the block repeats
  Seconds rest;

  bool operator==(const PhaseCost&) const = default;
  PhaseCost& operator+=(const PhaseCost& other) {
    forward += other.forward;
    rest += other.rest;
    return *this;
  }
  [[nodiscard]] Seconds total(double repeats) const { return forward * (1.0 + repeats) + rest; }
};

/// One launch under one choice.
struct FusedGroupCost {
  PhaseCost kernels;                ///< alone
  std::array<PhaseCost, 2> passes;  ///< with messages, by Rings
  ByRecompute<Seconds> repeated;    ///< kernels that a level runs again, the whole block's left out
  Seconds step;                     ///< reductions and updates of its parameters, per step and copy
  double states = 0.0;              ///< bytes of parameters, gradients and optimizer states

  [[nodiscard]] const PhaseCost& pass(Rings rings) const {
    return passes[static_cast<std::size_t>(rings)];
  }
  [[nodiscard]] PhaseCost& pass(Rings rings) { return passes[static_cast<std::size_t>(rings)]; }
  void add(const PhaseCost& cost) {
    for (PhaseCost& pass : passes) pass += cost;
  }
};

/// Routes of the tensor group of these degrees, cut into `factors`; of use for all degrees that
/// `share_routes` with them.
[[nodiscard]] std::shared_ptr<KnownRoutes> make_known_routes(const Problem& problem,
                                                             const PlanDegrees& degrees,
                                                             const std::vector<int>& factors,
                                                             const KnownRoutes* other = nullptr);

/// Whether both need the same routes, whose messages cost the same.
[[nodiscard]] bool share_routes(const Problem& problem, const PlanDegrees& one,
                                const PlanDegrees& other, const std::vector<int>& factors);

class ChoicePricer {
 public:
  /// `factors`: of the tensor group. `copies` of the block, whose reductions at the end of a step
  /// go together. `moves`: of another pricer of as large micro-batches, whose degrees share routes.
  ChoicePricer(const Problem& problem, const PlanDegrees& degrees, std::size_t block, double copies,
               const std::vector<int>& factors, std::shared_ptr<ReshardingPrices> moves = nullptr);
  ChoicePricer(const ChoicePricer&) = delete;
  ChoicePricer& operator=(const ChoicePricer&) = delete;

  [[nodiscard]] const Block& block() const { return block_; }
  [[nodiscard]] const BlockIndex& index() const { return index_; }

  /// Places the operators of a launch, or what enters and leaves the block; everything else whole.
  void place(const std::vector<std::size_t>& operators, const SequenceOption& option);
  void place_edges(const std::optional<FactorCuts>& cuts);

  /// The price of the placement made last.
  [[nodiscard]] FusedGroupCost launch(const std::vector<std::size_t>& operators);
  [[nodiscard]] MakerLayouts maker(std::size_t op, TensorId tensor);
  [[nodiscard]] ReaderLayouts reader(std::size_t op, TensorId tensor);
  [[nodiscard]] NumberedLayout leaving(TensorId tensor);
  /// Bytes that the operators of the launch leave behind of tensors that backward reads, by level.
  [[nodiscard]] ByRecompute<double> saved(const std::vector<std::size_t>& operators) const;
  [[nodiscard]] ByRecompute<double> saved_inputs() const;

  /// One copy whose operators all lie by role between edges that are cut so, of one micro-batch:
  /// embedding, head.
  [[nodiscard]] Seconds role_kernels(const std::optional<FactorCuts>& edges, Recompute level);
  [[nodiscard]] Seconds role_messages(const std::optional<FactorCuts>& edges, Recompute level);

  /// Messages that bring a tensor from some layouts to others.
  [[nodiscard]] std::shared_ptr<const ReshardingCosts> moves(TensorId tensor,
                                                             const ReshardingPrices::Layouts& from,
                                                             const ReshardingPrices::Layouts& to,
                                                             Pairs pairs, ReadsAgain reader);
  /// Whether its gradient is formed and moves.
  [[nodiscard]] bool returns(TensorId tensor) const;

 private:
  [[nodiscard]] DerivationInput input() const;
  void add_moved(TensorId tensor);
  void place_by_role(const std::optional<FactorCuts>& edges);
  [[nodiscard]] Seconds time(const Communication& demand) const;
  [[nodiscard]] Seconds time(const Communication& demand, double elements) const;
  void add_messages(std::size_t op, FusedGroupCost& cost, std::array<Seconds, 3>& rings);
  void add_parameters(std::size_t op, const LocalSizes& sizes, FusedGroupCost& cost);
  /// Weights of the tensors an operator keeps for backward: bytes per element, by level.
  void add_saved(std::size_t reader, const Saved& saved, double elements,
                 ByRecompute<double>& bytes) const;

  const Problem problem_;
  PlanDegrees degrees_;
  PricingContext context_;
  DeviceMesh mesh_;
  LinkRates rates_;
  Placements placements_;
  PlacementRules rules_;
  std::vector<double> extents_;  ///< of a micro-batch; those of the rules are of one sequence
  TensorPolicies policies_;
  ModelStatePolicy statics_;
  const Block& block_;
  BlockIndex index_;
  RepeatedShares repeated_;
  double copies_;
  BlockChoice& choice_;
  BlockPlacement placement_;
  BlockCuts cuts_;
  DerivationScratchPtr scratch_ = make_derivation_scratch();
  std::shared_ptr<ReshardingPrices> moves_;
  std::vector<ReshardedTensor> moved_;  ///< by tensor
  std::vector<Communication> demands_;
};

}  // namespace plansearch
