// SPDX-License-Identifier: Apache-2.0
#include "plansearch/plan/legality.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "legality_parts.hpp"
#include "plansearch/base/error.hpp"

namespace plansearch {
namespace legality {

std::string divisors(std::int64_t number, std::int64_t limit) {
  std::string text;
  for (std::int64_t d = 1; d <= limit && d <= number; ++d) {
    if (number % d == 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", d);
  }
  return text;
}

namespace {

using Result = std::optional<Infeasible>;

Result check_degrees(const ParallelPlan& plan, const Framework& framework, int gpus) {
  const std::array degrees{plan.data,          plan.pipeline,     plan.chunks,       plan.tensor_in,
                           plan.tensor_out,    plan.tensor_depth, plan.context,      plan.expert,
                           plan.expert_tensor, plan.micro_batch,  plan.micro_batches};
  const bool positive =
      std::all_of(degrees.begin(), degrees.end(), [](int degree) { return degree >= 1; });
  if (!positive || plan.shard_group < 0) {
    return Infeasible{Obstacle::DegreesDoNotMultiply, 1, 0, "every degree must be at least 1"};
  }
  if (plan.devices() != gpus) {
    return Infeasible{
        Obstacle::DegreesDoNotMultiply, static_cast<double>(plan.devices()),
        static_cast<double>(gpus),
        fmt::format("dp {} x pp {} x cp {} x tp {} is {} devices, not {}", plan.data, plan.pipeline,
                    plan.context, plan.tensor(), plan.devices(), gpus)};
  }
  const std::array<std::pair<Axis, int>, 6> axes{{{Axis::In, plan.tensor_in},
                                                  {Axis::Out, plan.tensor_out},
                                                  {Axis::Depth, plan.tensor_depth},
                                                  {Axis::Context, plan.context},
                                                  {Axis::Data, plan.data},
                                                  {Axis::Pipeline, plan.pipeline}}};
  for (const auto& [axis, degree] : axes) {
    const auto& order = framework.rank_order;
    if (degree > 1 && std::find(order.begin(), order.end(), axis) == order.end()) {
      return Infeasible{
          Obstacle::NoSuchFeature, static_cast<double>(degree), 1,
          fmt::format("{} has no {} axis (degree {})", framework.name, to_text(axis), degree)};
    }
  }
  return std::nullopt;
}

/// One dimension against the ranks it is cut over.
struct Cut {
  Obstacle obstacle;
  std::string_view what;
  std::int64_t extent;
  std::int64_t ranks;
  std::string_view over;
};

Result check_cut(const Cut& cut) {
  if (cut.extent % cut.ranks == 0) return std::nullopt;
  return Infeasible{cut.obstacle, static_cast<double>(cut.ranks), static_cast<double>(cut.extent),
                    fmt::format("{} {} do not divide by {} {}; legal: {}", cut.extent, cut.what,
                                cut.over, cut.ranks, divisors(cut.extent, 64))};
}

Result check_kv_heads(std::int64_t heads, std::int64_t ranks) {
  if (heads % ranks == 0 || ranks % heads == 0) return std::nullopt;
  return Infeasible{Obstacle::KvHeadsNotDivisible, static_cast<double>(ranks),
                    static_cast<double>(heads),
                    fmt::format("{} key/value heads are neither a multiple nor a divisor of {} "
                                "ranks",
                                heads, ranks)};
}

Result check_dimension(const ParallelPlan& plan, const Framework& framework,
                       const Dimension& dimension) {
  const std::int64_t out = plan.tensor_out;
  const std::int64_t extent = dimension.extent;
  const bool ulysses = plan.context > 1 && plan.context_kind == ContextKind::Ulysses;
  const std::int64_t heads_over = ulysses ? out * plan.context : out;
  switch (dimension.role) {
    case DimRole::Head:
      return check_cut({Obstacle::HeadsNotDivisible, "attention heads", extent, heads_over,
                        ulysses ? "tensor x context degree" : "tensor degree"});
    case DimRole::KvHead:
      return check_kv_heads(extent, heads_over);
    case DimRole::Ffn:
      return check_cut({Obstacle::FfnNotDivisible, "FFN features", extent, out, "tensor degree"});
    case DimRole::ExpertFfn:
      return check_cut({Obstacle::FfnNotDivisible, "expert FFN features", extent,
                        plan.expert_tensor, "expert tensor degree"});
    case DimRole::Hidden:
      return check_cut({Obstacle::HiddenNotDivisible, "hidden features", extent, plan.tensor_in,
                        "tensor-in degree"});
    case DimRole::Vocab:
      if (framework.vocab_multiple > 0) return std::nullopt;
      return check_cut(
          {Obstacle::VocabNotDivisible, "vocabulary entries", extent, out, "tensor degree"});
    case DimRole::Expert:
      return check_cut(
          {Obstacle::ExpertsNotDivisible, "experts", extent, plan.expert, "expert degree"});
    case DimRole::Sequence: {
      const bool spread = plan.sequence_parallel == SequenceParallel::On;
      return check_cut({Obstacle::SequenceNotDivisible, "tokens of a sequence", extent,
                        plan.context * (spread ? out : 1),
                        spread ? "context x tensor degree" : "context degree"});
    }
    default:
      return std::nullopt;
  }
}

bool has_role(const Network& network, DimRole role) {
  return std::any_of(network.dimensions.begin(), network.dimensions.end(),
                     [&](const Dimension& dimension) { return dimension.role == role; });
}

Result check_experts(const ParallelPlan& plan, const Network& network, const Framework& framework) {
  const int group = plan.expert * plan.expert_tensor;
  if (group == 1) return std::nullopt;
  if (!has_role(network, DimRole::Expert)) {
    return Infeasible{Obstacle::NoSuchFeature, static_cast<double>(group), 1,
                      fmt::format("{} has no experts to parallelise", network.name)};
  }
  const int ranks = plan.data * plan.context * plan.tensor();
  if (ranks % group != 0) {
    return Infeasible{
        Obstacle::ExpertsNotDivisible, static_cast<double>(group), static_cast<double>(ranks),
        fmt::format("expert degree {} x expert tensor degree {} does not divide the {} ranks of a "
                    "pipeline stage (dp x cp x tp)",
                    plan.expert, plan.expert_tensor, ranks)};
  }
  if (plan.tensor_in > 1 || plan.shard_group > 0) {
    return Infeasible{Obstacle::NoSuchFeature, 0, 0,
                      "expert parallelism does not combine with a tensor-in axis or a shard group"};
  }
  const auto& order = framework.rank_order;
  const auto pipeline = std::find(order.begin(), order.end(), Axis::Pipeline);
  const bool inside = pipeline < std::find(order.begin(), order.end(), Axis::Data);
  if (inside && plan.pipeline > 1 && plan.data > 1 && group != plan.context * plan.tensor()) {
    return Infeasible{Obstacle::FrameworkForbids, static_cast<double>(group),
                      static_cast<double>(plan.context * plan.tensor()),
                      "with pipeline ranks inside data ranks, ep x etp must equal cp x tp"};
  }
  return std::nullopt;
}

/// Unfused attention keeps whole score rows, which no ring can pass around.
Result check_ring(const ParallelPlan& plan, const Network& network) {
  if (plan.context == 1 || plan.context_kind != ContextKind::Ring) return std::nullopt;
  for (const Block& block : network.blocks) {
    for (const Operator& op : block.operators) {
      const bool over_keys = op.kind == OperatorKind::Softmax &&
                             std::any_of(op.loop.begin(), op.loop.end(), [&](DimId dim) {
                               return network.dimension(dim).role == DimRole::KeySequence;
                             });
      if (over_keys) {
        return Infeasible{Obstacle::NoSuchFeature, static_cast<double>(plan.context), 1,
                          "ring context parallelism needs fused attention (--attention flash) or "
                          "--cp-kind ulysses"};
      }
    }
  }
  return std::nullopt;
}

Result check_shard_group(const ParallelPlan& plan) {
  if (plan.shard_group == 0 || plan.data % plan.shard_group == 0) return std::nullopt;
  return Infeasible{Obstacle::DegreesDoNotMultiply, static_cast<double>(plan.shard_group),
                    static_cast<double>(plan.data),
                    fmt::format("a shard group of {} does not divide {} data ranks; legal: {}",
                                plan.shard_group, plan.data, divisors(plan.data, 64))};
}

Result check_schedule(const ParallelPlan& plan) {
  const bool interleaved = plan.schedule == ScheduleKind::Interleaved;
  if (interleaved != (plan.chunks > 1) || (interleaved && plan.pipeline == 1)) {
    return Infeasible{Obstacle::NoSuchFeature, static_cast<double>(plan.chunks), 1,
                      fmt::format("{} chunks per stage with schedule {} and {} stages: more than "
                                  "one chunk and more than one stage go with interleaving only",
                                  plan.chunks, to_text(plan.schedule), plan.pipeline)};
  }
  if (interleaved && plan.micro_batches % plan.pipeline != 0) {
    return Infeasible{Obstacle::ScheduleNeedsMicroBatches, static_cast<double>(plan.pipeline),
                      static_cast<double>(plan.micro_batches),
                      fmt::format("interleaving needs a multiple of {} micro-batches per step, "
                                  "not {}",
                                  plan.pipeline, plan.micro_batches)};
  }
  return std::nullopt;
}

}  // namespace
}  // namespace legality

std::optional<Infeasible> check_legality(const ParallelPlan& plan, const Network& network,
                                         const Framework& framework, int gpus) {
  using namespace legality;
  if (auto bad = check_degrees(plan, framework, gpus)) return bad;
  for (const Dimension& dimension : network.dimensions) {
    if (auto bad = check_dimension(plan, framework, dimension)) return bad;
  }
  if (auto bad = check_experts(plan, network, framework)) return bad;
  if (auto bad = check_ring(plan, network)) return bad;
  if (auto bad = check_shard_group(plan)) return bad;
  if (auto bad = check_schedule(plan)) return bad;
  if (auto bad = check_layers(plan, network, framework)) return bad;
  return check_rules(plan, network, framework);
}

}  // namespace plansearch
