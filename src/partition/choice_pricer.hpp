// SPDX-License-Identifier: Apache-2.0
// Price of one launch of a block under one choice, and of one tensor between some of them: the
// functions that price a plan, for a placement in which nothing else is cut.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "communication/derive/tensor_layouts.hpp"
#include "evaluate/block/class_profile.hpp"
#include "evaluate/block/phase_message.hpp"
#include "partition/move_prices.hpp"
#include "partition/partition_options.hpp"

namespace plansearch {

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

/// Routes of the tensor group of these degrees, cut into `factors`; of use for as many replicas.
[[nodiscard]] std::shared_ptr<KnownRoutes> make_known_routes(const Problem& problem,
                                                             const PlanDegrees& degrees,
                                                             const std::vector<int>& factors,
                                                             const KnownRoutes* other = nullptr);

class ChoicePricer {
 public:
  /// `factors`: of the tensor group. `copies` of the block, whose reductions at the end of a step
  /// go together. `moves`: of another pricer of the same degrees but for sharding and
  /// recomputation.
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
