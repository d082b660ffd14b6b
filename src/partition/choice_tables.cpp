// SPDX-License-Identifier: Apache-2.0
// Computes: tables of the costs of all choices for a layer.
// Source: partition/choice_pricer.hpp. Options that leave or want a tensor in one layout share its
//         prices: each distinct combination of layouts is priced once.
// Assumes: costs add up; a tensor moves between the launches that touch it.
// Units: seconds per micro-batch and copy, bytes.
// Checked by: tests/unit/evaluate/choice_tables_test.cpp (random choices against whole plans)
#include "partition/choice_tables.hpp"

#include <map>

#include "base/ranges.hpp"
#include "plan/primitives/recompute.hpp"

namespace plansearch {
namespace {

/// Beyond them a table is not written out. Those of two launches are worth more room: their lines
/// are asked for again with every option of the launches around them.
constexpr std::size_t kLargestTable = 500'000;
constexpr std::size_t kLargestOfTwo = 8'000'000;
/// Beyond it no search takes all launches of a tensor together: three products over five bits.
constexpr std::size_t kMostCombinations = 50'000'000;

std::vector<std::uint32_t> key_of(const OperandUse& touch) {
  std::vector<std::uint32_t> numbers;
  if (touch.maker) numbers = {touch.maker->made.number, touch.maker->gradient.number};
  for (const ReaderLayouts& reader : touch.readers) {
    numbers.push_back(reader.wanted.number);
    numbers.push_back(reader.gradient.number);
  }
  if (touch.leaving) numbers.push_back(touch.leaving->number);
  return numbers;
}

/// The uses of one node, `make` called by option.
template <typename Make>
OperandUses collect(std::size_t node, std::size_t options, Make make) {
  OperandUses touches{node, {}, {}, {}};
  std::map<std::vector<std::uint32_t>, std::uint32_t> known;
  for (std::size_t option = 0; option < options; ++option) {
    OperandUse touch = make(option);
    const auto next = static_cast<std::uint32_t>(touches.uses.size());
    const auto [place, is_new] = known.try_emplace(key_of(touch), next);
    if (is_new) touches.uses.push_back(std::move(touch));
    touches.of_option.push_back(place->second);
  }
  return touches;
}

}  // namespace

ChoiceTables::ChoiceTables(const Request& request)
    : pricer_(request.problem, request.degrees, request.block, request.copies,
              factors_of(request.space, request.degrees.tensor_out), request.moves),
      launches_(sequence_options(request.problem, request.degrees, pricer_.block(), request.space)),
      edges_(edge_options(request.problem, request.degrees, pricer_.block(), request.space)) {
  add_nodes();
}

namespace {

template <typename T>
void keep_some(const std::vector<bool>& kept, std::vector<T>& options) {
  std::size_t next = 0;
  std::erase_if(options, [&](const T&) { return !kept[next++]; });
}

}  // namespace

void ChoiceTables::keep(const std::vector<std::vector<bool>>& options) {
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    keep_some(options[n], nodes_[n].costs);
    keep_some(options[n], nodes_[n].saved);
    if (n < launches_.size()) keep_some(options[n], launches_[n].options);
  }
  keep_some(options[entry()], edges_);
}

void ChoiceTables::price_tensors() {
  for (std::size_t t = 0; t < block().tensors.size(); ++t) {
    if (differentiable(block().tensors[t])) add_tensor(static_cast<TensorId>(t));
  }
}

std::size_t ChoiceTables::options_of(std::size_t node) const {
  return node < launches_.size() ? launches_[node].options.size() : edges_.size();
}

void ChoiceTables::add_nodes() {
  for (const FusedGroupOptions& launch : launches_) {
    ChoiceNodeCosts& node = nodes_.emplace_back();
    for (const SequenceOption& option : launch.options) {
      pricer_.place(launch.operators, option);
      node.costs.push_back(pricer_.launch(launch.operators));
      node.saved.push_back(pricer_.saved(launch.operators));
    }
  }
  ChoiceNodeCosts& entry = nodes_.emplace_back();
  for (const std::optional<FactorCuts>& cuts : edges_) {
    pricer_.place_edges(cuts);
    entry.costs.emplace_back();
    entry.saved.push_back(pricer_.saved_inputs());
  }
  nodes_.push_back({std::vector<FusedGroupCost>(edges_.size()),
                    std::vector<ByRecompute<double>>(edges_.size())});
}

