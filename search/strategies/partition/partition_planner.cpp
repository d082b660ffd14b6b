// SPDX-License-Identifier: Apache-2.0
// Computes: the choice of least sum for every layer, edges tied from layer to layer.
// Source: PrimePar (ASPLOS 2024, section 5), as elimination of all launches between the edges of a
//         layer (cost_table.hpp); bytes at a price per byte.
// Assumes: costs add up; layers of one kind are cut alike; embedding and head lie by role.
// Units: seconds per micro-batch, bytes.
// Checked by: tests/unit/search/partition_planner_test.cpp (exhaustive; whole plans)
#include "search/strategies/partition/partition_planner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "plan/primitives/recompute.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "search/solvers/cost_table.hpp"

namespace plansearch {
namespace {

double copies_of(const Network& network, std::size_t block) {
  double copies = 0.0;
  for (const BlockRun& run : network.order) {
    if (run.block == block) copies += static_cast<double>(run.count);
  }
  return copies;
}

/// How costs of one copy become one number.
struct Weights {
  Recompute level = Recompute::None;
  Rings rings = Rings::Hidden;
  double seconds_per_byte = 0.0;
  double micro_batches = 1.0;
  double in_flight = 1.0;  ///< micro-batches whose activations are held
};

double bytes_of(const ChoiceNodeCosts& node, std::size_t option, const Weights& weights) {
  return node.costs[option].states +
         node.saved[option][static_cast<std::size_t>(weights.level)] * weights.in_flight;
}

double seconds_of(const FusedGroupCost& cost, double repeats, const Weights& weights) {
  return (cost.pass(weights.rings).total(repeats) +
          cost.repeated[static_cast<std::size_t>(weights.level)] +
          cost.step / weights.micro_batches)
      .value();
}

/// Prices of a tensor, in seconds.
class PricedLines : public CostLines {
 public:
  PricedLines(std::shared_ptr<const TensorPrices> prices, double repeats)
      : prices_(std::move(prices)), repeats_(repeats) {}
  void line(std::span<const std::size_t> options, std::span<double> costs) const override {
    prices_->totals(options, repeats_, costs);
  }
  [[nodiscard]] std::shared_ptr<const CostLines> restricted(
      const std::vector<std::vector<std::size_t>>& options) const override {
    return std::make_shared<PricedLines>(
        std::make_shared<const TensorPrices>(prices_->restricted(options)), repeats_);
  }
  /// Maker and first reader: the tensor comes from nowhere else, and its gradient goes back.
  [[nodiscard]] std::optional<PairBound> bound() const override {
    if (prices_->first_reader() == 0) return std::nullopt;
    return PairBound{0, prices_->first_reader(), prices_->first_pair(repeats_)};
  }

 private:
  std::shared_ptr<const TensorPrices> prices_;
  double repeats_;
};

ChoiceGraph graph_of(const ChoiceTables& tables, const Weights& weights) {
  const double repeats = repeats_whole(tables.block(), weights.level) ? 1.0 : 0.0;
  ChoiceGraph graph;
  for (const ChoiceNodeCosts& node : tables.nodes()) {
    ChoiceNode& made = graph.nodes.emplace_back();
    for (std::size_t option = 0; option < node.costs.size(); ++option) {
      made.costs.push_back(seconds_of(node.costs[option], repeats, weights) +
                           weights.seconds_per_byte * bytes_of(node, option, weights));
    }
  }
  for (const ChoiceTable& table : tables.tables()) {
    ChoiceEdge& edge = graph.edges.emplace_back(ChoiceEdge{table.nodes, {}, {}});
    if (table.prices) {
      edge.lines = std::make_shared<PricedLines>(table.prices, repeats);
      continue;
    }
    edge.costs.reserve(table.costs.size());
    for (const PhaseCost& cost : table.costs) edge.costs.push_back(cost.total(repeats).value());
  }
  return graph;
}

std::string words_of(const ChoiceTables& tables, const std::vector<std::size_t>& options) {
  std::vector<std::string> words;
  for (std::size_t n = 0; n < tables.launches().size(); ++n) {
    const FusedGroupOptions& launch = tables.launches()[n];
    const Operator& op = tables.block().operators[launch.operators.front()];
    const std::string& name = op.fused_key.empty() ? op.name : op.fused_key;
    words.push_back(fmt::format("{} {}", name, launch.options[options[n]].name));
  }
  return fmt::format("{}", fmt::join(words, "; "));
}

}  // namespace

struct PartitionPlanner::Parts {
  explicit Parts(const Request& request)
      : problem(request.problem),
        degrees(request.degrees),
        factors(factors_of(request.space, request.degrees.tensor_out)),
        moves(request.moves ? request.moves
                            : std::make_shared<ReshardingPrices>(
                                  make_known_routes(problem, degrees, factors))) {
    const Network& network = *problem.network;
    for (std::size_t b = 0; b < network.blocks.size(); ++b) {
      const double copies = copies_of(network, b);
      auto& made = tables.emplace_back();
      if (!is_layer(network.blocks[b].kind)) {
        ends.push_back(std::make_unique<ChoicePricer>(problem, degrees, b, copies, factors, moves));
        continue;
      }
      ends.emplace_back();
      made = std::make_unique<ChoiceTables>(
          ChoiceTables::Request{problem, degrees, b, copies, request.space, moves});
      note_obstacle(*made);
    }
  }

