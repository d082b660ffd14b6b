// SPDX-License-Identifier: Apache-2.0
// Computes: what a tensor costs between the launches that touch it, all combinations of resharding paths.
// Source: communication/derive/derive_activations.cpp, whose choices are made here by the lengths
//         of paths that were found once for every pair of layouts.
// Assumes: readers of one tensor that ask for it again in backward do so for one reason.
// Units: seconds per micro-batch and copy; lengths in elements.
// Checked by: tests/unit/evaluate/choice_tables_test.cpp (random choices against whole plans)
#include "partition/choice_tables.hpp"

#include <algorithm>

#include "base/ranges.hpp"
#include "base/rows.hpp"

namespace plansearch {
namespace {

using Layouts = ReshardingPrices::Layouts;

std::vector<std::uint32_t> numbers_of(const Layouts& layouts) {
  std::vector<std::uint32_t> numbers;
  for (const NumberedLayout* layout : layouts) numbers.push_back(layout->number);
  return numbers;
}

/// Layouts of one reader of a node, or of the edge where the tensor leaves (its only column).
struct ColumnLayouts {
  std::size_t node = 0;
  Layouts wanted{};
  Layouts gradients{};
  ReadsAgain again = ReadsAgain::Never;
};

std::vector<ColumnLayouts> columns_of(const std::vector<const OperandUses*>& nodes) {
  std::vector<ColumnLayouts> columns;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (std::size_t r = 0; r < nodes[n]->again.size(); ++r) {
      ColumnLayouts& column = columns.emplace_back(ColumnLayouts{n});
      column.again = nodes[n]->again[r];
      for (const OperandUse& use : nodes[n]->uses) {
        column.wanted.push_back(&use.readers[r].wanted);
        column.gradients.push_back(&use.readers[r].gradient);
      }
    }
    if (nodes[n]->uses.empty() || !nodes[n]->uses.front().leaving) continue;
    ColumnLayouts& column = columns.emplace_back(ColumnLayouts{n});
    for (const OperandUse& use : nodes[n]->uses) column.wanted.push_back(&*use.leaving);
    column.gradients = column.wanted;
  }
  return columns;
}

/// Calls visit(use) for all of one layout.
template <typename Uses, typename Visit>
void for_each_use(const Uses& uses, std::uint32_t layout, Visit visit) {
  auto found =
      std::ranges::lower_bound(uses, layout, {}, [](const auto& one) { return one.layout; });
  for (; found != uses.end() && found->layout == layout; ++found) visit(found->use);
}

}  // namespace

constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);

/// One line as it grows.
struct TensorPrices::Work {
  std::vector<std::size_t> uses{};      ///< of the nodes before the last
  PhaseCost fixed{};                    ///< of their columns
  std::vector<std::uint32_t> wanted{};  ///< layouts brought to them that are not repeated so far,
  std::vector<double> again{};          ///< and what repeating would take
  std::vector<std::uint32_t> gradients{};  ///< of theirs, on their way
  std::vector<ReshardingCost> nearest{};   ///< to the column that is added, by path
  std::vector<double> forward{}, rest{};
  std::vector<std::pair<std::uint32_t, double>>
      sent{};  ///< paths that send nothing, and their rest
};

TensorPrices::TensorPrices(ChoicePricer& pricer, TensorId tensor,
                           const std::vector<const OperandUses*>& nodes) {
  for (const OperandUses* node : nodes) {
    nodes_.push_back({node->node, node->of_option, node->uses.size()});
  }
  Layouts made;
  Layouts needed;
  for (const OperandUse& use : nodes.front()->uses) {
    made.push_back(&use.maker->made);
    needed.push_back(&use.maker->gradient);
  }
  const std::vector<ColumnLayouts> columns = columns_of(nodes);
  ReadsAgain again = ReadsAgain::Never;
  for (const ColumnLayouts& column : columns) {
    columns_.push_back({column.node, numbers_of(column.wanted), numbers_of(column.gradients),
                        column.again != ReadsAgain::Never});
    if (column.again != ReadsAgain::Never) again = column.again;
  }
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const ColumnLayouts& column = columns[c];
    auto& supply = supply_.emplace_back();
    for (std::size_t source = 0; source <= c; ++source) {
      const Layouts& from = source == 0 ? made : columns[source - 1].wanted;
      const Pairs pairs = node_of(source) == column.node ? Pairs::OneToOne : Pairs::All;
      supply.push_back(pricer.moves(tensor, from, column.wanted, pairs, again));
    }
    price_returns(pricer, tensor, column.gradients, needed, column.node == 0);
  }
  index_uses();
}

/// Indices of the uses of the last node that every line needs, made once.
void TensorPrices::index_uses() {
  while (first_ < columns_.size() && columns_[first_].node + 1 < nodes_.size()) ++first_;
  for (std::size_t column = first_; column < columns_.size(); ++column) index_uses(column);
}

