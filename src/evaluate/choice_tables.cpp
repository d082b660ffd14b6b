// SPDX-License-Identifier: Apache-2.0
// Computes: tables of the costs of all choices for a layer.
// Source: evaluate/choice_pricer.hpp. Options that leave or want a tensor in one layout share its
//         prices: each distinct combination of layouts is priced once.
// Assumes: costs add up; a tensor moves between the launches that touch it.
// Units: seconds per micro-batch and copy, bytes.
// Checked by: tests/unit/evaluate/choice_tables_test.cpp (random choices against whole plans)
#include "evaluate/choice_tables.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "plan/recompute.hpp"

namespace plansearch {
namespace {

/// Beyond it a table of three launches is taken apart.
constexpr std::size_t kLargestTable = 2'000'000;

/// How the operators of one launch, or an edge, touch one tensor.
struct Touch {
  std::optional<MakerLayouts> maker;
  std::vector<std::pair<std::size_t, ReaderLayouts>> readers;  ///< number among the consumers
  std::optional<NumberedLayout> leaving;

  [[nodiscard]] std::vector<std::uint32_t> key() const {
    std::vector<std::uint32_t> numbers;
    if (maker) numbers = {maker->made.number, maker->gradient.number};
    for (const auto& [number, layouts] : readers) {
      numbers.push_back(layouts.wanted.number);
      numbers.push_back(layouts.gradient.number);
    }
    if (leaving) numbers.push_back(leaving->number);
    return numbers;
  }
};

/// The distinct ways in which the options of one node touch a tensor.
struct NodeTouches {
  std::size_t node = 0;
  std::vector<std::size_t> of_option;
  std::vector<Touch> distinct;
};

/// Calls visit(indices) for every combination, the last index fastest.
template <typename Visit>
void for_each_combination(const std::vector<std::size_t>& sizes, Visit visit) {
  std::vector<std::size_t> at(sizes.size(), 0);
  while (true) {
    visit(at);
    std::size_t i = sizes.size();
    while (i > 0 && ++at[i - 1] == sizes[i - 1]) at[--i] = 0;
    if (i == 0) return;
  }
}

std::size_t product(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{1}, std::multiplies<>());
}

bool contains(const std::vector<std::size_t>& list, std::size_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

/// The table of one tensor.
class ChoiceTables::TensorTable {
 public:
  TensorTable(ChoicePricer& pricer, TensorId tensor, const std::vector<LaunchOptions>& launches,
              const std::vector<FactorCuts>& edges)
      : pricer_(pricer), tensor_(tensor) {
    const auto number = static_cast<std::size_t>(tensor);
    const BlockIndex& index = pricer.index();
    const std::size_t producer = index.producers[number];
    const auto& consumers = index.consumers[number];
    for (std::size_t n = 0; n < launches.size(); ++n) {
      const std::vector<std::size_t>& operators = launches[n].operators;
      const bool reads = std::any_of(consumers.begin(), consumers.end(),
                                     [&](std::size_t op) { return contains(operators, op); });
      if (!reads && !contains(operators, producer)) continue;
      NodeTouches& touches = nodes_.emplace_back(NodeTouches{n, {}, {}});
      collect(touches, launches[n].options.size(), [&](std::size_t option) {
        pricer.place(operators, launches[n].options[option]);
        Touch touch;
        if (contains(operators, producer)) touch.maker = pricer.maker(producer, tensor);
        for (std::size_t c = 0; c < consumers.size(); ++c) {
          if (!contains(operators, consumers[c])) continue;
          touch.readers.emplace_back(c, pricer.reader(consumers[c], tensor));
        }
        return touch;
      });
    }
    if (producer == kEdge) {
      collect(nodes_.emplace_back(NodeTouches{launches.size(), {}, {}}), edges.size(),
              [&](std::size_t option) {
                pricer.place_edges(edges[option]);
                return Touch{pricer.maker(kEdge, tensor), {}, {}};
              });
    }
    if (index.leaves[number]) {
      collect(nodes_.emplace_back(NodeTouches{launches.size() + 1, {}, {}}), edges.size(),
              [&](std::size_t option) {
                pricer.place_edges(edges[option]);
                return Touch{{}, {}, pricer.leaving(tensor)};
              });
    }
    readers_ = consumers.size();
  }

  [[nodiscard]] std::vector<ChoiceTable> tables(bool& exact) {
    std::vector<const NodeTouches*> all;
    std::size_t size = 1;
    for (const NodeTouches& node : nodes_) {
      all.push_back(&node);
      size *= node.of_option.size();
    }
    if (all.empty()) return {};
    if (all.size() <= 2 || size <= kLargestTable) return {table(all)};
    exact = false;
    const auto maker = std::find_if(all.begin(), all.end(), [](const NodeTouches* node) {
      return !node->distinct.empty() && node->distinct.front().maker.has_value();
    });
    std::vector<ChoiceTable> pairs;
    for (const NodeTouches* node : all) {
      if (node != *maker) pairs.push_back(table({*maker, node}));
    }
    return pairs;
  }

 private:
  template <typename Make>
  static void collect(NodeTouches& touches, std::size_t options, Make make) {
    std::map<std::vector<std::uint32_t>, std::size_t> known;
    for (std::size_t option = 0; option < options; ++option) {
      Touch touch = make(option);
      const auto [place, is_new] = known.try_emplace(touch.key(), touches.distinct.size());
      if (is_new) touches.distinct.push_back(std::move(touch));
      touches.of_option.push_back(place->second);
    }
  }

  [[nodiscard]] ChoiceTable table(const std::vector<const NodeTouches*>& nodes) {
    ChoiceTable result;
    std::vector<std::size_t> distinct;
    std::vector<std::size_t> options;
    for (const NodeTouches* node : nodes) {
      result.nodes.push_back(node->node);
      distinct.push_back(node->distinct.size());
      options.push_back(node->of_option.size());
    }
    if (product(options) == 0) return result;
    std::vector<PassCost> prices;
    prices.reserve(product(distinct));
    for_each_combination(distinct, [&](const std::vector<std::size_t>& chosen) {
      prices.push_back(price(nodes, chosen));
    });
    result.costs.reserve(product(options));
    for_each_combination(options, [&](const std::vector<std::size_t>& chosen) {
      std::size_t at = 0;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        at = at * distinct[i] + nodes[i]->of_option[chosen[i]];
      }
      result.costs.push_back(prices[at]);
    });
    return result;
  }

  [[nodiscard]] PassCost price(const std::vector<const NodeTouches*>& nodes,
                               const std::vector<std::size_t>& chosen) {
    layouts_.leaving = nullptr;
    layouts_.readers.assign(readers_, nullptr);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Touch& touch = nodes[i]->distinct[chosen[i]];
      if (touch.maker) layouts_.maker = &*touch.maker;
      for (const auto& [number, reader] : touch.readers) layouts_.readers[number] = &reader;
      if (touch.leaving) layouts_.leaving = &*touch.leaving;
    }
    return pricer_.move(tensor_, layouts_);
  }

