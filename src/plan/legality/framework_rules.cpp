// SPDX-License-Identifier: Apache-2.0
// The closed vocabulary of framework rules: what a framework file may forbid.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/ranges.hpp"
#include "plan/legality/legality_parts.hpp"
#include "plan/primitives/recompute.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace legality {
namespace {

bool is_ring(const PlanDegrees& plan) {
  return plan.context > 1 && plan.context_kind == ContextKind::Ring;
}

bool gathers_keys(const PlanDegrees& plan) {
  return plan.context > 1 && plan.context_kind == ContextKind::AllGather;
}

bool is_ulysses(const PlanDegrees& plan) {
  return plan.context > 1 && plan.context_kind == ContextKind::Ulysses;
}

bool is_hybrid(const PlanDegrees& plan) {
  return plan.shard_group > 0 && plan.shard_group < plan.data;
}

bool twice_context_divides(const RuleCase& c) {
  if (c.plan.context == 1) return true;
  const bool spread = c.plan.sequence_parallel == SequenceParallel::On;
  const std::int64_t ranks = 2LL * c.plan.context * (spread ? c.plan.tensor_out : 1);
  for (const Dimension& dimension : c.network.dimensions) {
    if (dimension.role == DimRole::Sequence && dimension.extent % ranks != 0) return false;
  }
  return true;
}

/// All-to-all context parallelism hands out whole heads, so every rank of the group needs some of
/// the key/value heads of its tensor rank.
bool ulysses_divides_kv_heads(const RuleCase& c) {
  if (!is_ulysses(c.plan)) return true;
  const std::int64_t ranks = std::int64_t{c.plan.tensor_out} * c.plan.context;
  for (const Dimension& dimension : c.network.dimensions) {
    if (dimension.role == DimRole::KvHead && dimension.extent % ranks != 0) return false;
  }
  return true;
}

bool has_odd_heads(const RuleCase& c) {
  return std::ranges::any_of(c.network.dimensions, [&](const Dimension& d) {
    const bool heads = d.role == DimRole::Head || d.role == DimRole::KvHead;
    return heads && std::max<std::int64_t>(1, d.extent / c.plan.tensor_out) % 2 != 0;
  });
}

bool whole_kv_heads(const RuleCase& c) {
  return std::ranges::all_of(c.network.dimensions, [&](const Dimension& d) {
    return d.role != DimRole::KvHead || d.extent % c.plan.tensor_out == 0;
  });
}

/// Groups of keys of a recurrence are not copied to several tensor ranks.
bool whole_groups(const RuleCase& c) {
  for (std::size_t i = 0; i < c.network.dimensions.size(); ++i) {
    const Dimension& d = c.network.dimensions[i];
    const bool groups = d.role == DimRole::KvHead && d.extent > 1 &&
                        takes_whole_sequence(c.network, static_cast<DimId>(i));
    if (groups && d.extent % c.plan.tensor_out != 0) return false;
  }
  return true;
}

/// Context ranks take whole heads of a recurrence, and groups that are as many, or parts of one.
bool heads_over_context(const RuleCase& c) {
  for (std::size_t i = 0; i < c.network.dimensions.size(); ++i) {
    const Dimension& d = c.network.dimensions[i];
    if (d.role != DimRole::KvHead && d.role != DimRole::Head) continue;
    if (!takes_whole_sequence(c.network, static_cast<DimId>(i))) continue;
    const std::int64_t local = std::max<std::int64_t>(1, d.extent / c.plan.tensor_out);
    const bool parts = d.role == DimRole::KvHead && c.plan.context % local == 0;
    if (local % c.plan.context != 0 && !parts) return false;
  }
  return true;
}

bool whole_operand_blocks(const RuleCase& c) {
  const auto policy = c.framework.precision.find(c.precision);
  if (policy == c.framework.precision.end()) return true;
  const OperandBlock block = operand_block(policy->second.matmul);
  return block.features == 1 || fits_blocks(c.network, c.plan, block);
}

using Broken = bool (*)(const RuleCase&, double limit);

struct Rule {
  RuleDescription description;
  DegreeSet reads;  ///< the only degrees that `broken` reads
  Broken broken;
  Obstacle obstacle = Obstacle::FrameworkForbids;
};

bool is_moe(const RuleCase& c) {
  return has_role(c.network, DimRole::Expert);
}

/// Under an order of its own: others are priced as if it ran them.
bool joins(const RuleCase& c) {
  const auto& own = c.framework.paired_schedules;
  return schedule_row(c.plan.schedule).joins && contains(own, to_text(c.plan.schedule));
}

/// The whole layer, or its router, exchanges and experts by name.
bool recomputes_exchange(const RuleCase& c) {
  const SelectiveRecompute selective = selective_of(c.framework, c.plan);
  return c.plan.recompute == Recompute::Full ||
         (c.plan.recompute == Recompute::Selective && selective.rule == SelectiveRule::Modules &&
          (selective.modules & bit_of(LayerModule::Moe)).any());
}

template <auto Member>
bool above(const RuleCase& c, double limit) {
  return static_cast<double>(c.plan.*Member) > limit;
}
bool zero_below(const RuleCase& c, double limit) {
  return static_cast<double>(c.plan.zero) < limit;
}

using D = Degree;

constexpr Rule kRules[] = {
    {{"max-tensor", "tensor degree (in x out x depth) above the limit", true},
     {D::TensorIn, D::TensorOut, D::TensorDepth},
     [](const RuleCase& c, double limit) { return c.plan.tensor() > limit; }},
    {{"max-tensor-in", "tensor-in degree above the limit", true},
     {D::TensorIn},
     above<&PlanDegrees::tensor_in>},
    {{"max-tensor-depth", "tensor-depth degree above the limit", true},
     {D::TensorDepth},
     above<&PlanDegrees::tensor_depth>},
    {{"max-overdecompose", "more pieces of a micro-batch than the limit", true},
     {D::Pieces},
     above<&PlanDegrees::pieces>,
     Obstacle::NoSuchFeature},
    {{"max-context", "context degree above the limit", true},
     {D::Context},
     above<&PlanDegrees::context>},
    {{"max-expert", "expert degree above the limit", true},
     {D::Expert},
     above<&PlanDegrees::expert>},
    {{"max-expert-tensor", "expert tensor degree above the limit", true},
     {D::ExpertTensor},
     above<&PlanDegrees::expert_tensor>},
    {{"max-pipeline", "pipeline degree above the limit", true},
     {D::Pipeline},
     above<&PlanDegrees::pipeline>},
    {{"max-chunks", "model chunks per stage above the limit", true},
     {D::Chunks},
     above<&PlanDegrees::chunks>},
    {{"max-zero", "ZeRO stage above the limit", true}, {D::Zero}, above<&PlanDegrees::zero>},
    {{"min-zero", "ZeRO stage below the limit where there are several data or context ranks", true},
     {D::Data, D::Context, D::Zero},
     [](const RuleCase& c, double limit) {
       return c.plan.data * c.plan.context > 1 && zero_below(c, limit);
     }},
    {{"max-zero-with-pipeline", "ZeRO stage above the limit with several pipeline stages", true},
     {D::Pipeline, D::Zero},
     [](const RuleCase& c, double limit) {
       return c.plan.pipeline > 1 && above<&PlanDegrees::zero>(c, limit);
     }},
    {{"max-zero-with-experts", "ZeRO stage above the limit for a mixture of experts", true},
     {D::Zero},
     [](const RuleCase& c, double limit) {
       return is_moe(c) && above<&PlanDegrees::zero>(c, limit);
     }},
    {{"min-stages-interleaved", "interleaving with fewer stages than the limit", true},
     {D::Pipeline, D::Chunks},
     [](const RuleCase& c, double limit) { return c.plan.chunks > 1 && c.plan.pipeline < limit; }},
    {{"interleaved-pair-needs-overlap", "interleaving of two stages whose sends block"},
     {D::Pipeline, D::Chunks},
     [](const RuleCase& c, double) {
       return c.plan.pipeline == 2 && c.plan.chunks > 1 &&
              !c.framework.overlap[static_cast<std::size_t>(Overlap::PipelineSend)].hides();
     }},
    {{"no-ring-context", "context parallelism as a ring"},
     {D::Context, D::ContextKind},
     [](const RuleCase& c, double) { return is_ring(c.plan); }},
    {{"no-gathered-context", "context parallelism that gathers keys and values"},
     {D::Context, D::ContextKind},
     [](const RuleCase& c, double) { return gathers_keys(c.plan); }},
    {{"no-ulysses-context", "context parallelism by all-to-all over heads"},
     {D::Context, D::ContextKind},
     [](const RuleCase& c, double) { return is_ulysses(c.plan); }},
    {{"ulysses-divides-kv-heads",
      "all-to-all context parallelism that does not divide the key/value heads of a tensor rank"},
     {D::Context, D::ContextKind, D::TensorOut},
     [](const RuleCase& c, double) { return !ulysses_divides_kv_heads(c); }},
    {{"ulysses-needs-even-heads",
      "all-to-all context parallelism of an odd number of heads of a tensor rank"},
     {D::Context, D::ContextKind, D::TensorOut},
     [](const RuleCase& c, double) { return is_ulysses(c.plan) && has_odd_heads(c); }},
    {{"ulysses-needs-ungrouped-heads",
      "all-to-all context parallelism with fewer key/value heads than query heads"},
     {D::Context, D::ContextKind},
     [](const RuleCase& c, double) {
       const std::int64_t heads = smallest_extent(c.network, DimRole::KvHead);
       return is_ulysses(c.plan) && heads > 0 && heads < smallest_extent(c.network, DimRole::Head);
     }},
    {{"no-context-with-pipeline", "context parallelism with several pipeline stages"},
     {D::Context, D::Pipeline},
     [](const RuleCase& c, double) { return c.plan.context > 1 && c.plan.pipeline > 1; }},
    {{"no-context-with-tensor", "context parallelism with several tensor ranks"},
     {D::Context, D::TensorIn, D::TensorOut, D::TensorDepth},
     [](const RuleCase& c, double) { return c.plan.context > 1 && c.plan.tensor() > 1; }},
    {{"context-multiple", "a context degree above 1 that is not a multiple of the limit", true},
     {D::Context},
     [](const RuleCase& c, double limit) {
       return c.plan.context > 1 && std::fmod(c.plan.context, limit) != 0.0;
     }},
    {{"context-needs-fused-attention", "context parallelism of attention that writes scores out"},
     {D::Context},
     [](const RuleCase& c, double) {
       return c.plan.context > 1 && materialises_scores(c.network);
     }},
    {{"no-ring-context-with-window", "context parallelism as a ring for attention to a window"},
     {D::Context, D::ContextKind},
     [](const RuleCase& c, double) { return is_ring(c.plan) && attends_to_window(c.network); }},
    {{"no-ring-context-with-sinks", "context parallelism as a ring for attention with sinks"},
     {D::Context, D::ContextKind},
     [](const RuleCase& c, double) { return is_ring(c.plan) && has_attention_sinks(c.network); }},
    {{"no-ulysses-context-with-bias",
      "context parallelism by all-to-all over heads for attention with a bias on its scores"},
     {D::Context, D::ContextKind},
     [](const RuleCase& c, double) { return is_ulysses(c.plan) && has_attention_bias(c.network); }},
    {{"no-fused-attention-with-sinks", "fused attention with sinks"},
     {},
     [](const RuleCase& c, double) {
       return has_attention_sinks(c.network) && !materialises_scores(c.network);
     }},
    {{"sequence-twice-context", "sequence length that 2 x cp (x tp) does not divide"},
     {D::Context, D::ContextKind, D::SequenceParallel, D::TensorOut},
     [](const RuleCase& c, double) { return !twice_context_divides(c); }},
    {{"no-sequence-parallel", "sequence parallelism"},
     {D::SequenceParallel, D::TensorOut},
     [](const RuleCase& c, double) {
       return c.plan.sequence_parallel == SequenceParallel::On && c.plan.tensor_out > 1;
     }},
    {{"sequence-parallel-always", "tensor parallelism without sequence parallelism"},
     {D::SequenceParallel, D::TensorOut},
     [](const RuleCase& c, double) {
       return c.plan.sequence_parallel == SequenceParallel::Off && c.plan.tensor_out > 1;
     }},
    {{"no-recompute-in-pairs",
      "exchanges of experts that run again, under an order that joins forwards and backwards"},
     {D::Schedule, D::Recompute, D::RecomputeModules},
     [](const RuleCase& c, double) { return joins(c) && recomputes_exchange(c); }},
    {{"pairs-need-experts",
      "an order that joins forwards and backwards without expert parallelism"},
     {D::Schedule, D::Expert},
     [](const RuleCase& c, double) { return joins(c) && c.plan.expert == 1; }},
    {{"no-gathered-tokens-in-pairs",
      "tokens gathered by every device, under an order that joins forwards and backwards"},
     {D::Schedule, D::Dispatcher},
     [](const RuleCase& c, double) {
       const DispatcherId id = c.plan.dispatcher;
       return joins(c) && id != kAnyDispatcher &&
              dispatcher_of(c.framework, id).path == TokenPath::Gather;
     }},
    {{"delayed-weights-need-pairs",
      "weight gradients that run later, under an order that joins no forwards and backwards"},
     {D::Schedule},
     [](const RuleCase& c, double) { return c.framework.delays_weight_gradients && !joins(c); }},
    {{"experts-need-sequence-parallel",
      "tensor parallelism of a mixture of experts without sequence parallelism"},
     {D::SequenceParallel, D::TensorOut},
     [](const RuleCase& c, double) {
       return is_moe(c) && c.plan.tensor_out > 1 &&
              c.plan.sequence_parallel == SequenceParallel::Off;
     }},
    {{"no-expert-tensor-with-bias", "an expert tensor degree where experts add biases"},
     {D::ExpertTensor},
     [](const RuleCase& c, double) {
       return c.plan.expert_tensor > 1 && has_expert_bias(c.network);
     }},
    {{"kv-heads-divide-tensor", "key/value heads that the tensor degree does not divide"},
     {D::TensorOut},
     [](const RuleCase& c, double) { return !whole_kv_heads(c); }},
    {{"narrow-operands-in-blocks",
      "fp8, mxfp8 and nvfp4 products with features or tokens that are not whole blocks"},
     {D::TensorIn, D::TensorOut, D::ExpertTensor, D::Context, D::SequenceParallel, D::MicroBatch},
     [](const RuleCase& c, double) { return !whole_operand_blocks(c); }},
    {{"fp8-without-accumulation", "fp8 with several micro-batches and one pipeline stage"},
     kBatchDegrees | DegreeSet{D::Pipeline},
     [](const RuleCase& c, double) {
       return c.precision == DataType::Fp8 && c.plan.pipeline == 1 && c.plan.micro_batches > 1;
     },
     Obstacle::ScheduleNeedsMicroBatches},
    {{"one-stage-with-tied-embeddings",
      "several pipeline stages of a network whose embedding is its head"},
     {D::Pipeline},
     [](const RuleCase& c, double) { return c.plan.pipeline > 1 && ties_embeddings(c.network); }},
    {{"one-stage-with-prediction-modules",
      "several pipeline stages of a network with multi-token prediction"},
     {D::Pipeline},
     [](const RuleCase& c, double) {
       return c.plan.pipeline > 1 && has_prediction_modules(c.network);
     }},
    {{"no-context-with-prediction-modules",
      "context parallelism of a network with multi-token prediction"},
     {D::Context},
     [](const RuleCase& c, double) {
       return c.plan.context > 1 && has_prediction_modules(c.network);
     }},
    {{"micro-batches-multiple-of-stages", "micro-batches that the pipeline stages do not divide"},
     kBatchDegrees | DegreeSet{D::Pipeline},
     [](const RuleCase& c, double) { return c.plan.micro_batches % c.plan.pipeline != 0; },
     Obstacle::ScheduleNeedsMicroBatches},
    {{"micro-batches-fill-1f1b",
      "1f1b with fewer micro-batches than stages, by more than the limit", true},
     kBatchDegrees | DegreeSet{D::Pipeline, D::Schedule},
     [](const RuleCase& c, double limit) {
       return c.plan.pipeline > 1 && c.plan.schedule == kDefaultSchedule &&
              c.plan.micro_batches + limit < c.plan.pipeline;
     },
     Obstacle::ScheduleNeedsMicroBatches},
    {{"no-selective-recompute", "selective recompute"},
     {D::Recompute},
     [](const RuleCase& c, double) { return c.plan.recompute == Recompute::Selective; }},
    {{"no-recompute", "recompute of any kind"},
     {D::Recompute},
     [](const RuleCase& c, double) { return c.plan.recompute != Recompute::None; }},
    {{"recompute-always", "layers that keep all they compute"},
     {D::Recompute},
     [](const RuleCase& c, double) { return c.plan.recompute == Recompute::None; }},
    {{"no-shard-group", "hybrid sharding (a shard group smaller than the data ranks)"},
     {D::ShardGroup, D::Data},
     [](const RuleCase& c, double) { return is_hybrid(c.plan); }},
    {{"shard-group-needs-zero", "hybrid sharding with a ZeRO stage below the limit", true},
     {D::ShardGroup, D::Data, D::Zero},
     [](const RuleCase& c, double limit) { return is_hybrid(c.plan) && zero_below(c, limit); }},
    {{"optimizer-offload-min-zero",
      "optimizer states on the host with a ZeRO stage below the limit where there are several data "
      "ranks",
      true},
     {D::Data, D::Context, D::Zero, D::Offload},
     [](const RuleCase& c, double limit) {
       return host_tensors(c.plan.on_host).optimizer && c.plan.data * c.plan.context > 1 &&
              zero_below(c, limit);
     }},
    {{"optimizer-offload-max-zero",
      "optimizer states on the host with a ZeRO stage above the limit", true},
     {D::Zero, D::Offload},
     [](const RuleCase& c, double limit) {
       return host_tensors(c.plan.on_host).optimizer && above<&PlanDegrees::zero>(c, limit);
     }},
    {{"parameter-offload-takes-optimizer", "parameters or optimizer states on the host alone"},
     {D::Offload},
     [](const RuleCase& c, double) {
       return host_tensors(c.plan.on_host).parameters != host_tensors(c.plan.on_host).optimizer;
     }},
    {{"activation-offload-needs-full-recompute",
      "activations on the host without recompute of whole layers"},
     {D::Recompute, D::Offload},
     [](const RuleCase& c, double) {
       return host_tensors(c.plan.on_host).activations && c.plan.recompute != Recompute::Full;
     }},
    {{"no-zero-2", "sharding of gradients without parameters (ZeRO stage 2)"},
     {D::Zero},
     [](const RuleCase& c, double) { return c.plan.zero == ZeroStage::Gradients; }},
    {{"no-fp16", "training in fp16"},
     {},
     [](const RuleCase& c, double) { return c.precision == DataType::Fp16; }},
    {{"recurrence-whole-groups", "groups of a recurrence that the tensor degree does not divide"},
     {D::TensorOut},
     [](const RuleCase& c, double) { return c.plan.tensor_out > 1 && !whole_groups(c); }},
    {{"recurrence-heads-over-context",
      "context parallelism that does not divide the heads of a recurrence on a tensor rank"},
     {D::Context, D::TensorOut},
     [](const RuleCase& c, double) { return c.plan.context > 1 && !heads_over_context(c); }},
    {{"no-context-with-recurrence", "context parallelism of a network with recurrences"},
     {D::Context},
     [](const RuleCase& c, double) { return c.plan.context > 1 && has_recurrence(c.network); }},
    {{"selected-needs-gathered-context",
      "context parallelism of attention to chosen keys that does not gather them"},
     {D::Context, D::ContextKind},
     [](const RuleCase& c, double) {
       return c.plan.context > 1 && !gathers_keys(c.plan) && selects_keys(c.network);
     }},
    {{"streams-without-pipeline", "several pipeline stages of a residual with several streams"},
     {D::Pipeline},
     [](const RuleCase& c, double) { return c.plan.pipeline > 1 && has_streams(c.network); }},
    {{"no-mixture-of-experts", "mixture-of-experts networks"},
     {},
     [](const RuleCase& c, double) { return is_moe(c); }},
};

const Rule* find_rule(std::string_view name) {
  const auto* known = std::find_if(std::begin(kRules), std::end(kRules),
                                   [&](const Rule& r) { return r.description.name == name; });
  return known == std::end(kRules) ? nullptr : known;
}

}  // namespace

