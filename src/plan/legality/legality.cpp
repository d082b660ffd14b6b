// SPDX-License-Identifier: Apache-2.0
#include "plan/legality/legality.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plan/legality/legality_parts.hpp"
#include "plan/placements/check_placements.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plan/stages/layer_distribution.hpp"

namespace plansearch {
namespace legality {
namespace {

using Result = std::optional<Infeasible>;

/// Inputs of a condition.
struct PlanCase : RuleCase {
  int gpus;
};

Result check_product(const PlanCase& c, Wording wording) {
  const std::array degrees{c.plan.data,        c.plan.pipeline,      c.plan.chunks,
                           c.plan.tensor_in,   c.plan.tensor_out,    c.plan.tensor_depth,
                           c.plan.context,     c.plan.expert,        c.plan.expert_tensor,
                           c.plan.micro_batch, c.plan.micro_batches, c.plan.pieces};
  const bool positive = std::ranges::all_of(degrees, [](int degree) { return degree >= 1; });
  if (!positive || c.plan.shard_group < 0) {
    return refuse(wording, Obstacle::DegreesDoNotMultiply, 1, 0, "every degree must be at least 1");
  }
  if (c.plan.devices() != c.gpus) {
    return refuse(wording, Obstacle::DegreesDoNotMultiply, c.plan.devices(), c.gpus, [&] {
      return fmt::format("dp {} x pp {} x cp {} x tp {} is {} devices, not {}", c.plan.data,
                         c.plan.pipeline, c.plan.context, c.plan.tensor(), c.plan.devices(),
                         c.gpus);
    });
  }
  return std::nullopt;
}

/// A degree above one needs an axis in the framework's rank order.
Result check_axis(const Framework& framework, Axis axis, int degree, Wording wording) {
  const auto& order = framework.rank_order;
  if (degree == 1 || std::ranges::find(order, axis) != order.end()) return std::nullopt;
  return refuse(wording, Obstacle::NoSuchFeature, degree, 1, [&] {
    return fmt::format("{} has no {} axis (degree {})", framework.name, to_text(axis), degree);
  });
}

/// One dimension against the ranks it is cut over.
struct Cut {
  Obstacle obstacle;
  std::string_view what;
  std::int64_t extent;
  std::int64_t ranks;
  std::string_view over;
};

Result check_cut(const Cut& cut, Wording wording) {
  if (cut.extent % cut.ranks == 0) return std::nullopt;
  return refuse_indivisible(wording, cut.obstacle, cut.ranks, cut.extent, [&] {
    return fmt::format("{} {} do not divide by {} {}", cut.extent, cut.what, cut.over, cut.ranks);
  });
}

Result check_kv_heads(std::int64_t heads, std::int64_t ranks, Wording wording) {
  if (heads % ranks == 0 || ranks % heads == 0) return std::nullopt;
  return refuse(wording, Obstacle::KvHeadsNotDivisible, ranks, heads, [&] {
    return fmt::format(
        "{} key/value heads are neither a multiple nor a divisor of {} "
        "ranks",
        heads, ranks);
  });
}

Result check_dimension(const PlanDegrees& plan, const Framework& framework,
                       const Dimension& dimension, bool whole_sequence, Wording wording) {
  const std::int64_t out = plan.tensor_out;
  const std::int64_t extent = dimension.extent;
  const bool ulysses =
      plan.context > 1 && (plan.context_kind == ContextKind::Ulysses || whole_sequence);
  const std::int64_t heads_over = ulysses ? out * plan.context : out;
  switch (dimension.role) {
    case DimRole::Head:
      return check_cut({Obstacle::HeadsNotDivisible, "attention heads", extent, heads_over,
                        ulysses ? "tensor x context degree" : "tensor degree"},
                       wording);
    case DimRole::KvHead:
      return check_kv_heads(extent, heads_over, wording);
    case DimRole::Ffn:
      return check_cut({Obstacle::FfnNotDivisible, "FFN features", extent, out, "tensor degree"},
                       wording);
    case DimRole::ExpertFfn:
      return check_cut({Obstacle::FfnNotDivisible, "expert FFN features", extent,
                        plan.expert_tensor, "expert tensor degree"},
                       wording);
    case DimRole::Hidden:
      return check_cut({Obstacle::HiddenNotDivisible, "hidden features", extent, plan.tensor_in,
                        "tensor-in degree"},
                       wording);
    case DimRole::Channel:
      return check_cut(
          {Obstacle::HiddenNotDivisible, "channels", extent, plan.tensor_in, "tensor-in degree"},
          wording);
    case DimRole::Vocab:
      if (framework.vocab_multiple > 0) return std::nullopt;
      return check_cut(
          {Obstacle::VocabNotDivisible, "vocabulary entries", extent, out, "tensor degree"},
          wording);
    case DimRole::Expert:
      return check_cut(
          {Obstacle::ExpertsNotDivisible, "experts", extent, plan.expert, "expert degree"},
          wording);
    case DimRole::Sequence: {
      const bool spread = plan.sequence_parallel == SequenceParallel::On;
      return check_cut({Obstacle::SequenceNotDivisible, "tokens of a sequence", extent,
                        plan.context * (spread ? out : 1),
                        spread ? "context x tensor degree" : "context degree"},
                       wording);
    }
    default:
      return std::nullopt;
  }
}

Result check_has_experts(const PlanCase& c, Wording wording) {
  if (c.plan.expert_ranks() == 1 || has_role(c.network, DimRole::Expert)) return std::nullopt;
  return refuse(wording, Obstacle::NoSuchFeature, c.plan.expert_ranks(), 1,
                [&] { return fmt::format("{} has no experts to parallelise", c.network.name); });
}

Result check_expert_ranks(const PlanCase& c, Wording wording) {
  const int group = c.plan.expert_ranks();
  if (group == 1) return std::nullopt;
  const int ranks = c.plan.stage_ranks();
  if (ranks % group != 0) {
    return refuse(wording, Obstacle::ExpertsNotDivisible, group, ranks, [&] {
      return fmt::format(
          "expert degree {} x expert tensor degree {} does not divide the {} ranks of a "
          "pipeline stage (dp x cp x tp)",
          c.plan.expert, c.plan.expert_tensor, ranks);
    });
  }
  return std::nullopt;
}

Result check_expert_combination(const PlanCase& c, Wording wording) {
  if (c.plan.expert_ranks() == 1) return std::nullopt;
  const bool hybrid = c.plan.shard_group > 0 && c.plan.shard_group < c.plan.data;
  if (c.plan.tensor_in == 1 && !hybrid) return std::nullopt;
  return refuse(wording, Obstacle::NoSuchFeature, 0, 0,
                "expert parallelism does not combine with a tensor-in axis or a shard group");
}

Result check_expert_order(const PlanCase& c, Wording wording) {
  const int group = c.plan.expert_ranks();
  if (group == 1) return std::nullopt;
  const auto& order = c.framework.rank_order;
  const auto pipeline = std::ranges::find(order, Axis::Pipeline);
  const bool inside = pipeline < std::ranges::find(order, Axis::Data);
  if (inside && c.plan.pipeline > 1 && c.plan.data > 1 &&
      group != c.plan.context * c.plan.tensor()) {
    return refuse(wording, Obstacle::FrameworkForbids, group, c.plan.context * c.plan.tensor(),
                  "with pipeline ranks inside data ranks, ep x etp must equal cp x tp");
  }
  return std::nullopt;
}

/// Unfused attention keeps whole score rows, which no ring can pass around.
Result check_ring(const PlanCase& c, Wording wording) {
  if (c.plan.context == 1 || c.plan.context_kind != ContextKind::Ring) return std::nullopt;
  if (!materialises_scores(c.network)) return std::nullopt;
  return refuse(
      wording, Obstacle::NoSuchFeature, c.plan.context, 1,
      "ring context parallelism needs fused attention (--attention flash), --cp-kind ulysses or "
      "all-gather");
}

Result check_shard_group(const PlanCase& c, Wording wording) {
  if (c.plan.shard_group == 0 || c.plan.data % c.plan.shard_group == 0) return std::nullopt;
  return refuse_indivisible(
      wording, Obstacle::DegreesDoNotMultiply, c.plan.shard_group, c.plan.data, [&] {
        return fmt::format("a shard group of {} does not divide {} data ranks", c.plan.shard_group,
                           c.plan.data);
      });
}

/// Recomputed layers need full recomputation and the framework, and are no more than a chunk holds.
Result check_recompute_layers(const PlanCase& c, Wording wording) {
  const int layers = c.plan.recompute_layers;
  if (layers == 0) return std::nullopt;
  const std::int64_t chunks = std::int64_t{1} * c.plan.pipeline * c.plan.chunks;
  const std::int64_t most = (count_layers(c.network) + chunks - 1) / chunks;
  const bool full = c.plan.recompute == Recompute::Full;
  const bool can = c.framework.partial_recompute == PartialRecompute::FirstLayers;
  if (full && can && layers > 0 && layers <= most) return std::nullopt;
  return refuse(wording, can || !full ? Obstacle::NoSuchFeature : Obstacle::FrameworkForbids,
                static_cast<double>(layers), static_cast<double>(most), [&] {
                  if (!full) {
                    return fmt::format("recompute_layers {} is of full recomputation, not of {}",
                                       layers, to_text(c.plan.recompute));
                  }
                  if (!can)
                    return fmt::format("{} recomputes all layers or none", c.framework.name);
                  return fmt::format("recompute_layers {}: a chunk holds at most {} layers", layers,
                                     most);
                });
}

/// A degree left to the search is not a plan by itself; searches ask without words.
Result left_to_search(std::string_view what, Wording wording) {
  if (wording == Wording::Silent) return std::nullopt;
  return broken(fmt::format("{} is for searches: a plan names it", what));
}

/// Parts of a layer by name: of selective recomputation, known to the framework, in the network.
Result check_modules(const PlanCase& c, Wording wording) {
  if (c.plan.modules == 0) return std::nullopt;
  if (c.plan.modules == kFewestModules) return left_to_search("recompute_modules fewest", wording);
  const LayerModules asked(c.plan.modules);
  const bool selective = c.plan.recompute == Recompute::Selective;
  const LayerModules unknown = asked & ~c.framework.recompute_modules;
  const LayerModules missing = asked & ~modules_of(c.network);
  if (selective && unknown.none() && missing.none()) return std::nullopt;
  const bool forbids = selective && unknown.any();
  const Obstacle obstacle = forbids ? Obstacle::FrameworkForbids : Obstacle::NoSuchFeature;
  return refuse(wording, obstacle, 0, 0, [&] {
    if (!selective) {
      return fmt::format("recompute_modules {} is of selective recomputation, not of {}",
                         to_text(asked, ","), to_text(c.plan.recompute));
    }
    if (forbids) {
      return fmt::format("{} does not recompute {} by name", c.framework.name,
                         to_text(unknown, ", "));
    }
    return fmt::format("the network has no {}", to_text(missing, ", "));
  });
}

/// Known to the framework, in a network that routes tokens.
Result check_dispatcher(const PlanCase& c, Wording wording) {
  const DispatcherId id = c.plan.dispatcher;
  if (id == kOwnDispatcher) return std::nullopt;
  if (id == kAnyDispatcher) return left_to_search("dispatcher any", wording);
  const auto& known = c.framework.dispatchers;
  const bool has =
      std::ranges::any_of(known, [&](const TokenDispatcher& one) { return one.id == id; });
  const bool routes = c.network.routing.has_value();
  if (has && routes) return std::nullopt;
  return refuse(wording, routes ? Obstacle::FrameworkForbids : Obstacle::NoSuchFeature, 0, 0, [&] {
    return routes ? fmt::format("{} has no dispatcher {}", c.framework.name, to_text(id))
                  : fmt::format("dispatcher {}: the network has no experts", to_text(id));
  });
}

Result check_pieces(const PlanCase& c, Wording wording) {
  if (c.plan.micro_batch % c.plan.pieces == 0) return std::nullopt;
  return refuse_indivisible(
      wording, Obstacle::BatchNotDivisible, c.plan.pieces, c.plan.micro_batch, [&] {
        return fmt::format("a micro-batch of {} sequence{} is not cut into {} pieces",
                           c.plan.micro_batch, c.plan.micro_batch == 1 ? "" : "s", c.plan.pieces);
      });
}

/// Pieces are for messages that kernels run beside.
Result check_interleaving(const PlanCase& c, Wording wording) {
  const auto& rule = c.framework.overlap[static_cast<std::size_t>(Overlap::TensorParallel)];
  if (c.plan.pieces == 1 || rule.wait == MessageWait::Use) return std::nullopt;
  return refuse(wording, Obstacle::NoSuchFeature, c.plan.pieces, 1, [&] {
    return fmt::format(
        "{} waits for tensor-parallel messages at once (overlap.tensor_parallel), so that pieces "
        "of a micro-batch hide nothing",
        c.framework.name);
  });
}

/// Gradients of a micro-batch are gone when the next one makes its own.
Result check_updates(const PlanCase& c, Wording wording) {
  if (!c.framework.optimizer_in_backward || c.plan.micro_batches == 1) return std::nullopt;
  return refuse(wording, Obstacle::FrameworkForbids, c.plan.micro_batches, 1, [&] {
    return fmt::format("updates in backward leave no gradients to add up: one micro-batch, not {}",
                       c.plan.micro_batches);
  });
}

/// A check that asks no devices.
template <auto Check>
Result by_rule(const PlanCase& c, Wording wording) {
  return Check(c, wording);
}

struct Condition {
  DegreeSet reads;
  Result (*check)(const PlanCase&, Wording);
  bool of_tensor_group = false;  ///< cuts over it; placements of single operators replace it
};

template <Axis A, int PlanDegrees::*Field>
Result axis_of(const PlanCase& c, Wording wording) {
  return check_axis(c.framework, A, c.plan.*Field, wording);
}

/// All dimensions of some roles.
template <DimRole... Roles>
Result cut_of(const PlanCase& c, Wording wording) {
  for (std::size_t i = 0; i < c.network.dimensions.size(); ++i) {
    const Dimension& dimension = c.network.dimensions[i];
    if (!((dimension.role == Roles) || ...)) continue;
    const bool whole = c.plan.context > 1 && takes_whole_sequence(c.network, static_cast<DimId>(i));
    if (auto bad = check_dimension(c.plan, c.framework, dimension, whole, wording)) return bad;
  }
  return std::nullopt;
}

constexpr DegreeSet kExpertDegrees{Degree::Expert, Degree::ExpertTensor};

/// The conditions in the order in which they are reported, and the only degrees each reads.
constexpr std::array kConditions{
    Condition{kMeshDegrees, check_product},
    Condition{{Degree::TensorIn}, axis_of<Axis::In, &PlanDegrees::tensor_in>},
    Condition{{Degree::TensorOut}, axis_of<Axis::Out, &PlanDegrees::tensor_out>},
    Condition{{Degree::TensorDepth}, axis_of<Axis::Depth, &PlanDegrees::tensor_depth>},
    Condition{{Degree::Context}, axis_of<Axis::Context, &PlanDegrees::context>},
    Condition{{Degree::Data}, axis_of<Axis::Data, &PlanDegrees::data>},
    Condition{{Degree::Pipeline}, axis_of<Axis::Pipeline, &PlanDegrees::pipeline>},
    Condition{{Degree::TensorOut, Degree::Context, Degree::ContextKind},
              cut_of<DimRole::Head, DimRole::KvHead>,
              true},
    Condition{{Degree::TensorOut}, cut_of<DimRole::Ffn, DimRole::Vocab>, true},
    Condition{{Degree::ExpertTensor}, cut_of<DimRole::ExpertFfn>},
    Condition{{Degree::TensorIn}, cut_of<DimRole::Hidden, DimRole::Channel>},
    Condition{{Degree::Expert}, cut_of<DimRole::Expert>},
    Condition{{Degree::Context, Degree::TensorOut, Degree::SequenceParallel},
              cut_of<DimRole::Sequence>,
              true},
    Condition{kExpertDegrees, check_has_experts},
    Condition{kExpertDegrees | kMeshDegrees, check_expert_ranks},
    Condition{kExpertDegrees | DegreeSet{Degree::TensorIn, Degree::Data, Degree::ShardGroup},
              check_expert_combination},
    Condition{kExpertDegrees | kMeshDegrees, check_expert_order},
    Condition{{Degree::Context, Degree::ContextKind}, check_ring},
    Condition{
        {Degree::Temporal, Degree::TensorIn, Degree::TensorOut, Degree::TensorDepth,
         Degree::Context, Degree::SequenceParallel},
        [](const PlanCase& c, Wording) { return check_rings(c.plan, c.network, c.framework); }},
    Condition{{Degree::Data, Degree::ShardGroup}, check_shard_group},
    Condition{{Degree::Pipeline, Degree::Chunks, Degree::Recompute, Degree::RecomputeLayers},
              check_recompute_layers},
    Condition{{Degree::Recompute, Degree::RecomputeModules}, check_modules},
    Condition{{Degree::Dispatcher}, check_dispatcher},
    Condition{{Degree::Zero, Degree::Offload}, by_rule<check_kept_on_host>},
    Condition{kBatchDegrees, check_updates},
    Condition{{Degree::MicroBatch}, by_rule<check_pairs>},
    Condition{{Degree::Pieces}, check_interleaving},
    Condition{{Degree::MicroBatch, Degree::Pieces}, check_pieces},
    Condition{{Degree::Pipeline, Degree::Schedule}, by_rule<check_order_listed>},
    Condition{kBatchDegrees | DegreeSet{Degree::Pipeline, Degree::Chunks, Degree::Schedule},
              by_rule<check_order_runs>},
    Condition{{Degree::Pipeline, Degree::Chunks}, [](const PlanCase& c, Wording w) {
                return check_layers(c.plan, c.network, c.framework, w);
              }}};

Result check_all(const PlanCase& c, Wording wording) {
  for (const Condition& condition : kConditions) {
    if (auto bad = condition.check(c, wording)) return bad;
  }
  for (const FrameworkRule& rule : c.framework.rules) {
    if (auto bad = check_rule(rule, c, wording)) return bad;
  }
  return std::nullopt;
}

std::optional<Obstacle> obstacle_in(const Result& result) {
  return result ? std::optional(result->obstacle) : std::nullopt;
}

}  // namespace

std::optional<Infeasible> check_by_role(const PlanDegrees& plan, const Framework& framework,
                                        const Dimension& dimension) {
  return check_dimension(plan, framework, dimension, false, Wording::Full);
}

std::optional<Infeasible> check_axes(const PlanDegrees& plan, const Framework& framework) {
  for (const auto& [axis, degree] :
       {std::pair{Axis::In, plan.tensor_in}, std::pair{Axis::Out, plan.tensor_out},
        std::pair{Axis::Depth, plan.tensor_depth}, std::pair{Axis::Context, plan.context},
        std::pair{Axis::Data, plan.data}, std::pair{Axis::Pipeline, plan.pipeline}}) {
    if (auto bad = check_axis(framework, axis, degree, Wording::Full)) return bad;
  }
  return std::nullopt;
}

}  // namespace legality

std::optional<Infeasible> check_legality(const PlanDegrees& plan, const Network& network,
                                         const Framework& framework, int gpus, DataType precision) {
  return legality::check_all({{plan, network, framework, precision}, gpus},
                             legality::Wording::Full);
}

std::optional<Infeasible> check_transform(const PlanDegrees& degrees, const Network& network,
                                          const Framework& framework, DataType precision,
                                          const Placements* placements) {
  PlanDegrees alone = degrees;
  alone.pipeline = alone.chunks = 1;
  alone.schedule = PlanDegrees{}.schedule;
  const legality::PlanCase c{{alone, network, framework, precision}, alone.devices()};
  for (const legality::Condition& condition : legality::kConditions) {
    if (placements != nullptr && condition.of_tensor_group) continue;
    if (auto bad = condition.check(c, legality::Wording::Full)) return bad;
  }
  if (placements != nullptr) {
    if (auto bad = check_placements(*placements, network, alone, framework)) return bad;
  }
  const legality::PlanCase whole{{degrees, network, framework, precision}, degrees.devices()};
  if (auto bad = legality::check_order_listed(whole, legality::Wording::Full)) return bad;
  for (const FrameworkRule& rule : framework.rules) {
    if (auto bad = legality::check_rule(rule, whole, legality::Wording::Full)) {
      // Which heads go where is what the placements say.
      const bool heads = bad->obstacle == Obstacle::HeadsNotDivisible ||
                         bad->obstacle == Obstacle::KvHeadsNotDivisible;
      if (placements == nullptr || !heads) return bad;
    }
  }
  return std::nullopt;
}

std::optional<Obstacle> find_obstacle(const PlanDegrees& plan, const Network& network,
                                      const Framework& framework, int gpus, DataType precision) {
  return legality::obstacle_in(legality::check_all({{plan, network, framework, precision}, gpus},
                                                   legality::Wording::Silent));
}

std::optional<BrokenRule> rule_broken_by(const PinnedDegrees& decided, const Network& network,
                                         const Framework& framework, DataType precision) {
  DegreeSet known;
  for (const DegreeRow& row : degree_table()) {
    if (decided.has(row.degree)) known.insert(row.degree);
  }
  const PlanDegrees plan = with_pinned({}, decided);
  const bool has_modules = plan.recompute == Recompute::Selective;
  if (decided.has(Degree::Recompute) && !has_modules) known.insert(Degree::RecomputeModules);
  for (const FrameworkRule& rule : framework.rules) {
    const auto row = legality::known_rule(rule);
    if (!row || !((row->reads | known) == known)) continue;
    auto why =
        legality::check_rule(rule, {plan, network, framework, precision}, legality::Wording::Full);
    if (why) return BrokenRule{row->reads, *std::move(why)};
  }
  return std::nullopt;
}

std::vector<LegalityCondition> legality_conditions(const Network& network,
                                                   const Framework& framework, int gpus,
                                                   DataType precision) {
  std::vector<LegalityCondition> conditions;
  for (const legality::Condition& row : legality::kConditions) {
    conditions.push_back(
        {row.reads,
         [&network, &framework, precision, gpus, check = row.check](const PlanDegrees& plan) {
           return legality::obstacle_in(
               check({{plan, network, framework, precision}, gpus}, legality::Wording::Silent));
         }});
  }
  for (const FrameworkRule& rule : framework.rules) {
    const auto known = legality::known_rule(rule);
    if (!known) continue;
    conditions.push_back({known->reads,
                          [&network, &framework, precision,
                           known = *known](const PlanDegrees& plan) -> std::optional<Obstacle> {
                            const legality::RuleCase c{plan, network, framework, precision};
                            if (!known.broken(c, known.limit)) return std::nullopt;
                            return known.obstacle;
                          }});
  }
  return conditions;
}

}  // namespace plansearch
