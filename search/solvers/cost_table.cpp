// SPDX-License-Identifier: Apache-2.0
// Computes: the cheapest assignment of a graph of choices, node by node.
// Source: variable elimination (Dechter, Bucket elimination, 1999), of which the segmented dynamic
//         program of PrimePar (ASPLOS 2024, section 5) is one order: a segment ends where a long
//         edge begins or ends. The order here is the one with the smallest tables.
// Assumes: costs add up and are not NaN.
// Units: those of the caller.
// Checked by: tests/unit/search/cost_table_test.cpp (exhaustive)
#include "search/solvers/cost_table.hpp"

#include <deque>
#include <functional>
#include <numeric>

#include "base/ranges.hpp"
#include "base/rows.hpp"

namespace plansearch {
namespace {

/// How far apart the options of a node lie in a table; 0 where it is none of its nodes.
std::size_t stride(const CostTable& table, std::size_t node,
                   const std::vector<std::vector<double>>& options) {
  std::size_t step = 1;
  for (std::size_t i = table.nodes.size(); i-- > 0;) {
    if (table.nodes[i] == node) return step;
    step *= options[table.nodes[i]].size();
  }
  return 0;
}

std::vector<std::size_t> sizes_of(const std::vector<std::size_t>& nodes,
                                  const std::vector<std::vector<double>>& options) {
  return transformed(nodes, [&](const std::size_t node) { return options[node].size(); });
}

/// The same costs with the nodes in another order.
CostTable reordered(const CostTable& table, std::vector<std::size_t> nodes,
                    const std::vector<std::vector<double>>& options) {
  CostTable result{std::move(nodes), {}};
  result.costs.resize(table.costs.size());
  std::vector<std::size_t> strides;
  for (const std::size_t node : result.nodes) strides.push_back(stride(table, node, options));
  double* cost = result.costs.data();
  for_each_choice(sizes_of(result.nodes, options), [&](const std::vector<std::size_t>& chosen) {
    *cost++ = table.costs[std::inner_product(chosen.begin(), chosen.end(), strides.begin(),
                                             std::size_t{0})];
  });
  return result;
}

/// Sums tables over the options of the nodes of `sum`, row by row, the cheapest option of one more
/// node taken: one min-plus product per row and option.
class Contraction {
 public:
  Contraction(std::size_t node, const std::vector<CostTable>& used, CostTable& sum,
              const std::vector<std::vector<double>>& options)
      : options_(options), node_(node), sum_(sum) {
    const std::size_t last = sum.nodes.empty() ? node : sum.nodes.back();
    outer_.assign(sum.nodes.begin(), sum.nodes.end() - (sum.nodes.empty() ? 0 : 1));
    for (const CostTable& table : used) {
      if (table.lines && last != node && table.nodes.back() == last) {
        lines_.push_back(line(table));
      } else if (contains(table.nodes, last) && last != node) {
        std::vector<std::size_t> nodes = table.nodes;
        std::erase(nodes, last);
        nodes.push_back(last);
        const CostTable& whole = at_hand(table);
        rows_.push_back(placed(
            whole.nodes == nodes ? whole : own(reordered(whole, std::move(nodes), options))));
      } else {
        points_.push_back(placed(at_hand(table)));
      }
    }
    width_ = last == node ? 1 : options[last].size();
  }

  void run() {
    std::vector<std::size_t> chosen(outer_.size(), 0);
    joined_.resize(width_);
    more_.resize(width_);
    for (std::size_t row = 0; row < sum_.costs.size(); row += width_) {
      for (std::size_t option = 0; option < options_[node_].size(); ++option) {
        double base = options_[node_][option];
        for (const Placed& table : points_) base += table.costs[at(table, chosen, option)];
        if (base == ChoiceGraph::kImpossible) continue;
        min_plus_row(&sum_.costs[row], row_of(chosen, option), base, width_);
      }
      advance(chosen);
    }
  }

 private:
  struct Placed {
    const double* costs = nullptr;
    std::vector<std::size_t> strides;  ///< by outer node
    std::size_t own = 0;               ///< of the node that is chosen
  };

