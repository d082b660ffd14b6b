// SPDX-License-Identifier: Apache-2.0
#include "evidence/reproduce/primepar_layers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evidence/reproduce/gpt_question.hpp"
#include "plan/stages/expand.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "plansearch/load_problem.hpp"
#include "search/strategies/partition/group_degrees.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

constexpr std::int64_t kFew = 2;
constexpr std::int64_t kMore = 4;
/// Beyond it replicas lie around the group.
constexpr int kLargestGroup = 16;

bool has_role(const Network& network, const Operator& op, DimRole role) {
  return std::ranges::any_of(op.loop,
                             [&](DimId dim) { return network.dimension(dim).role == role; });
}

/// The operators of a layer around its inner features, as a block of its own.
class MlpCutter {
 public:
  explicit MlpCutter(const Network& whole)
      : whole_(whole), layer_(*std::ranges::find_if(whole.blocks, [](const Block& block) {
          return is_layer(block.kind);
        })) {}

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
    const auto found = std::ranges::find(known, id);
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

PlanDegrees degrees_of(const Problem& problem, const LayerDegrees& asked) {
  PlanDegrees degrees;
  degrees.data = asked.data;
  degrees.tensor_out = asked.tensor;
  degrees.pipeline = asked.pipeline;
  degrees.micro_batches = asked.micro_batches;
  const std::int64_t pieces = std::int64_t{1} * asked.data * asked.micro_batches;
  degrees.micro_batch =
      problem.global_batch % pieces == 0 ? static_cast<int>(problem.global_batch / pieces) : 0;
  degrees.recompute = asked.recompute;
  return degrees;
}

bool is_product_of_weights(const Network& network, std::string_view name) {
  for (const Block& block : network.blocks) {
    for (const Operator& op : block.operators) {
      const std::string& launch = op.fused_key.empty() ? op.name : op.fused_key;
      if (launch == name) return traits(op).runs_in_steps;
    }
  }
  return false;
}

/// "qkv, mlp_in K P2x2; projection, mlp_out N P2x2".
std::string words_of_products(const Network& network, std::string_view words) {
  std::vector<std::pair<std::string_view, std::string>> by_sequence;
  while (!words.empty()) {
    const std::string_view one = words.substr(0, words.find("; "));
    words.remove_prefix(std::min(words.size(), one.size() + 2));
    const std::string_view name = one.substr(0, one.find(' '));
    if (!is_product_of_weights(network, name)) continue;
    const std::string_view sequence = one.substr(name.size() + 1);
    auto known = std::ranges::find_if(by_sequence,
                                      [&](const auto& entry) { return entry.first == sequence; });
    if (known == by_sequence.end()) known = by_sequence.insert(known, {sequence, {}});
    known->second += fmt::format("{}{}", known->second.empty() ? "" : ", ", name);
  }
  std::string text;
  for (const auto& [sequence, names] : by_sequence) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", names, sequence);
  }
  return text;
}

