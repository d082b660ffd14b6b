// SPDX-License-Identifier: Apache-2.0
// The costs of every choice for one layer: by launch, and by the launches that share a tensor. Sums
// over these tables are what the plan of the choices costs with nothing hidden between launches.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "partition/tensor_prices.hpp"

namespace plansearch {

/// What some nodes cost together: [option of the first][option of the second]..., or, where those
/// are too many to be kept, the prices of the tensor between them.
struct ChoiceTable {
  std::vector<std::size_t> nodes;
  std::vector<PhaseCost> costs;
  std::shared_ptr<const TensorPrices> prices{};
};

/// One launch, or one edge of the layer, by option.
struct ChoiceNodeCosts {
  std::vector<FusedGroupCost> costs;
  std::vector<ByRecompute<double>> saved;  ///< bytes kept for backward, per micro-batch
};

/// Nodes are the launches of the block in order, then the edge where it begins and the one where it
/// ends; both edges have the same options.
class ChoiceTables {
 public:
  struct Request {
    const Problem& problem;
    const PlanDegrees& degrees;
    std::size_t block = 0;
    double copies = 1.0;
    PartitionSpace space = PartitionSpace::All;
    std::shared_ptr<ReshardingPrices> moves{};  ///< as of ChoicePricer
  };
  /// Nodes get their prices, tensors between them none yet.
  explicit ChoiceTables(const Request& request);
  /// Once, before anything is asked about tables. Throws Stopped.
  void price_tensors();

  [[nodiscard]] const std::vector<FusedGroupOptions>& launches() const { return launches_; }
  [[nodiscard]] const std::vector<std::optional<FactorCuts>>& edges() const { return edges_; }
  [[nodiscard]] std::size_t entry() const { return launches_.size(); }
  [[nodiscard]] std::size_t exit() const { return launches_.size() + 1; }
  /// Messages of tensors that a node both makes and reads are not in it before `price_tensors`.
  [[nodiscard]] const std::vector<ChoiceNodeCosts>& nodes() const { return nodes_; }
  [[nodiscard]] const std::vector<ChoiceTable>& tables() const { return tables_; }
  /// Whether the tables are exact. Where a tensor with several readers has too many combinations
  /// for any search, each reader is supplied from where the tensor was made: no less than a plan
  /// pays.
  [[nodiscard]] bool exact() const { return exact_; }

  /// Passes of one copy, by node.
  [[nodiscard]] Seconds sum(const std::vector<std::size_t>& options, Recompute level,
                            Rings rings) const;
  [[nodiscard]] BlockChoice choice(const std::vector<std::size_t>& options) const;
  [[nodiscard]] const Block& block() const { return pricer_.block(); }

 private:
  [[nodiscard]] std::size_t options_of(std::size_t node) const;
  void add_nodes();
  void add_tensor(TensorId tensor);
  [[nodiscard]] std::vector<OperandUses> touches_of(TensorId tensor);
  void add_prices(TensorId tensor, const std::vector<const OperandUses*>& nodes);
  void add(ChoiceTable table);

  ChoicePricer pricer_;
  std::vector<FusedGroupOptions> launches_;
  std::vector<std::optional<FactorCuts>> edges_;
  std::vector<ChoiceNodeCosts> nodes_;
  std::vector<ChoiceTable> tables_;
  bool exact_ = true;
};

}  // namespace plansearch