  const CostTable& own(CostTable table) { return made_.emplace_back(std::move(table)); }
  const CostTable& at_hand(const CostTable& table) {
    return table.lines ? own(written_out(table, sizes_of(table.nodes, options_))) : table;
  }

  [[nodiscard]] Placed placed(const CostTable& table) const {
    Placed result{table.costs.data(), {}, 0};
    for (std::size_t i = 0; i + 1 < sum_.nodes.size(); ++i) {
      result.strides.push_back(stride(table, sum_.nodes[i], options_));
    }
    result.own = stride(table, node_, options_);
    return result;
  }

  static std::size_t at(const Placed& table, const std::vector<std::size_t>& chosen,
                        std::size_t option) {
    return std::inner_product(chosen.begin(), chosen.end(), table.strides.begin(),
                              option * table.own);
  }

  /// Costs that are made line by line: the places of the nodes before the last among the outer
  /// ones; behind them, the node that is chosen.
  struct Line {
    const CostLines* lines;
    std::vector<std::size_t> places;
  };

  [[nodiscard]] Line line(const CostTable& table) const {
    Line result{table.lines.get(), {}};
    for (std::size_t i = 0; i + 1 < table.nodes.size(); ++i) {
      const auto place = std::ranges::find(outer_, table.nodes[i]);
      result.places.push_back(static_cast<std::size_t>(place - outer_.begin()));
    }
    return result;
  }

  const double* row_of(const std::vector<std::size_t>& chosen, std::size_t option) {
    if (rows_.size() == 1 && lines_.empty()) {
      return &rows_.front().costs[at(rows_.front(), chosen, option)];
    }
    std::ranges::fill(joined_, 0.0);
    for (const Placed& table : rows_) {
      add_row(joined_.data(), &table.costs[at(table, chosen, option)], width_);
    }
    for (const Line& line : lines_) {
      own_.clear();
      for (const std::size_t place : line.places) {
        own_.push_back(place < chosen.size() ? chosen[place] : option);
      }
      line.lines->line(own_, more_);
      add_row(joined_.data(), more_.data(), width_);
    }
    return joined_.data();
  }

  void advance(std::vector<std::size_t>& chosen) const {
    for (std::size_t i = chosen.size(); i-- > 0;) {
      if (++chosen[i] < options_[outer_[i]].size()) return;
      chosen[i] = 0;
    }
  }