/// The node that makes the tensor first, the edge where it leaves last.
std::vector<OperandUses> ChoiceTables::touches_of(TensorId tensor) {
  const BlockIndex& index = pricer_.index();
  const std::size_t producer = index.producers[static_cast<std::size_t>(tensor)];
  const auto& consumers = index.consumers[static_cast<std::size_t>(tensor)];
  std::vector<OperandUses> nodes;
  if (producer == kEdge) {
    nodes.push_back(collect(entry(), edges_.size(), [&](std::size_t option) {
      pricer_.place_edges(edges_[option]);
      return OperandUse{pricer_.maker(kEdge, tensor), {}, {}};
    }));
  }
  for (std::size_t n = 0; n < launches_.size(); ++n) {
    const std::vector<std::size_t>& operators = launches_[n].operators;
    const bool makes = contains(operators, producer);
    std::vector<std::size_t> readers;
    for (const std::size_t reader : consumers) {
      if (contains(operators, reader)) readers.push_back(reader);
    }
    if (!makes && readers.empty()) continue;
    nodes.push_back(collect(n, launches_[n].options.size(), [&](std::size_t option) {
      pricer_.place(operators, launches_[n].options[option]);
      OperandUse touch;
      if (makes) touch.maker = pricer_.maker(producer, tensor);
      for (const std::size_t op : readers) touch.readers.push_back(pricer_.reader(op, tensor));
      return touch;
    }));
    for (const std::size_t op : readers) {
      nodes.back().again.push_back(reads_again(block(), index, op));
    }
  }
  if (index.leaves[static_cast<std::size_t>(tensor)]) {
    nodes.push_back(collect(exit(), edges_.size(), [&](std::size_t option) {
      pricer_.place_edges(edges_[option]);
      return OperandUse{{}, {}, pricer_.leaving(tensor)};
    }));
  }
  return nodes;
}

void ChoiceTables::add_tensor(TensorId tensor) {
  const std::vector<OperandUses> touches = touches_of(tensor);
  std::vector<const OperandUses*> all;
  std::size_t size = 1;
  for (const OperandUses& node : touches) {
    all.push_back(&node);
    size *= node.of_option.size();
  }
  if (all.size() <= 2 || size <= kMostCombinations) return add_prices(tensor, all);
  exact_ = false;
  for (std::size_t reader = 1; reader < all.size(); ++reader) {
    add_prices(tensor, {all.front(), all[reader]});
  }
}

void ChoiceTables::add_prices(TensorId tensor, const std::vector<const OperandUses*>& nodes) {
  std::size_t lines = 1;
  for (const OperandUses* node : nodes) lines *= node->of_option.size();
  if (lines == 0) return;
  const auto prices = std::make_shared<const TensorPrices>(pricer_, tensor, nodes);
  const std::size_t width = nodes.back()->of_option.size();
  ChoiceTable table{prices->nodes(), {}, {}};
  if (lines > (nodes.size() == 2 ? kLargestOfTwo : kLargestTable)) {
    table.prices = prices;
    tables_.push_back(std::move(table));
    return;
  }
  table.costs.resize(lines);
  std::vector<std::size_t> options(nodes.size() - 1, 0);
  for (std::size_t at = 0; at < lines; at += width) {
    prices->line(options, std::span(table.costs).subspan(at, width));
    for (std::size_t n = options.size(); n-- > 0;) {
      if (++options[n] < nodes[n]->of_option.size()) break;
      options[n] = 0;
    }
  }
  add(std::move(table));
}

/// Into the node where there is one alone; to the table of the same nodes, where there is one.
void ChoiceTables::add(ChoiceTable table) {
  if (table.nodes.size() == 1) {
    auto& costs = nodes_[table.nodes.front()].costs;
    for (std::size_t i = 0; i < costs.size(); ++i) costs[i].add(table.costs[i]);
    return;
  }
  for (ChoiceTable& known : tables_) {
    if (known.nodes != table.nodes || known.prices) continue;
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
    const FusedGroupCost& cost = nodes_[n].costs[options[n]];
    total += cost.pass(rings).total(repeats) + cost.repeated[static_cast<std::size_t>(level)];
  }
  for (const ChoiceTable& table : tables_) {
    if (table.prices) {
      std::vector<std::size_t> chosen;
      for (const std::size_t node : table.nodes) chosen.push_back(options[node]);
      std::vector<PhaseCost> line(options_of(table.nodes.back()));
      table.prices->line(std::span(chosen).first(chosen.size() - 1), line);
      total += line[chosen.back()].total(repeats);
      continue;
    }
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
