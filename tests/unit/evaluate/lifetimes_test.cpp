// SPDX-License-Identifier: Apache-2.0
// Memory of activations against a replay: every device walks its steps in their order, operator by
// operator, and writes down what is allocated and freed. Networks are random: layers of products,
// activation functions and sums, and tensors that are read up to all layers away.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "plan/stages/expand.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/evaluator.hpp"
#include "schedule/table.hpp"
#include "support/schedules.hpp"
#include "support/toy_problem.hpp"
#include "workload/block_builder.hpp"

namespace plansearch::lifetimes_test {
namespace {

constexpr std::int64_t kTokens = 64;
constexpr int kLayers = 8;

/// Two to five operators; `skips`: how many tensors of earlier layers it reads besides.
std::size_t random_layer(Network& network, int number, int skips, std::mt19937& random) {
  BlockBuilder block(network, "layer" + std::to_string(number), BlockKind::Layer);
  const DimId batch = block.dim("b", DimRole::Batch, 1);
  const DimId tokens = block.dim("t", DimRole::Sequence, kTokens);
  const DimId in = block.dim("in", DimRole::Other, 32);
  const std::int64_t width = 8 << random() % 4;
  const DimId inner = block.dim("inner" + std::to_string(width), DimRole::Other, width);
  const Dims wide{batch, tokens, inner};
  TensorId now = block.input("stream", {batch, tokens, in});
  const auto product = [&](const std::string& name, TensorId from, DimId contracted, DimId made) {
    return block.linear(
        {.name = name, .input = from, .contracted = {contracted}, .outputs = {made}});
  };
  now = product("up", now, in, inner);
  for (int s = 0; s < skips; ++s) {
    const std::string name = "skip" + std::to_string(s);
    const TensorId other = block.input(name, {batch, tokens, in});
    const TensorId more = product("of_" + name, other, in, inner);
    now = block.elementwise("add_" + name, {now, more}, wide);
  }
  if (random() % 2 == 0) {
    const TensorId before = now;
    now = block.elementwise("activation", {now}, wide);
    block.save_at_producer(before);
  }
  return block.finish({product("down", now, inner, in)});
}

std::shared_ptr<const Network> random_network(std::mt19937& random) {
  auto network = std::make_shared<Network>();
  network->name = "random";
  for (int i = 0; i < kLayers; ++i) {
    const int skips = i == 0 ? 0 : static_cast<int>(random() % 3);
    network->order.push_back({random_layer(*network, i, skips, random), 1});
    for (int s = 0; s < skips; ++s) {
      const auto from = static_cast<std::int64_t>(random() % static_cast<unsigned>(i));
      network->edges.push_back({from, 0, i, 1, static_cast<std::size_t>(s) + 1});
    }
  }
  std::stable_sort(network->edges.begin(), network->edges.end(),
                   [](const Edge& a, const Edge& b) { return a.from < b.from; });
  return network;
}

/// One tensor of a micro-batch, whoever reads it: the layer that makes it (-1: none), its number
/// there. Every chunk of a device receives it by itself, as it is sent.
struct TensorName {
  int layer = 0;
  std::size_t tensor = 0;
  int micro_batch = 0;
  int chunk = 0;
  auto operator<=>(const TensorName&) const = default;
};

class Replay {
 public:
  Replay(const Problem& problem, const PlanDegrees& plan)
      : network_(*problem.network),
        plan_(plan),
        expanded_(std::get<ParallelPlan>(expand(plan, network_, *problem.framework))),
        order_(order_of(pipeline_shape(plan, *problem.framework, network_))),
        skips_(problem.framework->skips) {}

  /// The most bytes that a device holds at once.
  [[nodiscard]] double peak(int device) {
    holders_.clear();
    now_ = 0.0;
    double most = 0.0;
    for (const ComputeStep& step : order_.devices[static_cast<std::size_t>(device)]) {
      const auto [first, end] = layers(order_.virtual_stage(device, step.chunk));
      chunk_ = step.chunk;
      if (step.phase == Phase::Forward) {
        pass_on(first, end, step.micro_batch, true);
        for (int layer = first; layer < end; ++layer) {
          run(layer, first, step.micro_batch, true);
          most = std::max(most, now_);
        }
      } else {
        for (int layer = end; layer-- > first;) run(layer, first, step.micro_batch, false);
        pass_on(first, end, step.micro_batch, false);
      }
    }
    CHECK(holders_.empty());
    return most;
  }

 private:
  [[nodiscard]] std::pair<int, int> layers(std::size_t virtual_stage) const {
    int first = 0;
    for (std::size_t g = 0; g < virtual_stage; ++g) first += size(g);
    return {first, first + size(virtual_stage)};
  }
  [[nodiscard]] int size(std::size_t group) const {
    std::int64_t count = 0;
    for (const BlockRun& run : expanded_.assignment->groups[group].blocks) count += run.count;
    return static_cast<int>(count);
  }

  [[nodiscard]] const Block& block(int layer) const {
    return network_.blocks[network_.order[static_cast<std::size_t>(layer)].block];
  }

  /// Who makes what a layer calls so.
  [[nodiscard]] TensorName name_of(int layer, TensorId id, int micro_batch) const {
    const Block& own = block(layer);
    const auto input = std::find(own.inputs.begin(), own.inputs.end(), id) - own.inputs.begin();
    if (input == std::ssize(own.inputs)) return {layer, static_cast<std::size_t>(id), micro_batch};
    for (const Edge& edge : network_.edges) {
      if (edge.to == layer && std::cmp_equal(edge.input, input)) {
        return made_by(static_cast<int>(edge.from), micro_batch);
      }
    }
    return layer == 0 ? TensorName{-1, 0, micro_batch} : made_by(layer - 1, micro_batch);
  }
  [[nodiscard]] TensorName made_by(int layer, int micro_batch) const {
    return {layer, static_cast<std::size_t>(block(layer).outputs.front()), micro_batch};
  }

