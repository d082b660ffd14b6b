// SPDX-License-Identifier: Apache-2.0
#include "plan/stages/layer_distribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/legality/legality_parts.hpp"

namespace plansearch {
namespace {

using legality::Wording;

/// One block of the network with the virtual stage it goes to.
struct Piece {
  std::size_t block = 0;
  BlockKind kind = BlockKind::Other;
  std::size_t stage = 0;
};

std::vector<Piece> unrolled(const Network& network) {
  std::vector<Piece> pieces;
  for (const BlockRun& run : network.order) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      pieces.push_back({run.block, network.blocks[run.block].kind, 0});
    }
  }
  return pieces;
}

StageRuns runs_of(const std::vector<Piece>& pieces, std::size_t stages) {
  StageRuns result(stages);
  for (const Piece& piece : pieces) {
    std::vector<BlockRun>& runs = result[piece.stage];
    if (!runs.empty() && runs.back().block == piece.block) {
      ++runs.back().count;
    } else {
      runs.push_back({piece.block, 1});
    }
  }
  return result;
}

/// Whether stages are even once embedding and loss count as a layer each (Megatron's
/// account-for-embedding and account-for-loss switches).
bool even_with_ends(std::int64_t layers, std::int64_t stages, LayerDistribution rule) {
  const bool remainder_allowed =
      rule == LayerDistribution::EvenCeil || rule == LayerDistribution::EvenInner;
  return remainder_allowed && layers % stages != 0 && (layers + 2) % stages == 0;
}

/// Layers of every virtual stage; which ones get one more depends on the rule.
std::vector<std::int64_t> layers_per_stage(std::int64_t layers, std::size_t stages,
                                           LayerDistribution rule) {
  const auto count = static_cast<std::int64_t>(stages);
  std::vector<std::int64_t> result(stages, layers / count);
  std::int64_t extra = layers % count;
  const bool inner = rule == LayerDistribution::EvenInner || even_with_ends(layers, count, rule);
  const std::size_t first = inner && stages > 2 ? 1 : 0;
  const std::size_t inner_end = first == 1 ? stages - 1 : stages;
  for (std::size_t i = first; i < inner_end && extra > 0; ++i, --extra) ++result[i];
  if (extra > 0) ++result[0];
  return result;
}

/// Embeddings go with the layer behind them, everything else with the layer before it. A stage
/// without layers holds the embedding if it is the first and the head if it is the last.
void place_by_layers(std::vector<Piece>& pieces, const std::vector<std::int64_t>& layers) {
  std::size_t stage = 0;
  std::int64_t placed = 0;
  bool open = false;  // something stands on the stage
  for (Piece& piece : pieces) {
    const bool opens = is_layer(piece.kind) || piece.kind == BlockKind::Embedding ||
                       (piece.kind == BlockKind::Head && layers.back() == 0);
    while (opens && open && placed == layers[stage] && stage + 1 < layers.size()) {
      ++stage;
      placed = 0;
    }
    piece.stage = stage;
    open = true;
    if (is_layer(piece.kind)) ++placed;
  }
}

/// Forward FLOPs of the device with the most, where chunk after chunk goes round the pipeline.
double heaviest(const Network& network, const std::vector<Piece>& pieces, int pipeline) {
  std::vector<double> costs(network.blocks.size(), 0.0);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    for (const Operator& op : network.blocks[i].operators) {
      costs[i] += useful_forward_flops(network, op).value();
    }
  }
  std::vector<double> devices(static_cast<std::size_t>(pipeline), 0.0);
  for (const Piece& piece : pieces) devices[piece.stage % devices.size()] += costs[piece.block];
  return *std::ranges::max_element(devices);
}

/// Where people give the counts of the ends, layers that do not divide leave the last stage, which
/// holds loss and prediction modules, with fewer, if that unburdens the heaviest device
/// (NVIDIA-NeMo/Megatron-Bridge@067f987df, layouts of DeepSeek-V3 and Kimi-K2: 4 x 15, 1 of 61).
void relieve_last(const Network& network, const PlanDegrees& plan, std::vector<Piece>& pieces) {
  const std::int64_t layers = count_layers(network);
  const std::int64_t stages = plan.virtual_stages();
  const std::int64_t most = layers / stages + 1;
  const std::int64_t left = layers - most * (stages - 1);
  if (layers % stages == 0 || left < 1 ||
      even_with_ends(layers, stages, LayerDistribution::EvenCeil)) {
    return;
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), most);
  counts.back() = left;
  std::vector<Piece> other = pieces;
  place_by_layers(other, counts);
  if (heaviest(network, other, plan.pipeline) <= heaviest(network, pieces, plan.pipeline)) {
    pieces = std::move(other);
  }
}

/// Weight elements as nanotron counts them: key/value heads as if there were one per query head.
double block_cost(const Network& network, const Block& block) {
  if (block.kind == BlockKind::Embedding) return 0.0;
  double heads = 0.0;  // of queries: the first product of attention
  for (const Parameter& parameter : block.parameters) {
    for (const DimId id : parameter.dims) {
      const Dimension& dimension = network.dimension(id);
      if (heads == 0.0 && dimension.role == DimRole::Head)
        heads = static_cast<double>(dimension.extent);
    }
  }
  double cost = 0.0;
  for (const Parameter& parameter : block.parameters) {
    if (parameter.kind == ParameterClass::Vector) continue;
    double elements = 1.0;
    for (const DimId id : parameter.dims) {
      const Dimension& dimension = network.dimension(id);
      const bool kv = dimension.role == DimRole::KvHead && heads > 0.0;
      elements *= kv ? heads : static_cast<double>(dimension.extent);
    }
    cost += elements;
  }
  return cost;
}