  ChoicePricer& pricer_;
  TensorId tensor_;
  std::vector<NodeTouches> nodes_;
  std::size_t readers_ = 0;
  TensorLayouts layouts_;
};

ChoiceTables::ChoiceTables(const Request& request)
    : pricer_(request.problem, request.degrees, request.block, request.copies),
      launches_(sequence_options(request.problem, request.degrees, pricer_.block(), request.space)),
      edges_(edge_options(request.problem, request.degrees, pricer_.block(), request.space)) {
  add_nodes();
  for (std::size_t t = 0; t < block().tensors.size(); ++t) {
    if (differentiable(block().tensors[t])) add_tensor(static_cast<TensorId>(t));
  }
}

std::size_t ChoiceTables::options_of(std::size_t node) const {
  return node < launches_.size() ? launches_[node].options.size() : edges_.size();
}

void ChoiceTables::add_nodes() {
  for (const LaunchOptions& launch : launches_) {
    ChoiceNodeCosts& node = nodes_.emplace_back();
    for (const SequenceOption& option : launch.options) {
      pricer_.place(launch.operators, option);
      node.costs.push_back(pricer_.launch(launch.operators));
      node.saved.push_back(pricer_.saved(launch.operators));
    }
  }
  ChoiceNodeCosts& entry = nodes_.emplace_back();
  for (const FactorCuts& cuts : edges_) {
    pricer_.place_edges(cuts);
    entry.costs.emplace_back();
    entry.saved.push_back(pricer_.saved_inputs());
  }
  nodes_.push_back(
      {std::vector<LaunchCost>(edges_.size()), std::vector<ByRecompute<double>>(edges_.size())});
}

void ChoiceTables::add_tensor(TensorId tensor) {
  for (ChoiceTable& table : TensorTable(pricer_, tensor, launches_, edges_).tables(exact_)) {
    add(std::move(table));
  }
}

/// Into the node where there is one alone; to the table of the same nodes, where there is one.
void ChoiceTables::add(ChoiceTable table) {
  if (table.nodes.size() == 1) {
    auto& costs = nodes_[table.nodes.front()].costs;
    for (std::size_t i = 0; i < costs.size(); ++i) costs[i].add(table.costs[i]);
    return;
  }
  for (ChoiceTable& known : tables_) {
    if (known.nodes != table.nodes) continue;
    for (std::size_t i = 0; i < known.costs.size(); ++i) known.costs[i] += table.costs[i];
    return;
  }
  tables_.push_back(std::move(table));
}

Seconds ChoiceTables::sum(const std::vector<std::size_t>& options, Recompute level,
                          Rings rings) const {
  const double repeats = repeats_whole(block(), level) ? 1.0 : 0.0;
  Seconds total;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    const LaunchCost& cost = nodes_[n].costs[options[n]];
    total += cost.pass(rings).total(repeats) + cost.repeated[static_cast<std::size_t>(level)];
  }
  for (const ChoiceTable& table : tables_) {
    std::size_t at = 0;
    for (const std::size_t node : table.nodes) at = at * options_of(node) + options[node];
    total += table.costs[at].total(repeats);
  }
  return total;
}

BlockChoice ChoiceTables::choice(const std::vector<std::size_t>& options) const {
  BlockChoice choice;
  choice.operators.resize(block().operators.size());
  choice.squares.resize(block().operators.size());
  for (std::size_t n = 0; n < launches_.size(); ++n) {
    const SequenceOption& option = launches_[n].options[options[n]];
    for (std::size_t i = 0; i < launches_[n].operators.size(); ++i) {
      choice.operators[launches_[n].operators[i]] = option.operators[i].cuts;
      choice.squares[launches_[n].operators[i]] = option.operators[i].squares;
    }
  }
  choice.entering = edges_[options[entry()]];
  choice.leaving = edges_[options[exit()]];
  return choice;
}

}  // namespace plansearch