  [[nodiscard]] double bytes(int layer, TensorId id) const {
    double elements = plan_.micro_batch;
    for (const DimId dim : block(layer).tensor(id).dims) {
      elements *= static_cast<double>(network_.dimension(dim).extent);
    }
    return 2.0 * elements;
  }

  void take(TensorName name, double size, bool keep) {
    name.chunk = chunk_;
    int& count = holders_[name];
    if (keep && count++ == 0) now_ += size;
    if (!keep && --count == 0) {
      now_ -= size;
      holders_.erase(name);
    }
  }

  /// One layer: what its backward reads, or its inputs where it runs again.
  void run(int layer, int first, int micro_batch, bool forward) {
    const Block& own = block(layer);
    const bool some = plan_.recompute_layers > 0;
    const bool again =
        plan_.recompute == Recompute::Full && (!some || layer - first < plan_.recompute_layers);
    if (again) {
      for (const TensorId id : own.inputs) {
        take(name_of(layer, id, micro_batch), bytes(layer, id), forward);
      }
      return;
    }
    for (const Operator& op : own.operators) {
      for (const Saved& saved : op.saved) {
        REQUIRE(saved.as == SavedAs::Itself);
        take(name_of(layer, saved.tensor, micro_batch), bytes(layer, saved.tensor), forward);
      }
    }
  }

  /// Tensors that a stage only passes to those behind it.
  void pass_on(int first, int end, int micro_batch, bool forward) {
    if (skips_ != SkipRoute::Relayed) return;
    std::set<std::int64_t> makers;
    for (const Edge& edge : network_.edges) {
      const bool passes = edge.from < first && edge.to >= end;
      const bool read =
          std::any_of(network_.edges.begin(), network_.edges.end(), [&](const Edge& other) {
            return other.from == edge.from && first <= other.to && other.to < end;
          });
      const bool along_chain = edge.from == first - 1;  // it is read there as the stream
      if (passes && !read && !along_chain) makers.insert(edge.from);
    }
    for (const std::int64_t from : makers) {
      const auto layer = static_cast<int>(from);
      const TensorId id = block(layer).outputs.front();
      take(made_by(layer, micro_batch), bytes(layer, id), forward);
    }
  }

  const Network& network_;
  const PlanDegrees& plan_;
  ParallelPlan expanded_;
  ComputeOrder order_;
  SkipRoute skips_;
  std::map<TensorName, int> holders_;  ///< how many readers still need it
  double now_ = 0.0;
  int chunk_ = 0;  ///< of the step at hand
};

PlanDegrees random_degrees(std::mt19937& random) {
  PlanDegrees plan;
  plan.pipeline = 1 << random() % 3;
  plan.micro_batch = 1 << random() % 2;
  plan.micro_batches = 8;
  const std::array kOrders{kDefaultSchedule, test::kGPipe, test::kInterleaved};
  plan.schedule = plan.pipeline == 1 ? kDefaultSchedule : kOrders[random() % kOrders.size()];
  if (plan.schedule == test::kInterleaved)
    plan.chunks = plan.pipeline == 4 ? 2 : 1 << (1 + random() % 2);
  plan.recompute = random() % 2 == 0 ? Recompute::None : Recompute::Full;
  if (plan.recompute == Recompute::Full) plan.recompute_layers = static_cast<int>(random() % 2);
  return plan;
}

TEST_SUITE("unit") {
  TEST_CASE("five hundred random plans keep what a replay of their steps allocates") {
    std::mt19937 random(5);
    int far = 0;
    int priced = 0;
    for (int i = 0; i < 750; ++i) {
      PlanDegrees plan = random_degrees(random);
      Problem problem = test::toy_problem(
          {.gpus = plan.pipeline, .global_batch = plan.micro_batch * plan.micro_batches});
      Framework framework = *problem.framework;
      framework.skips = random() % 2 == 0 ? SkipRoute::Direct : SkipRoute::Relayed;
      problem.framework = std::make_shared<const Framework>(std::move(framework));
      problem.network = random_network(random);
      for (const Edge& edge : problem.network->edges) far += edge.to - edge.from >= 4 ? 1 : 0;
      const PlanEvaluator evaluator(problem);
      if (evaluator.obstacle(plan)) continue;
      ++priced;
      const auto profile = evaluator.profile(plan);
      const auto workspace = PlanEvaluator::make_workspace();
      Replay replay(problem, plan);
      CAPTURE(i);
      INFO("pp ", plan.pipeline, " vpp ", plan.chunks, " order ", to_text(plan.schedule),
           " recompute ", static_cast<int>(plan.recompute), " ", plan.recompute_layers, " relayed ",
           static_cast<int>(problem.framework->skips));
      for (int stage = 0; stage < plan.pipeline; ++stage) {
        CAPTURE(stage);
        const double kept =
            evaluator.stage_memory(*profile, plan, stage, *workspace).memory.activations.value();
        CHECK(kept == doctest::Approx(replay.peak(stage)).epsilon(1e-12));
      }
    }
    CHECK(far > 1000);
    CHECK(priced > 500);
  }
}

}  // namespace
}  // namespace plansearch::lifetimes_test
