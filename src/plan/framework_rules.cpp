// SPDX-License-Identifier: Apache-2.0
// The closed vocabulary of framework rules: what a framework file may forbid.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "plan/legality_parts.hpp"

namespace plansearch {
namespace legality {
namespace {

/// What a rule looks at.
struct Case {
  const PlanDegrees& plan;
  const Network& network;
};

std::int64_t smallest_extent(const Network& network, DimRole role) {
  std::int64_t smallest = 0;
  for (const Dimension& dimension : network.dimensions) {
    if (dimension.role != role) continue;
    smallest = smallest == 0 ? dimension.extent : std::min(smallest, dimension.extent);
  }
  return smallest;
}

bool twice_context_divides(const Case& c) {
  if (c.plan.context == 1 || c.plan.context_kind != ContextKind::Ring) return true;
  const bool spread = c.plan.sequence_parallel == SequenceParallel::On;
  const std::int64_t ranks = 2LL * c.plan.context * (spread ? c.plan.tensor_out : 1);
  for (const Dimension& dimension : c.network.dimensions) {
    if (dimension.role == DimRole::Sequence && dimension.extent % ranks != 0) return false;
  }
  return true;
}

/// All-to-all context parallelism hands out whole heads, so every rank of the group needs some of
/// the key/value heads of its tensor rank.
bool ulysses_divides_kv_heads(const Case& c) {
  if (c.plan.context == 1 || c.plan.context_kind != ContextKind::Ulysses) return true;
  const std::int64_t ranks = std::int64_t{c.plan.tensor_out} * c.plan.context;
  for (const Dimension& dimension : c.network.dimensions) {
    if (dimension.role == DimRole::KvHead && dimension.extent % ranks != 0) return false;
  }
  return true;
}

using Broken = bool (*)(const Case&, double limit);

struct Rule {
  RuleDescription description;
  DegreeSet reads;  ///< the only degrees `broken` looks at
  Broken broken;
};

bool is_moe(const Case& c) {
  return smallest_extent(c.network, DimRole::Expert) > 0;
}

using D = Degree;

constexpr Rule kRules[] = {
    {{"max-tensor", "tensor degree (in x out x depth) above the limit", true},
     {D::TensorIn, D::TensorOut, D::TensorDepth},
     [](const Case& c, double limit) { return c.plan.tensor() > limit; }},
    {{"max-tensor-in", "tensor-in degree above the limit", true},
     {D::TensorIn},
     [](const Case& c, double limit) { return c.plan.tensor_in > limit; }},
    {{"max-tensor-depth", "tensor-depth degree above the limit", true},
     {D::TensorDepth},
     [](const Case& c, double limit) { return c.plan.tensor_depth > limit; }},
    {{"max-context", "context degree above the limit", true},
     {D::Context},
     [](const Case& c, double limit) { return c.plan.context > limit; }},
    {{"max-expert", "expert degree above the limit", true},
     {D::Expert},
     [](const Case& c, double limit) { return c.plan.expert > limit; }},
    {{"max-expert-tensor", "expert tensor degree above the limit", true},
     {D::ExpertTensor},
     [](const Case& c, double limit) { return c.plan.expert_tensor > limit; }},
    {{"max-pipeline", "pipeline degree above the limit", true},
     {D::Pipeline},
     [](const Case& c, double limit) { return c.plan.pipeline > limit; }},
    {{"max-chunks", "model chunks per stage above the limit", true},
     {D::Chunks},
     [](const Case& c, double limit) { return c.plan.chunks > limit; }},
    {{"max-zero", "ZeRO stage above the limit", true},
     {D::Zero},
     [](const Case& c, double limit) { return static_cast<double>(c.plan.zero) > limit; }},
    {{"min-zero", "ZeRO stage below the limit where there are several data or context ranks", true},
     {D::Data, D::Context, D::Zero},
     [](const Case& c, double limit) {
       return c.plan.data * c.plan.context > 1 && static_cast<double>(c.plan.zero) < limit;
     }},
    {{"max-zero-with-pipeline", "ZeRO stage above the limit with several pipeline stages", true},
     {D::Pipeline, D::Zero},
     [](const Case& c, double limit) {
       return c.plan.pipeline > 1 && static_cast<double>(c.plan.zero) > limit;
     }},
    {{"max-zero-with-experts", "ZeRO stage above the limit for a mixture of experts", true},
     {D::Zero},
     [](const Case& c, double limit) {
       return is_moe(c) && static_cast<double>(c.plan.zero) > limit;
     }},
    {{"min-stages-interleaved", "interleaving with fewer stages than the limit", true},
     {D::Pipeline, D::Chunks},
     [](const Case& c, double limit) { return c.plan.chunks > 1 && c.plan.pipeline < limit; }},
    {{"no-ring-context", "context parallelism as a ring", false},
     {D::Context, D::ContextKind},
     [](const Case& c, double) {
       return c.plan.context > 1 && c.plan.context_kind == ContextKind::Ring;
     }},
    {{"no-ulysses-context", "context parallelism by all-to-all over heads", false},
     {D::Context, D::ContextKind},
     [](const Case& c, double) {
       return c.plan.context > 1 && c.plan.context_kind == ContextKind::Ulysses;
     }},
    {{"ulysses-divides-kv-heads",
      "all-to-all context parallelism that does not divide the key/value heads of a tensor rank",
      false},
     {D::Context, D::ContextKind, D::TensorOut},
     [](const Case& c, double) { return !ulysses_divides_kv_heads(c); }},
    {{"ulysses-needs-ungrouped-heads",
      "all-to-all context parallelism with fewer key/value heads than query heads", false},
     {D::Context, D::ContextKind},
     [](const Case& c, double) {
       const std::int64_t heads = smallest_extent(c.network, DimRole::KvHead);
       return c.plan.context > 1 && c.plan.context_kind == ContextKind::Ulysses && heads > 0 &&
              heads < smallest_extent(c.network, DimRole::Head);
     }},
    {{"no-context-with-pipeline", "context parallelism with several pipeline stages", false},
     {D::Context, D::Pipeline},
     [](const Case& c, double) { return c.plan.context > 1 && c.plan.pipeline > 1; }},
    {{"sequence-twice-context", "sequence length that 2 x cp (x tp) does not divide", false},
     {D::Context, D::ContextKind, D::SequenceParallel, D::TensorOut},
     [](const Case& c, double) { return !twice_context_divides(c); }},
    {{"no-sequence-parallel", "sequence parallelism", false},
     {D::SequenceParallel, D::TensorOut},
     [](const Case& c, double) {
       return c.plan.sequence_parallel == SequenceParallel::On && c.plan.tensor_out > 1;
     }},
    {{"sequence-parallel-always", "tensor parallelism without sequence parallelism", false},
     {D::SequenceParallel, D::TensorOut},
     [](const Case& c, double) {
       return c.plan.sequence_parallel == SequenceParallel::Off && c.plan.tensor_out > 1;
     }},
    {{"experts-need-sequence-parallel",
      "expert and tensor parallelism together without sequence parallelism", false},
     {D::Expert, D::SequenceParallel, D::TensorOut},
     [](const Case& c, double) {
       return is_moe(c) && c.plan.expert > 1 && c.plan.tensor_out > 1 &&
              c.plan.sequence_parallel == SequenceParallel::Off;
     }},
    {{"kv-heads-at-least-tensor", "fewer key/value heads than tensor ranks", false},
     {D::TensorOut},
     [](const Case& c, double) {
       const std::int64_t heads = smallest_extent(c.network, DimRole::KvHead);
       return heads > 0 && heads < c.plan.tensor_out;
     }},
    {{"no-selective-recompute", "selective recompute", false},
     {D::Recompute},
     [](const Case& c, double) { return c.plan.recompute == Recompute::Selective; }},
    {{"no-recompute", "recompute of any kind", false},
     {D::Recompute},
     [](const Case& c, double) { return c.plan.recompute != Recompute::None; }},
    {{"no-shard-group", "hybrid sharding (a shard group smaller than the data ranks)", false},
     {D::ShardGroup, D::Data},
     [](const Case& c, double) {
       return c.plan.shard_group > 0 && c.plan.shard_group < c.plan.data;
     }},
    {{"no-mixture-of-experts", "mixture-of-experts networks", false},
     {},
     [](const Case& c, double) { return is_moe(c); }},
};

const Rule* find_rule(std::string_view name) {
  const auto* known = std::find_if(std::begin(kRules), std::end(kRules),
                                   [&](const Rule& r) { return r.description.name == name; });
  return known == std::end(kRules) ? nullptr : known;
}

}  // namespace

std::optional<Infeasible> check_rule(const FrameworkRule& rule, const PlanDegrees& plan,
                                     const Network& network, const Framework& framework,
                                     Wording wording) {
  const Rule* known = find_rule(rule.name);
  if (known == nullptr || !known->broken({plan, network}, rule.limit)) return std::nullopt;
  return refuse(wording, Obstacle::FrameworkForbids, 0, rule.limit,
                [&] { return fmt::format("{}: {}", framework.name, rule.message); });
}

DegreeSet degrees_of_rule(const FrameworkRule& rule) {
  const Rule* known = find_rule(rule.name);
  return known == nullptr ? DegreeSet{} : known->reads;
}

}  // namespace legality

const std::vector<RuleDescription>& framework_rules() {
  static const std::vector<RuleDescription> kDescriptions = [] {
    std::vector<RuleDescription> result;
    for (const legality::Rule& rule : legality::kRules) result.push_back(rule.description);
    return result;
  }();
  return kDescriptions;
}

}  // namespace plansearch