  /// Once, by whoever asks first.
  void price_tensors() {
    const std::scoped_lock lock(pricing_tensors);
    if (priced || !obstacle.empty()) return;
    for (const auto& layer : tables) {
      if (layer) layer->price_tensors();
    }
    priced = true;
  }

  void note_obstacle(const ChoiceTables& layer) {
    if (!obstacle.empty()) return;
    for (const FusedGroupOptions& launch : layer.launches()) {
      if (!launch.options.empty()) continue;
      obstacle =
          fmt::format("{} cannot be cut over {} devices",
                      layer.block().operators[launch.operators.front()].name, degrees.tensor_out);
      return;
    }
    if (layer.edges().empty()) {
      obstacle =
          fmt::format("the residual stream cannot be cut over {} devices", degrees.tensor_out);
    }
  }

  [[nodiscard]] Weights weights(Recompute level, Rings rings, double seconds_per_byte) const {
    return {level, rings, seconds_per_byte, static_cast<double>(degrees.micro_batches),
            static_cast<double>(std::min(degrees.pipeline, degrees.micro_batches))};
  }

  /// Kernels of blocks beside layers.
  struct EndKernels {
    std::vector<std::vector<Seconds>> of_edge;  ///< of one copy, by block and option of the edges
    std::vector<Seconds> least;                 ///< by block; 0 for layers
  };
  [[nodiscard]] const EndKernels& end_kernels(Recompute level) const {
    const std::scoped_lock lock(pricing_ends);
    EndKernels& known = kernels_of_ends[static_cast<std::size_t>(level)];
    if (!known.least.empty()) return known;
    known.of_edge.resize(ends.size());
    known.least.resize(ends.size());
    for (std::size_t b = 0; b < ends.size(); ++b) {
      if (!ends[b]) continue;
      std::vector<Seconds>& own = known.of_edge[b];
      for (const std::optional<FactorCuts>& cuts : first_layer().edges()) {
        own.push_back(ends[b]->role_kernels(cuts, level));
      }
      known.least[b] = *std::min_element(own.begin(), own.end());
    }
    return known;
  }

  /// Blocks beside layers, by option of the edges.
  struct Ends {
    std::vector<double> before;  ///< the layers
    std::vector<double> after;
  };
  [[nodiscard]] const Ends& end_costs(Recompute level) const {
    const EndKernels& kernels = end_kernels(level);
    const std::scoped_lock lock(pricing_ends);
    Ends& known = end_sums[static_cast<std::size_t>(level)];
    if (!known.before.empty()) return known;
    const auto& edges = first_layer().edges();
    for (std::size_t e = 0; e < edges.size(); ++e) {
      bool behind = false;
      double before = 0.0;
      double after = 0.0;
      for (const BlockRun& run : problem.network->order) {
        behind = behind || tables[run.block] != nullptr;
        if (!ends[run.block]) continue;
        const Seconds cost =
            kernels.of_edge[run.block][e] + ends[run.block]->role_messages(edges[e], level);
        (behind ? after : before) += cost.value() * static_cast<double>(run.count);
      }
      known.before.push_back(before);
      known.after.push_back(after);
    }
    return known;
  }