void TensorPrices::index_uses(std::size_t column) {
  Column& own = columns_[column];
  const auto repeats = [&](std::size_t from, std::size_t to, std::uint32_t use) {
    for (std::size_t other = from; other < to; ++other) {
      if (columns_[other].reads_again && columns_[other].wanted[use] == own.wanted[use])
        return true;
    }
    return false;
  };
  for (std::uint32_t use = 0; use < own.wanted.size(); ++use) {
    own.by_gradient.push_back({own.gradients[use], use});
    const bool joined = std::any_of(
        columns_.begin() + static_cast<std::ptrdiff_t>(first_),
        columns_.begin() + static_cast<std::ptrdiff_t>(column),
        [&](const Column& other) { return other.gradients[use] == own.gradients[use]; });
    if (joined) own.joined.push_back(use);
    if (repeats(column, columns_.size(), use)) own.repeated.push_back(use);
    if (own.reads_again && !repeats(first_, column, use)) {
      own.first_to_repeat.push_back({own.wanted[use], use});
    }
  }
  std::ranges::sort(own.by_gradient);
  std::ranges::sort(own.first_to_repeat);
}

void TensorPrices::price_returns(ChoicePricer& pricer, TensorId tensor, const Layouts& gradients,
                                 const Layouts& needed, bool one_node) {
  std::vector<double>& returns = returns_.emplace_back();
  const std::size_t uses = gradients.size();
  if (!pricer.returns(tensor)) {
    returns.assign(one_node ? uses : uses * needed.size(), 0.0);
    return;
  }
  const Pairs pairs = one_node ? Pairs::OneToOne : Pairs::All;
  const auto costs = pricer.moves(tensor, gradients, needed, pairs, ReadsAgain::Never);
  returns.resize(costs->pairs.size());
  const std::size_t width = one_node ? 1 : needed.size();
  for (std::size_t use = 0; use < uses; ++use) {
    for (std::size_t i = 0; i < width; ++i) {
      returns[i * uses + use] = (*costs)[use * width + i].time;
    }
  }
}

TensorPrices TensorPrices::restricted(const std::vector<std::vector<std::size_t>>& options) const {
  TensorPrices made;
  std::vector<std::vector<std::uint32_t>> kept;  // uses by node
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    Node& node = made.nodes_.emplace_back(Node{nodes_[n].node, {}, 0});
    std::vector<std::uint32_t>& uses = kept.emplace_back();
    std::vector<std::uint32_t> number(nodes_[n].uses, kNone);
    for (const std::size_t option : options[n]) {
      const std::uint32_t use = nodes_[n].of_option[option];
      if (number[use] == kNone) {
        number[use] = static_cast<std::uint32_t>(uses.size());
        uses.push_back(use);
      }
      node.of_option.push_back(number[use]);
    }
    node.uses = uses.size();
  }
  // Values by uses of one node and, where there are two, of another.
  const auto some = [&](const auto& all, std::size_t from, std::size_t node) {
    std::remove_cvref_t<decltype(all)> found;
    const std::vector<std::uint32_t> whole{0};
    for (const std::uint32_t row : from == node ? whole : kept[from]) {
      for (const std::uint32_t use : kept[node]) {
        found.push_back(all[row * nodes_[node].uses + use]);
      }
    }
    return found;
  };
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const Column& own = columns_[c];
    made.columns_.push_back({own.node, some(own.wanted, own.node, own.node),
                             some(own.gradients, own.node, own.node), own.reads_again});
    auto& supply = made.supply_.emplace_back();
    for (std::size_t source = 0; source <= c; ++source) {
      const ReshardingCosts& moves = *supply_[c][source];
      supply.push_back(std::make_shared<const ReshardingCosts>(ReshardingCosts{
          some(moves.pairs, node_of(source), own.node), moves.costs, moves.repeats}));
    }
    made.returns_.push_back(some(returns_[c], 0, own.node));
  }
  made.index_uses();
  return made;
}

std::vector<std::size_t> TensorPrices::nodes() const {
  return transformed(nodes_, &Node::node);
}

std::size_t TensorPrices::start(std::size_t from, std::size_t column, const Work& work) const {
  const std::size_t node = columns_[column].node;
  return from == node ? 0 : work.uses[from] * nodes_[node].uses;
}

/// A column of a node before the last one.
void TensorPrices::add_fixed(std::size_t column, Work& work) const {
  const Column& own = columns_[column];
  const std::size_t use = work.uses[own.node];
  const auto at = [&](std::size_t source) { return start(node_of(source), column, work) + use; };
  ReshardingCost best = (*supply_[column].front())[at(0)];
  for (std::size_t source = 1; source <= column; ++source) {
    const ReshardingCost& other = (*supply_[column][source])[at(source)];
    if (other.length < best.length) best = other;
  }
  work.fixed.forward += Seconds(best.time);
  const std::uint32_t wanted = own.wanted[use];
  if (supply_[column].front()->repeats) {
    const bool repeated = std::ranges::any_of(columns_, [&](const Column& other) {
      return other.node + 1 < nodes_.size() && other.reads_again &&
             other.wanted[work.uses[other.node]] == wanted;
    });
    if (repeated) {
      work.fixed.rest += Seconds(best.again);
    } else {
      work.wanted.push_back(wanted);
      work.again.push_back(best.again);
    }
  }
  const std::uint32_t gradient = own.gradients[use];
  if (contains(work.gradients, gradient)) return;
  work.gradients.push_back(gradient);
  work.fixed.rest += Seconds(returns_[column][start(0, column, work) + use]);
}

