// SPDX-License-Identifier: Apache-2.0
// The costs of every choice for one layer: by launch, and by the launches that share a tensor. Sums
// over these tables are the cost of the plan of the choices with nothing hidden between launches.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "partition/choice_pricer.hpp"

namespace plansearch {

/// One distinct use of a tensor by a launch, or by an edge.
struct OperandUse {
  std::optional<MakerLayouts> maker;
  std::vector<ReaderLayouts> readers;  ///< the operators of the launch that read it, in order
  std::optional<NumberedLayout> leaving;
};

struct OperandUses {
  std::size_t node = 0;
  std::vector<std::uint32_t> of_option;  ///< its use by option
  std::vector<OperandUse> uses;
  std::vector<ReadsAgain> again;  ///< by reader
};

/// Pairs of layouts are priced once, by a pricer that lives longer. Combinations are put together
/// from them as a derivation does it: each reader is supplied from the nearest layout that exists,
/// and gradients in one layout are added before they move.
class TensorPrices {
 public:
  /// The node that makes the tensor first, then those that read it in the order of their
  /// operators, the edge where it leaves last.
  TensorPrices(ChoicePricer& pricer, TensorId tensor, const std::vector<const OperandUses*>& nodes);

  /// For these options of each node alone, which count from 0 in their order.
  [[nodiscard]] TensorPrices restricted(const std::vector<std::vector<std::size_t>>& options) const;

  [[nodiscard]] std::vector<std::size_t> nodes() const;
  /// By option of the last node, for options of the others.
  void line(std::span<const std::size_t> options, std::span<PhaseCost> costs) const;
  /// The same, seconds in all with forward repeated.
  void totals(std::span<const std::size_t> options, double repeats, std::span<double> costs) const;
  /// The node that has the first reader; 0 where that is the maker's own.
  [[nodiscard]] std::size_t first_reader() const { return columns_.front().node; }
  /// Price of the first reader by option of the maker and of that node: the tensor comes from
  /// the maker, and its gradient goes back.
  [[nodiscard]] std::vector<double> first_pair(double repeats) const;

 private:
  struct Node {
    std::size_t node = 0;
    std::vector<std::uint32_t> of_option;
    std::size_t uses = 0;
  };
  /// Uses of a node by the number of a layout.
  struct UseOf {
    std::uint32_t layout = 0;
    std::uint32_t use = 0;
    auto operator<=>(const UseOf&) const = default;
  };
  using UsesOf = std::vector<UseOf>;  ///< in order
  /// A reader, or the edge where the tensor leaves; numbers of layouts by use of its node.
  struct Column {
    std::size_t node = 0;  ///< of `nodes_`
    std::vector<std::uint32_t> wanted;
    std::vector<std::uint32_t> gradients;
    bool reads_again = false;
    // Filled in for the last node:
    UsesOf by_gradient{};
    std::vector<std::uint32_t> joined{};    ///< uses whose gradient an earlier column sends as well
    std::vector<std::uint32_t> repeated{};  ///< uses for which this or a later column repeats
    UsesOf first_to_repeat{};               ///< not in an earlier column
  };
  struct Work;
  TensorPrices() = default;

  [[nodiscard]] std::size_t node_of(std::size_t source) const {
    return source == 0 ? 0 : columns_[source - 1].node;
  }
  /// Where the line of a use of node `from` begins in what leads to a column.
  [[nodiscard]] std::size_t start(std::size_t from, std::size_t column, const Work& work) const;
  void price_returns(ChoicePricer& pricer, TensorId tensor,
                     const ReshardingPrices::Layouts& gradients,
                     const ReshardingPrices::Layouts& needed, bool one_node);
  void fill(std::span<const std::size_t> options, Work& work) const;
  void add_fixed(std::size_t column, Work& work) const;
  void add_last(std::size_t column, Work& work) const;
  void add_repeats(const Column& column, Work& work) const;
  void add_returns(std::size_t column, Work& work) const;
  void index_uses();
  void index_uses(std::size_t column);

  std::vector<Node> nodes_;
  std::vector<Column> columns_;
  std::size_t first_ = 0;  ///< column of the last node
  /// By column, by source (the maker, columns before it): by use of the node that has the tensor
  /// and by use of the one that wants it; by use where they are one node.
  std::vector<std::vector<std::shared_ptr<const ReshardingCosts>>> supply_;
  /// Prices of gradients, by column: by use of the column and by use of the maker, turned.
  std::vector<std::vector<double>> returns_;
};

/// Joint costs of some nodes: [option of the first][option of the second]..., or, where those
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
  /// Leaves other options out, before tensors are priced. `options` by node, both edges alike.
  void keep(const std::vector<std::vector<bool>>& options);
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