  /// A cheapest choice that takes no longer with rings exposed is the cheapest then, too: no other
  /// one takes less time exposed than hidden.
  void keep_without_rings(Recompute level, double seconds_per_byte,
                          const PartitionPlan& plan) const {
    const std::scoped_lock lock(keeping);
    without_rings.insert_or_assign({level, seconds_per_byte}, plan);
  }
  [[nodiscard]] std::optional<PartitionPlan> known_without_rings(Recompute level,
                                                                 double seconds_per_byte) const {
    const std::scoped_lock lock(keeping);
    const auto known = without_rings.find({level, seconds_per_byte});
    if (known == without_rings.end()) return std::nullopt;
    return known->second;
  }

  /// In front of the layers.
  [[nodiscard]] bool is_first(std::size_t block) const {
    for (const BlockRun& run : problem.network->order) {
      if (tables[run.block]) return false;
      if (run.block == block) return true;
    }
    return false;
  }

  [[nodiscard]] const ChoiceTables& first_layer() const {
    const auto first = std::find_if(tables.begin(), tables.end(),
                                    [](const auto& layer) { return layer != nullptr; });
    return **first;
  }

  Problem problem;
  PlanDegrees degrees;
  std::vector<int> factors;  ///< of the tensor group
  std::shared_ptr<ReshardingPrices> moves;
  std::vector<std::unique_ptr<ChoiceTables>> tables;  ///< by block; null for blocks beside layers
  std::vector<std::unique_ptr<ChoicePricer>> ends;    ///< by block; null for layers
  mutable ByRecompute<EndKernels> kernels_of_ends;
  mutable ByRecompute<Ends> end_sums;
  mutable std::mutex pricing_ends;
  mutable std::map<std::pair<Recompute, double>, PartitionPlan> without_rings;
  mutable std::mutex keeping;
  std::mutex pricing_tensors;
  bool priced = false;
  std::string obstacle;
};

PartitionPlanner::PartitionPlanner(const Request& request)
    : parts_(std::make_unique<Parts>(request)) {}

PartitionPlanner::~PartitionPlanner() = default;

const std::string& PartitionPlanner::obstacle() const {
  return parts_->obstacle;
}

bool PartitionPlanner::exact() const {
  parts_->price_tensors();
  return std::all_of(parts_->tables.begin(), parts_->tables.end(),
                     [](const auto& layer) { return layer == nullptr || layer->exact(); });
}

const ChoiceTables* PartitionPlanner::tables(std::size_t block) const {
  parts_->price_tensors();
  return parts_->tables[block].get();
}

namespace {

/// One launch or edge of a copy of a block by option, and the least of them.
struct NodeBounds {
  std::vector<Seconds> kernels;
  std::vector<double> bytes;
  Seconds fastest;
  double fewest = 0.0;