std::optional<Infeasible> check_rule(const FrameworkRule& rule, const RuleCase& c,
                                     Wording wording) {
  const Rule* known = find_rule(rule.name);
  if (known == nullptr || !known->broken(c, rule.limit)) return std::nullopt;
  return refuse(wording, known->obstacle, 0, rule.limit,
                [&] { return fmt::format("{}: {}", c.framework.name, rule.message); });
}

std::optional<KnownRule> known_rule(const FrameworkRule& rule) {
  const Rule* known = find_rule(rule.name);
  if (known == nullptr) return std::nullopt;
  return KnownRule{known->reads, known->broken, rule.limit, known->obstacle};
}

}  // namespace legality

std::vector<const FrameworkFeature*> features_of(const PlanDegrees& plan, const Network& network,
                                                 const Framework& framework, DataType precision) {
  std::vector<const FrameworkFeature*> found;
  const legality::RuleCase c{plan, network, framework, precision};
  for (const FrameworkFeature& feature : framework.features) {
    if (check_rule(feature.without, c, legality::Wording::Silent)) found.push_back(&feature);
  }
  return found;
}

const std::vector<RuleDescription>& framework_rules() {
  static const std::vector<RuleDescription> kDescriptions = [] {
    return transformed(legality::kRules, &legality::Rule::description);
  }();
  return kDescriptions;
}

}  // namespace plansearch