/// A column of the last node, for all its uses.
void TensorPrices::add_last(std::size_t column, Work& work) const {
  const Column& own = columns_[column];
  const std::size_t uses = own.wanted.size();
  const auto supply = [&](std::size_t source, auto take) {
    const ReshardingCosts& moves = *supply_[column][source];
    const std::uint32_t* pairs = moves.pairs.data() + start(node_of(source), column, work);
    const ReshardingCost* costs = moves.costs->data();
    for (std::size_t use = 0; use < uses; ++use) take(work.nearest[use], costs[pairs[use]]);
  };
  work.nearest.resize(uses);
  supply(0, [](ReshardingCost& nearest, const ReshardingCost& cost) { nearest = cost; });
  for (std::size_t source = 1; source <= column; ++source) {
    supply(source, [](ReshardingCost& nearest, const ReshardingCost& cost) {
      if (cost.length < nearest.length) nearest = cost;
    });
  }
  for (std::size_t use = 0; use < uses; ++use) work.forward[use] += work.nearest[use].time;
  if (supply_[column].front()->repeats) add_repeats(own, work);
  add_returns(column, work);
}

/// Tensors that readers fetch again in backward: layouts brought to this column of the last node,
/// and of those brought to columns of other nodes that this one is the first to repeat.
void TensorPrices::add_repeats(const Column& column, Work& work) const {
  for (const std::uint32_t use : column.repeated) work.rest[use] += work.nearest[use].again;
  for (std::size_t i = 0; i < work.wanted.size(); ++i) {
    for_each_use(column.first_to_repeat, work.wanted[i],
                 [&](std::uint32_t use) { work.rest[use] += work.again[i]; });
  }
}

/// The gradient back to the maker, where none in its layout is on its use already.
void TensorPrices::add_returns(std::size_t column, Work& work) const {
  const Column& own = columns_[column];
  work.sent.clear();
  const auto is_sent = [&](std::uint32_t use) { work.sent.emplace_back(use, work.rest[use]); };
  for (const std::uint32_t use : own.joined) is_sent(use);
  for (const std::uint32_t gradient : work.gradients) {
    for_each_use(own.by_gradient, gradient, is_sent);
  }
  add_row(work.rest.data(), &returns_[column][start(0, column, work)], own.wanted.size());
  for (const auto& [use, rest] : work.sent) work.rest[use] = rest;
}

void TensorPrices::fill(std::span<const std::size_t> options, Work& work) const {
  work.uses.clear();
  work.fixed = {};
  work.wanted.clear();
  work.again.clear();
  work.gradients.clear();
  for (std::size_t n = 0; n + 1 < nodes_.size(); ++n) {
    work.uses.push_back(nodes_[n].of_option[options[n]]);
  }
  for (std::size_t column = 0; column < first_; ++column) add_fixed(column, work);
  work.forward.assign(nodes_.back().uses, work.fixed.forward.value());
  work.rest.assign(nodes_.back().uses, work.fixed.rest.value());
  for (std::size_t column = first_; column < columns_.size(); ++column) add_last(column, work);
}

void TensorPrices::line(std::span<const std::size_t> options, std::span<PhaseCost> costs) const {
  thread_local Work work;
  fill(options, work);
  for (std::size_t option = 0; option < costs.size(); ++option) {
    const std::uint32_t use = nodes_.back().of_option[option];
    costs[option] = {Seconds(work.forward[use]), Seconds(work.rest[use])};
  }
}

void TensorPrices::totals(std::span<const std::size_t> options, double repeats,
                          std::span<double> costs) const {
  thread_local Work work;
  fill(options, work);
  add_row(work.rest.data(), work.forward.data(), work.rest.size());
  if (repeats != 0.0) {
    for (std::size_t use = 0; use < work.rest.size(); ++use) {
      work.rest[use] += repeats * work.forward[use];
    }
  }
  const std::vector<std::uint32_t>& uses = nodes_.back().of_option;
  for (std::size_t option = 0; option < costs.size(); ++option) {
    costs[option] = work.rest[uses[option]];
  }
}

std::vector<double> TensorPrices::first_pair(double repeats) const {
  const Node& maker = nodes_.front();
  const Node& reader = nodes_[first_reader()];
  const ReshardingCosts& moves = *supply_.front().front();
  std::vector<double> costs;
  costs.reserve(maker.of_option.size() * reader.of_option.size());
  for (const std::uint32_t made : maker.of_option) {
    for (const std::uint32_t use : reader.of_option) {
      const std::size_t at = made * reader.uses + use;
      costs.push_back(moves[at].time * (1.0 + repeats) + returns_.front()[at]);
    }
  }
  return costs;
}

}  // namespace plansearch