/// Walks the blocks; the one that fills the share of the stages up to this one is their last. The
/// head is projection and loss in one, which nanotron places one after the other: where it goes
/// beyond a share that layers have begun it stands where its loss does, on the stage after them.
void place_by_cost(const Network& network, std::vector<Piece>& pieces, std::size_t stages) {
  constexpr double kRounding = 1.0 - 1e-12;
  std::vector<double> costs;
  for (const Block& block : network.blocks) costs.push_back(block_cost(network, block));
  double total = 0.0;
  for (const Piece& piece : pieces) total += costs[piece.block];
  double so_far = 0.0;
  std::size_t stage = 0;
  bool begun = false;
  for (Piece& piece : pieces) {
    so_far += costs[piece.block];
    const double share = static_cast<double>(stage + 1) / static_cast<double>(stages);
    const bool fills = so_far >= total * share * kRounding && stage + 1 < stages;
    piece.stage = fills && begun && piece.kind == BlockKind::Head ? stage + 1 : stage;
    begun = !fills;
    if (fills) ++stage;
  }
}

Infeasible too_many_stages(const PlanDegrees& plan, std::int64_t layers, Wording wording) {
  const int stages = plan.virtual_stages();
  return legality::refuse(
      wording, Obstacle::MoreStagesThanLayers, static_cast<double>(stages),
      static_cast<double>(layers), [&] {
        return fmt::format(
            "{} pipeline stages{} need at least {} layers, the network has {}", plan.pipeline,
            plan.chunks > 1 ? fmt::format(" of {} chunks", plan.chunks) : "", stages, layers);
      });
}

Infeasible not_divisible(const PlanDegrees& plan, std::int64_t layers, Wording wording) {
  const int stages = plan.virtual_stages();
  return legality::refuse_indivisible(wording, Obstacle::LayersNotDivisible, stages, layers, [&] {
    return fmt::format("{} layers do not divide by pp {} x vpp {} = {}", layers, plan.pipeline,
                       plan.chunks, stages);
  });
}

}  // namespace

namespace legality {

std::optional<Infeasible> check_layers(const PlanDegrees& plan, const Network& network,
                                       const Framework& framework, Wording wording) {
  const int stages = plan.virtual_stages();
  if (stages == 1) return std::nullopt;
  if (framework.layers == LayerDistribution::EmbeddingAndHeadCount) {
    const auto distribution = distribute_layers(network, plan, framework);
    const auto* infeasible = std::get_if<Infeasible>(&distribution);
    return infeasible == nullptr ? std::nullopt : std::optional(*infeasible);
  }
  const std::int64_t layers = count_layers(network);
  if (layers < stages && !even_with_ends(layers, stages, framework.layers)) {
    return too_many_stages(plan, layers, wording);
  }
  if (framework.layers == LayerDistribution::EvenOnly && layers % stages != 0) {
    return not_divisible(plan, layers, wording);
  }
  return std::nullopt;
}

}  // namespace legality

bool is_layer(BlockKind kind) {
  return kind == BlockKind::Encoder || kind == BlockKind::Decoder ||
         kind == BlockKind::CrossDecoder || kind == BlockKind::Layer;
}

std::int64_t count_layers(const Network& network) {
  std::int64_t layers = 0;
  for (const BlockRun& run : network.order) {
    if (is_layer(network.blocks[run.block].kind)) layers += run.count;
  }
  return layers;
}

std::variant<StageRuns, Infeasible> place_layers(const Network& network,
                                                 const std::vector<std::int64_t>& layers) {
  const std::int64_t given = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  const std::int64_t all = count_layers(network);
  if (given != all) {
    return Infeasible{
        Obstacle::LayersNotDivisible, static_cast<double>(all), static_cast<double>(given),
        fmt::format("the stages hold {} layers, {} has {}", given, network.name, all)};
  }
  std::vector<Piece> pieces = unrolled(network);
  place_by_layers(pieces, layers);
  return runs_of(pieces, layers.size());
}

std::variant<StageRuns, Infeasible> distribute_layers(const Network& network,
                                                      const PlanDegrees& plan,
                                                      const Framework& framework) {
  const auto stages = static_cast<std::size_t>(plan.virtual_stages());
  std::vector<Piece> pieces = unrolled(network);
  if (stages == 1) return runs_of(pieces, 1);
  if (framework.layers == LayerDistribution::EmbeddingAndHeadCount) {
    place_by_cost(network, pieces, stages);
    StageRuns runs = runs_of(pieces, stages);
    // A heavy head can leave stages empty; the framework runs them all the same.
    const std::int64_t layers = count_layers(network);
    if (layers < static_cast<std::int64_t>(stages)) {
      return too_many_stages(plan, layers, Wording::Full);
    }
    return runs;
  }
  if (auto infeasible = legality::check_layers(plan, network, framework, Wording::Full))
    return *infeasible;
  place_by_layers(pieces, layers_per_stage(count_layers(network), stages, framework.layers));
  if (framework.own_layers == OwnLayers::Ends) relieve_last(network, plan, pieces);
  return runs_of(pieces, stages);
}

}  // namespace plansearch