  const std::vector<std::vector<double>>& options_;
  std::size_t node_;
  CostTable& sum_;
  std::deque<CostTable> made_;      ///< lines written out, tables turned
  std::vector<std::size_t> outer_;  ///< nodes of the sum but the last
  std::vector<Placed> rows_;        ///< tables with that last node
  std::vector<Line> lines_;
  std::vector<Placed> points_;  ///< the others
  std::vector<double> joined_, more_;
  std::vector<std::size_t> own_;
  std::size_t width_ = 1;
};

std::vector<std::size_t> neighbours(std::size_t node, const std::vector<CostTable>& tables) {
  std::vector<std::size_t> found;
  for (const CostTable& table : tables) {
    if (!contains(table.nodes, node)) continue;
    for (const std::size_t other : table.nodes) {
      if (other != node && !contains(found, other)) found.push_back(other);
    }
  }
  return found;
}

double cost_of(const CostTable& table, const std::vector<std::size_t>& chosen,
               const std::vector<std::vector<double>>& options) {
  if (table.lines) {
    std::vector<std::size_t> own;
    for (const std::size_t node : table.nodes) own.push_back(chosen[node]);
    std::vector<double> costs(options[table.nodes.back()].size());
    table.lines->line(std::span(own).first(own.size() - 1), costs);
    return costs[own.back()];
  }
  std::size_t at = 0;
  for (const std::size_t node : table.nodes) at = at * options[node].size() + chosen[node];
  return table.costs[at];
}

}  // namespace

CostTable written_out(CostTable table, std::span<const std::size_t> sizes) {
  const std::size_t width = sizes.back();
  table.costs.reserve(
      std::accumulate(sizes.begin(), sizes.end(), std::size_t{1}, std::multiplies<>()));
  for_each_choice(sizes.first(sizes.size() - 1), [&](const std::vector<std::size_t>& chosen) {
    table.costs.resize(table.costs.size() + width);
    table.lines->line(chosen, std::span(table.costs).last(width));
  });
  table.lines = nullptr;
  return table;
}

Elimination::Elimination(ChoiceGraph graph, std::vector<std::size_t> kept,
                         std::vector<std::size_t> sizes)
    : sizes_(std::move(sizes)), tables_(std::move(graph.edges)) {
  const bool own = sizes_.empty();
  for (ChoiceNode& node : graph.nodes) {
    if (own) sizes_.push_back(node.costs.size());
    nodes_.push_back(std::move(node.costs));
  }
  std::vector<std::size_t> left;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (!contains(kept, n)) left.push_back(n);
  }
  const auto table_size = [&](std::size_t node) {
    auto size = static_cast<double>(sizes_[node]);
    for (const std::size_t other : neighbours(node, tables_)) {
      size *= static_cast<double>(sizes_[other]);
    }
    return size;
  };
  while (!left.empty()) {
    const std::size_t node = *std::ranges::min_element(
        left, [&](std::size_t a, std::size_t b) { return table_size(a) < table_size(b); });
    eliminate(node);
    std::erase(left, node);
  }
  // The tables that are left are added up over the kept nodes.
  costs_.nodes = std::move(kept);
  std::size_t size = 1;
  for (const std::size_t node : costs_.nodes) size *= nodes_[node].size();
  costs_.costs.assign(size, 0.0);
  std::vector<std::size_t> chosen(nodes_.size(), 0);
  for (std::size_t entry = 0; entry < size; ++entry) {
    std::size_t rest = entry;
    for (std::size_t i = costs_.nodes.size(); i-- > 0;) {
      const std::size_t node = costs_.nodes[i];
      chosen[node] = rest % nodes_[node].size();
      rest /= nodes_[node].size();
      costs_.costs[entry] += nodes_[node][chosen[node]];
    }
    for (const CostTable& table : tables_) costs_.costs[entry] += cost_of(table, chosen, nodes_);
  }
}

void Elimination::eliminate(std::size_t node) {
  CostTable made{neighbours(node, tables_), {}};
  // The widest one last: its options are the rows.
  std::ranges::stable_sort(made.nodes,
                           [&](std::size_t a, std::size_t b) { return sizes_[a] < sizes_[b]; });
  // Costs that come in lines stay lines.
  for (const CostTable& table : tables_) {
    if (!table.lines || !contains(table.nodes, node)) continue;
    const auto last = std::ranges::find(made.nodes, table.nodes.back());
    if (last == made.nodes.end()) continue;
    std::rotate(last, last + 1, made.nodes.end());
    break;
  }
  const auto used = std::stable_partition(
      tables_.begin(), tables_.end(), [&](const CostTable& t) { return !contains(t.nodes, node); });
  Step step{node, {std::make_move_iterator(used), std::make_move_iterator(tables_.end())}};
  tables_.erase(used, tables_.end());
  std::size_t size = 1;
  for (const std::size_t other : made.nodes) size *= nodes_[other].size();
  made.costs.assign(size, ChoiceGraph::kImpossible);
  Contraction(node, step.used, made, nodes_).run();
  tables_.push_back(std::move(made));
  steps_.push_back(std::move(step));
}

void Elimination::complete(std::vector<std::size_t>& options) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const std::vector<double>& own = nodes_[step->node];
    double least = ChoiceGraph::kImpossible;
    std::size_t best = 0;
    for (std::size_t option = 0; option < own.size(); ++option) {
      options[step->node] = option;
      double cost = own[option];
      for (const CostTable& table : step->used) cost += cost_of(table, options, nodes_);
      if (cost < least) {
        least = cost;
        best = option;
      }
    }
    options[step->node] = best;
  }
}

}  // namespace plansearch
