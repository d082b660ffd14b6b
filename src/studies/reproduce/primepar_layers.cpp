// SPDX-License-Identifier: Apache-2.0
#include "studies/reproduce/primepar_layers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/layer_distribution.hpp"
#include "plan/square_placements.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/plan_stages.hpp"

namespace plansearch {
namespace {

constexpr std::int64_t kFew = 2;
constexpr std::int64_t kMore = 4;

bool has_role(const Network& network, const Operator& op, DimRole role) {
  return std::any_of(op.loop.begin(), op.loop.end(),
                     [&](DimId dim) { return network.dimension(dim).role == role; });
}

/// The operators of a layer around its inner features, as a block of its own.
class MlpCutter {
 public:
  explicit MlpCutter(const Network& whole)
      : whole_(whole),
        layer_(*std::find_if(whole.blocks.begin(), whole.blocks.end(),
                             [](const Block& block) { return is_layer(block.kind); })) {}

  Network run(std::int64_t layers) {
    block_.name = "mlp";
    for (const Operator& op : layer_.operators) {
      if (has_role(whole_, op, DimRole::Ffn)) take(op);
    }
    block_.inputs = {block_.operators.front().inputs.front()};
    block_.outputs = {block_.operators.back().outputs.front()};
    Network network;
    network.name = whole_.name;
    network.dimensions = whole_.dimensions;
    network.blocks = {std::move(block_)};
    network.order = {{0, layers}};
    return network;
  }

 private:
  template <typename Id, typename T>
  Id renamed(Id id, const std::vector<T>& from, std::vector<T>& to, std::vector<Id>& known) {
    const auto found = std::find(known.begin(), known.end(), id);
    const auto index = static_cast<std::uint32_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(id);
      to.push_back(from[static_cast<std::size_t>(id)]);
    }
    return static_cast<Id>(index);
  }
  TensorId renamed(TensorId id) { return renamed(id, layer_.tensors, block_.tensors, tensors_); }

  void take(Operator op) {
    for (TensorId& id : op.inputs) id = renamed(id);
    for (TensorId& id : op.outputs) id = renamed(id);
    for (Saved& saved : op.saved) saved.tensor = renamed(saved.tensor);
    for (ParameterId& id : op.parameters) {
      id = renamed(id, layer_.parameters, block_.parameters, parameters_);
    }
    block_.operators.push_back(std::move(op));
  }