  NodeBounds(const ChoiceTables& tables, std::size_t node, const Weights& weights) {
    const ChoiceNodeCosts& own = tables.nodes()[node];
    const double repeats = repeats_whole(tables.block(), weights.level) ? 1.0 : 0.0;
    for (std::size_t option = 0; option < own.costs.size(); ++option) {
      const FusedGroupCost& cost = own.costs[option];
      kernels.push_back(cost.kernels.total(repeats) +
                        cost.repeated[static_cast<std::size_t>(weights.level)]);
      bytes.push_back(bytes_of(own, option, weights));
    }
    fastest = *std::ranges::min_element(kernels);
    fewest = *std::ranges::min_element(bytes);
  }
};

}  // namespace

SequenceBound PartitionPlanner::bound(Recompute level, double in_flight) const {
  const Parts& p = *parts_;
  SequenceBound bound{p.end_kernels(level).least, std::vector<double>(p.tables.size(), 0.0)};
  for (std::size_t b = 0; b < p.tables.size(); ++b) {
    if (!p.tables[b]) continue;
    for (std::size_t n = 0; n < p.tables[b]->nodes().size(); ++n) {
      const NodeBounds node(*p.tables[b], n, {.level = level, .in_flight = in_flight});
      bound.kernels[b] += node.fastest;
      bound.bytes[b] += node.fewest;
    }
  }
  return bound;
}

bool PartitionPlanner::keep(
    const std::vector<Held>& levels,
    const std::function<bool(std::size_t level, const SequenceBound&)>& may_serve) {
  Parts& p = *parts_;
  std::vector<bool> edges(p.first_layer().edges().size(), true);
  std::vector<std::vector<std::vector<bool>>> kept(p.tables.size());
  for (std::size_t b = 0; b < p.tables.size(); ++b) {
    if (!p.tables[b]) continue;
    for (const ChoiceNodeCosts& node : p.tables[b]->nodes()) {
      kept[b].emplace_back(node.costs.size(), false);
    }
  }
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const auto [level, in_flight] = levels[l];
    const SequenceBound least = bound(level, in_flight);
    if (!may_serve(l, least)) continue;
    for (std::size_t b = 0; b < p.tables.size(); ++b) {
      for (std::size_t n = 0; n < kept[b].size(); ++n) {
        const NodeBounds node(*p.tables[b], n, {.level = level, .in_flight = in_flight});
        SequenceBound with = least;
        for (std::size_t option = 0; option < node.bytes.size(); ++option) {
          if (kept[b][n][option]) continue;
          with.kernels[b] = least.kernels[b] + (node.kernels[option] - node.fastest);
          with.bytes[b] = least.bytes[b] + (node.bytes[option] - node.fewest);
          kept[b][n][option] = may_serve(l, with);
        }
      }
    }
  }
  for (const auto& nodes : kept) {
    for (std::size_t e = 0; !nodes.empty() && e < edges.size(); ++e) {
      edges[e] = edges[e] && nodes[nodes.size() - 2][e];
    }
  }
  for (std::size_t b = 0; b < p.tables.size(); ++b) {
    if (!p.tables[b]) continue;
    kept[b][p.tables[b]->entry()] = kept[b][p.tables[b]->exit()] = edges;
    for (const std::vector<bool>& node : kept[b]) {
      if (std::ranges::find(node, true) == node.end()) return false;
    }
    p.tables[b]->keep(kept[b]);
  }
  p.kernels_of_ends = {};
  return true;
}

std::optional<PartitionPlan> PartitionPlanner::best(Recompute level, Rings rings,
                                                    double seconds_per_byte) const {
  const Parts& p = *parts_;
  if (!p.obstacle.empty()) return std::nullopt;
  if (rings == Rings::Exposed) {
    if (auto known = p.known_without_rings(level, seconds_per_byte)) return known;
  }
  parts_->price_tensors();
  const Weights weights = p.weights(level, rings, seconds_per_byte);
  std::vector<double> sums = p.end_costs(level).before;
  for (std::size_t e = 0; e < sums.size(); ++e) sums[e] += p.end_costs(level).after[e];
  std::vector<TiedLayer> layers;
  for (std::size_t b = 0; b < p.tables.size(); ++b) {
    if (!p.tables[b]) continue;
    const ChoiceTables& tables = *p.tables[b];
    layers.push_back({graph_of(tables, weights), tables.entry(), tables.exit(),
                      copies_of(*p.problem.network, b)});
  }
  const auto found = cheapest_tied(layers, sums);
  if (!found) return std::nullopt;
  auto chosen = found->options.begin();
  bool has_rings = false;
  PartitionPlan plan;
  plan.placements.factors = p.factors;
  const std::optional<FactorCuts>& cuts = p.first_layer().edges()[found->edge];
  for (std::size_t b = 0; b < p.tables.size(); ++b) {
    BlockChoice& choice = plan.placements.blocks.emplace_back();
    if (!p.tables[b]) {
      choice.operators.resize(p.problem.network->blocks[b].operators.size());
      if (p.is_first(b)) {
        choice.leaving = cuts;
      } else {
        choice.entering = cuts;
      }
      continue;
    }
    const ChoiceTables& tables = *p.tables[b];
    const std::vector<std::size_t>& options = *chosen++;
    choice = tables.choice(options);
    for (std::size_t n = 0; n < options.size(); ++n) {
      plan.bytes +=
          copies_of(*p.problem.network, b) * bytes_of(tables.nodes()[n], options[n], weights);
      const FusedGroupCost& cost = tables.nodes()[n].costs[options[n]];
      has_rings = has_rings || !(cost.pass(Rings::Exposed) == cost.pass(Rings::Hidden));
    }
    plan.words += (plan.words.empty() ? "" : "; ") + words_of(tables, options);
  }
  plan.sum = Seconds(found->cost - seconds_per_byte * plan.bytes);
  if (rings == Rings::Hidden && !has_rings) p.keep_without_rings(level, seconds_per_byte, plan);
  return plan;
}

}  // namespace plansearch