/// Counts what every layer of a plan adds.
LayerPrice sum_of(const Problem& problem, const ParallelPlan& plan) {
  const PlanEvaluator evaluator(problem);
  const Estimate estimate = estimate_of(evaluator, plan);
  LayerPrice price;
  price.step = estimate.step.total();
  price.compute = estimate.step.compute;
  price.stored = estimate.memory.parameters + estimate.memory.activations;
  price.all = estimate.memory.total();
  for (const PricedCommunication& line : plan_details(evaluator, plan).communication) {
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
  if (question.full_node) {
    Cluster cluster = *files.cluster;
    for (LinkTier& tier : cluster.tiers) {
      auto* fabric = std::get_if<FabricCurve>(&tier.curve);
      if (fabric != nullptr) fabric->full_node_efficiency = *question.full_node;
    }
    files.cluster = std::make_shared<const Cluster>(std::move(cluster));
  }
  if (question.hiding == Hiding::AsMegatron) {
    ProblemRequest other = request;
    other.framework = "megatron";
    Framework framework = *files.framework;
    framework.overlap = read_problem_files(other, data).framework->overlap;
    framework.overlap[static_cast<std::size_t>(Overlap::TensorParallel)].steps = MessageWait::Use;
    files.framework = std::make_shared<const Framework>(std::move(framework));
  }
  Problem problem = resolve_question(request, files).problem;
  // The paper's times are those of forward, backward and their messages.
  Framework framework = *problem.framework;
  framework.constants.optimizer_factor = 0.0;
  problem.framework = std::make_shared<const Framework>(std::move(framework));
  if (question.part == Part::Layers) {
    Network network = *problem.network;
    std::erase_if(network.order,
                  [&](const BlockRun& run) { return !is_layer(network.blocks[run.block].kind); });
    problem.network = std::make_shared<const Network>(std::move(network));
  }
  if (question.part == Part::Mlp) {
    problem.network = std::make_shared<const Network>(MlpCutter(*problem.network).run(layers));
  }
  return problem;
}

std::optional<ParallelPlan> made_plan(const Problem& problem, const LayerPlan& plan) {
  const PlanDegrees degrees = degrees_of(problem, plan.degrees);
  if (degrees.micro_batch == 0) return std::nullopt;
  auto made = plan.placements ? placed_plan(problem, degrees, *plan.placements)
                              : expand(degrees, *problem.network, *problem.framework);
  auto* found = std::get_if<ParallelPlan>(&made);
  if (found == nullptr || PlanEvaluator(problem).legality(*found)) return std::nullopt;
  return std::move(*found);
}

LayerProblems::LayerProblems(const LayerQuestion& question, const ShippedData& data)
    : few(layer_problem(question, kFew, data)), more(layer_problem(question, kMore, data)) {}

std::optional<LayerPrice> layer_price(const LayerProblems& problems, const LayerPlan& plan) {
  const auto few = made_plan(problems.few, plan);
  const auto more = made_plan(problems.more, plan);
  if (!few || !more) return std::nullopt;
  const LayerPrice a = sum_of(problems.few, *few);
  const LayerPrice b = sum_of(problems.more, *more);
  const auto one = [](auto high, auto low) { return (high - low) / double(kMore - kFew); };
  return LayerPrice{one(b.step, a.step),
                    one(b.compute, a.compute),
                    one(b.collectives, a.collectives),
                    one(b.redistribution, a.redistribution),
                    one(b.tiles, a.tiles),
                    one(b.exposed_tiles, a.exposed_tiles),
                    one(b.stored, a.stored),
                    one(b.all, a.all),
                    a.all - one(b.all, a.all) * double(kFew)};
}

std::vector<LayerPlan> megatron_plans(int gpus) {
  std::vector<LayerPlan> plans;
  for (int tensor = 1; tensor <= gpus; tensor *= 2) plans.push_back({{gpus / tensor, tensor}, {}});
  return plans;
}

std::vector<LayerPlan> sequence_plans(const Problem& problem, const LayerDegrees& asked,
                                      PartitionSpace space) {
  const PlanDegrees degrees = degrees_of(problem, asked);
  if (degrees.micro_batch == 0) return {};
  const PartitionPlanner planner({problem, degrees, space});
  std::vector<LayerPlan> plans;
  for (const PartitionPlan& choice : sequence_front(planner, degrees.recompute, Rings::Hidden)) {
    plans.push_back({asked, choice.placements, words_of_products(*problem.network, choice.words)});
  }
  return plans;
}

std::vector<LayerPlan> sequence_plans(const LayerProblems& problems, PartitionSpace space) {
  const int gpus = problems.few.gpus;
  std::vector<LayerPlan> plans;
  for (int tensor = 2; tensor <= std::min(gpus, kLargestGroup); tensor *= 2) {
    for (LayerPlan& plan : sequence_plans(problems.few, {gpus / tensor, tensor}, space)) {
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

std::optional<BestLayer> fastest_layer(const LayerProblems& problems,
                                       const std::vector<LayerPlan>& plans) {
  std::optional<BestLayer> best;
  for (const LayerPlan& plan : plans) {
    const auto price = layer_price(problems, plan);
    if (price && (!best || price->step < best->price.step)) best = BestLayer{plan, *price};
  }
  return best;
}

std::string to_text(const LayerPlan& plan) {
  const LayerDegrees& degrees = plan.degrees;
  return fmt::format("{}m{}{}{}", degrees.data > 1 ? fmt::format("d{} ", degrees.data) : "",
                     degrees.tensor, plan.words.empty() ? "" : ": ", plan.words);
}

}  // namespace plansearch