  const Network& whole_;
  const Block& layer_;
  Block block_;
  std::vector<TensorId> tensors_;
  std::vector<ParameterId> parameters_;
};

/// What an entry of `square_placements` is about.
enum class Subgraph : std::uint8_t { Attention, Mlp, Between };

Subgraph subgraph_of(const Network& network, const PlacementEntry& entry) {
  for (const Block& block : network.blocks) {
    for (const Operator& op : block.operators) {
      if (entry.operators != std::vector{op.name}) continue;
      if (has_role(network, op, DimRole::Ffn)) return Subgraph::Mlp;
      const bool heads = has_role(network, op, DimRole::Head) ||
                         has_role(network, op, DimRole::KvHead) ||
                         has_role(network, op, DimRole::KeySequence);
      if (heads) return Subgraph::Attention;
    }
  }
  return Subgraph::Between;
}

/// The factor of `square_placements` around the square.
constexpr std::uint8_t kAround = 2;

FactorList* factors_of(PlacementEntry& entry, const std::string& dimension) {
  for (NamedCut& cut : entry.cut) {
    if (cut.dimension == dimension) return &*cut.factors;
  }
  return nullptr;
}

/// The batch over the factor around the square, and nothing else over it.
void cut_batch_around(const Network& network, PlacementEntry& entry) {
  for (NamedCut& cut : entry.cut) {
    FactorList rest;
    for (const std::uint8_t factor : *cut.factors) {
      if (factor != kAround) rest.push_back(factor);
    }
    cut.factors = rest;
  }
  const auto batch =
      std::find_if(network.dimensions.begin(), network.dimensions.end(),
                   [](const Dimension& dimension) { return dimension.role == DimRole::Batch; });
  FactorList factors;
  factors.push_back(kAround);
  if (FactorList* known = factors_of(entry, batch->name)) {
    for (const std::uint8_t factor : *known) factors.push_back(factor);
    *known = factors;
  } else {
    entry.cut.push_back({batch->name, factors});
  }
}

/// Squares where the split says so; what is not named is cut by role, as Megatron does.
std::optional<PlacementNames> names_of_split(const Problem& problem, const PlanDegrees& degrees,
                                             const LayerSplit& split) {
  auto made = square_placements(*problem.network, degrees, split.side);
  if (!std::holds_alternative<PlacementNames>(made)) return std::nullopt;
  PlacementNames names = std::get<PlacementNames>(std::move(made));
  std::erase_if(names.operators, [&](const PlacementEntry& entry) {
    switch (subgraph_of(*problem.network, entry)) {
      case Subgraph::Attention:
        return !split.attention;
      case Subgraph::Mlp:
        return !split.mlp;
      case Subgraph::Between:
        return !split.between;
    }
    return false;
  });
  if (!split.between) names.edges.clear();
  if (!split.by_batch) return names;
  for (PlacementEntry& entry : names.operators) {
    if (subgraph_of(*problem.network, entry) != Subgraph::Mlp) {
      cut_batch_around(*problem.network, entry);
    }
  }
  for (PlacementEntry& entry : names.edges) cut_batch_around(*problem.network, entry);
  return names;
}

PlanDegrees degrees_of(const Problem& problem, const LayerSplit& split, int pipeline,
                       int micro_batches) {
  PlanDegrees degrees;
  degrees.data = split.data;
  degrees.tensor_out = split.tensor;
  degrees.pipeline = pipeline;
  degrees.micro_batches = micro_batches;
  const std::int64_t pieces = std::int64_t{1} * split.data * micro_batches;
  degrees.micro_batch =
      problem.global_batch % pieces == 0 ? static_cast<int>(problem.global_batch / pieces) : 0;
  degrees.recompute = Recompute::None;
  return degrees;
}

/// Counts what every layer of a plan adds.
LayerPrice sum_of(const SplitPlan& made) {
  const PlanEvaluator evaluator(made.problem);
  const Evaluation evaluation = evaluator.evaluate(made.plan);
  const auto* infeasible = std::get_if<InfeasiblePlan>(&evaluation);
  // One that does not fit has a price all the same.
  const Estimate& estimate =
      infeasible != nullptr ? infeasible->estimate.value() : std::get<Estimate>(evaluation);
  LayerPrice price;
  price.step = estimate.step.total() - estimate.step.optimizer;
  price.compute = estimate.step.compute;
  price.stored = estimate.memory.parameters + estimate.memory.activations;
  price.all = estimate.memory.total();
  for (const PricedCommunication& line : evaluator.details(made.plan).communication) {
    if (line.communication.steps > 1) {
      price.tiles += line.time * line.count;
      price.exposed_tiles += line.exposed;
    } else if (line.communication.kind == CommunicationKind::AllReduce) {
      price.collectives += line.exposed;
    } else {
      price.redistribution += line.exposed;
    }
  }
  return price;
}

}  // namespace

Problem layer_problem(const LayerQuestion& question, std::int64_t layers, const ShippedData& data) {
  constexpr std::int64_t kTokens = 2048;
  ProblemRequest request;
  request.hardware =
      (data.directory() / "validation" / "reproduce" / "primepar-v100.yaml").string();
  request.model = question.model;
  request.framework = "primepar";
  request.precision = "fp32";
  request.site = "tuned";
  request.gpus = question.gpus;
  request.batch = question.batch;
  request.seq_len = kTokens;
  ProblemFiles files = read_problem_files(request, data);
  ShippedModel model = *files.model;
  model.description.layers = layers;
  files.model = std::make_shared<const ShippedModel>(std::move(model));
  if (question.hiding == Hiding::AsMegatron) {
    ProblemRequest other = request;
    other.framework = "megatron";
    Framework framework = *files.framework;
    framework.overlap = read_problem_files(other, data).framework->overlap;
    framework.overlap[static_cast<std::size_t>(Overlap::TensorParallel)].steps = MessageWait::Use;
    files.framework = std::make_shared<const Framework>(std::move(framework));
  }
  Problem problem = settle_problem(request, files).problem;
  if (question.part == Part::Mlp) {
    problem.network = std::make_shared<const Network>(MlpCutter(*problem.network).run(layers));
  }
  return problem;
}

std::optional<SplitPlan> split_plan(const Problem& problem, const LayerSplit& split, int pipeline,
                                    int micro_batches) {
  const PlanDegrees degrees = degrees_of(problem, split, pipeline, micro_batches);
  if (degrees.micro_batch == 0) return std::nullopt;
  SplitPlan made{problem, {}};
  auto plan = PlanEvaluator(problem).expand(degrees);
  std::optional<Placements> placements;
  if (split.side > 1) {
    const auto names = names_of_split(problem, degrees, split);
    if (!names) return std::nullopt;
    auto resolved = resolve_placements(*names, *problem.network, degrees, *problem.framework);
    auto* distinguished = std::get_if<DistinguishedNetwork>(&resolved);
    if (distinguished == nullptr) return std::nullopt;
    made.problem.network = distinguished->network;
    placements = std::move(distinguished->placements);
    plan = PlanEvaluator(made.problem).expand(degrees);
  }
  if (!std::holds_alternative<ParallelPlan>(plan)) return std::nullopt;
  made.plan = std::get<ParallelPlan>(std::move(plan));
  if (placements) {
    auto placed = with_placements(std::move(made.plan), *placements, *made.problem.network,
                                  *made.problem.framework);
    if (!std::holds_alternative<ParallelPlan>(placed)) return std::nullopt;
    made.plan = std::get<ParallelPlan>(std::move(placed));
  }
  if (PlanEvaluator(made.problem).legality(made.plan)) return std::nullopt;
  return made;
}

LayerProblems::LayerProblems(const LayerQuestion& question, const ShippedData& data)
    : few(layer_problem(question, kFew, data)), more(layer_problem(question, kMore, data)) {}

std::optional<LayerPrice> layer_price(const LayerProblems& problems, const LayerSplit& split) {
  const auto few = split_plan(problems.few, split);
  const auto more = split_plan(problems.more, split);
  if (!few || !more) return std::nullopt;
  const LayerPrice a = sum_of(*few);
  const LayerPrice b = sum_of(*more);
  const auto one = [](auto high, auto low) { return (high - low) / double(kMore - kFew); };
  return LayerPrice{one(b.step, a.step),
                    one(b.compute, a.compute),
                    one(b.collectives, a.collectives),
                    one(b.redistribution, a.redistribution),
                    one(b.tiles, a.tiles),
                    one(b.exposed_tiles, a.exposed_tiles),
                    one(b.stored, a.stored),
                    one(b.all, a.all)};
}

std::vector<LayerSplit> megatron_splits(int gpus) {
  std::vector<LayerSplit> splits;
  for (int tensor = 1; tensor <= gpus; tensor *= 2) {
    LayerSplit split;
    split.data = gpus / tensor;
    split.tensor = tensor;
    splits.push_back(split);
  }
  return splits;
}

std::vector<LayerSplit> all_splits(int gpus) {
  std::vector<LayerSplit> splits = megatron_splits(gpus);
  const std::vector<LayerSplit> plain = splits;
  for (LayerSplit split : plain) {
    for (split.side = 2; split.side * split.side <= split.tensor; split.side *= 2) {
      if (split.tensor % (split.side * split.side) != 0) continue;
      for (int bits = 1; bits < 8; ++bits) {
        split.attention = (bits & 1) != 0;
        split.mlp = (bits & 2) != 0;
        split.between = (bits & 4) != 0;
        split.by_batch = false;
        splits.push_back(split);
        // Attention that follows roles leaves nothing to say of its batch.
        split.by_batch = split.attention && split.between;
        if (split.by_batch && split.tensor > split.side * split.side) splits.push_back(split);
      }
    }
  }
  return splits;
}

std::optional<BestSplit> fastest_split(const LayerProblems& problems,
                                       const std::vector<LayerSplit>& splits) {
  std::optional<BestSplit> best;
  for (const LayerSplit& split : splits) {
    const auto price = layer_price(problems, split);
    if (price && (!best || price->step < best->price.step)) best = BestSplit{split, *price};
  }
  return best;
}

std::string to_text(const LayerSplit& split) {
  std::string text;
  if (split.data > 1) text += fmt::format("d{} ", split.data);
  text += fmt::format("m{}", split.tensor);
  if (split.side == 1) return text;
  text += fmt::format(" P{0}x{0} (", split.side);
  std::string parts;
  for (const auto& [in, name] :
       {std::pair{split.attention, "attention"}, std::pair{split.mlp, "mlp"},
        std::pair{split.between, "between"}}) {
    if (in) parts += parts.empty() ? name : fmt::format(", {}", name);
  }
  return text + parts + (split.by_batch ? "; batch around attention)" : ")");
}

}  // namespace plansearch
