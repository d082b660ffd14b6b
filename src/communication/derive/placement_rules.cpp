// SPDX-License-Identifier: Apache-2.0
// Computes: which role goes to which axes, in which surroundings.
// Source: Megatron-LM (SC 2021), AxoNN (SC 2024), DeepSpeed-Ulysses and expert parallelism, as one
//         table.
// Assumes: roles say all that a rule needs; no operator is asked for by name.
// Units: mesh axes.
// Checked by: tests/unit/communication/derivation_test.cpp,
//             tests/unit/communication/closed_forms_test.cpp
#include <cmath>
#include <numeric>

#include "communication/derive/placement.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Key/value heads over axes that may have more ranks than there are heads: the heads repeat.
SliceMap shard_repeating(const DeviceMesh& mesh, std::initializer_list<Axis> axes,
                         std::int64_t heads) {
  SliceMap map;
  for (const Axis axis : axes) {
    SliceDigit digit;
    digit.modulus = static_cast<std::int32_t>(std::gcd<std::int64_t>(heads, mesh[axis].size));
    digit.terms.push_back({axis, 1});
    map.push_back(digit);
    heads /= digit.modulus;
  }
  return map;
}

/// The slice a device attends to moves one rank along Context with every step.
SliceMap ring(const DeviceMesh& mesh) {
  SliceMap map;
  SliceDigit digit;
  digit.modulus = mesh[Axis::Context].size;
  digit.terms.push_back({Axis::Context, 1});
  digit.time = 1;
  map.push_back(digit);
  return map;
}

/// The factors of Out in place of Out, outermost first; slices that repeat along it repeat along
/// the innermost ones.
SliceMap over_factors(const DeviceMesh& mesh, const SliceMap& map, std::size_t factors) {
  SliceMap result;
  for (const SliceDigit& digit : map.digits()) {
    if (digit.terms.size() != 1 || digit.terms[0].axis != Axis::Out) {
      result.push_back(digit);
      continue;
    }
    std::int32_t left = digit.modulus;
    for (std::size_t i = factors; i-- > 0;) {
      SliceDigit part = digit;
      part.modulus = std::gcd(left, mesh[factor_axis(i)].size);
      part.terms[0].axis = factor_axis(i);
      left /= part.modulus;
      result.push_back(part);
    }
  }
  return result;
}

class RuleBuilder {
 public:
  RuleBuilder(const PlanDegrees& plan, const DeviceMesh& mesh) : plan_(plan), mesh_(mesh) {
    const bool repeated_over_out = plan.sequence_parallel == SequenceParallel::Off &&
                                   plan.tensor_out > 1 && plan.expert_tensor == plan.tensor_out;
    distinct_tokens_ = !repeated_over_out;
  }

  [[nodiscard]] SliceMap plain(const Dimension& dimension) const {
    switch (dimension.role) {
      case DimRole::Batch:
        return plan_.shard_group > 0 && mesh_[Axis::Replica].size > 1
                   ? SliceMap::shard(mesh_, {Axis::Replica, Axis::Shard, Axis::Depth})
                   : SliceMap::shard(mesh_, {Axis::Data, Axis::Depth});
      case DimRole::Sequence:
        return SliceMap::shard(mesh_, {Axis::Context});
      case DimRole::Hidden:
      case DimRole::Channel:
        return SliceMap::shard(mesh_, {Axis::In});
      case DimRole::Head:
      case DimRole::Ffn:
      case DimRole::Vocab:
        return SliceMap::shard(mesh_, {Axis::Out});
      case DimRole::KvHead:
        return shard_repeating(mesh_, {Axis::Out}, dimension.extent);
      case DimRole::Expert:
        return SliceMap::shard(mesh_, {Axis::Expert});
      case DimRole::ExpertFfn:
        return SliceMap::shard(mesh_, {Axis::ExpertTensor});
      case DimRole::Routed:
        return SliceMap::shard(mesh_, {Axis::ExpertData});
      case DimRole::KeySequence:
      case DimRole::HeadSize:
      case DimRole::ExpertChoice:
      case DimRole::Latent:
      case DimRole::Position:
      case DimRole::Pixel:
      case DimRole::Kernel:
      case DimRole::Other:
        return {};
    }
    throw InternalError("unknown dimension role");
  }

  [[nodiscard]] SliceMap spread(const Dimension& dimension) const {
    return dimension.role == DimRole::Sequence ? SliceMap::shard(mesh_, {Axis::Context, Axis::Out})
                                               : plain(dimension);
  }

  [[nodiscard]] SliceMap attention(const Dimension& dimension) const {
    if (plan_.context_kind == ContextKind::Ring) {
      return dimension.role == DimRole::KeySequence ? ring(mesh_) : plain(dimension);
    }
    if (plan_.context_kind == ContextKind::AllGather) return plain(dimension);
    return whole_sequence(dimension);
  }

  [[nodiscard]] SliceMap whole_sequence(const Dimension& dimension) const {
    if (dimension.role == DimRole::Sequence) return {};
    if (dimension.role == DimRole::Head) return SliceMap::shard(mesh_, {Axis::Out, Axis::Context});
    if (dimension.role == DimRole::KvHead) {
      return shard_repeating(mesh_, {Axis::Out, Axis::Context}, dimension.extent);
    }
    return plain(dimension);
  }

  [[nodiscard]] SliceMap exchange(const Dimension& dimension) const {
    if (dimension.role == DimRole::Expert) return {};
    if (dimension.role == DimRole::Routed) {
      return distinct_tokens_
                 ? SliceMap::shard(mesh_, {Axis::ExpertData, Axis::ExpertTensor, Axis::Expert})
                 : SliceMap::shard(mesh_, {Axis::ExpertData, Axis::Expert});
    }
    return distinct_tokens_ ? spread(dimension) : plain(dimension);
  }

 private:
  const PlanDegrees& plan_;
  const DeviceMesh& mesh_;
  bool distinct_tokens_ = true;
};

}  // namespace

double placed_extent(const Dimension& dimension, const PlanDegrees& plan,
                     const Framework& framework) {
  const auto extent = static_cast<double>(dimension.extent);
  switch (dimension.role) {
    case DimRole::Batch:
    case DimRole::Routed:
      return extent * plan.micro_batch * plan.data * plan.tensor_depth;
    case DimRole::Vocab: {
      if (framework.vocab_multiple == 0) return extent;
      const double multiple = 1.0 * framework.vocab_multiple * plan.tensor_out;
      return std::ceil(extent / multiple) * multiple;
    }
    default:
      return extent;
  }
}

PlacementRules placement_rules(const Network& network, const PlanDegrees& plan,
                               const DeviceMesh& mesh, const Framework& framework,
                               const Placements* placements) {
  const RuleBuilder builder(plan, mesh);
  PlacementRules rules;
  rules.mesh = mesh;
  rules.sequence_parallel = plan.sequence_parallel;
  if (plan.context_kind == ContextKind::Ring) rules.ring_steps = plan.context;
  const auto table = [&](PlacementVariant variant) -> std::vector<SliceMap>& {
    return rules.slices[static_cast<std::size_t>(variant)];
  };
  rules.extents.reserve(network.dimensions.size());
  for (auto& slices : rules.slices) slices.reserve(network.dimensions.size());
  for (const Dimension& dimension : network.dimensions) {
    rules.extents.push_back(placed_extent(dimension, plan, framework));
    table(PlacementVariant::Plain).push_back(builder.plain(dimension));
    table(PlacementVariant::SequenceSpread).push_back(builder.spread(dimension));
    table(PlacementVariant::Attention).push_back(builder.attention(dimension));
    table(PlacementVariant::TokenExchange).push_back(builder.exchange(dimension));
    table(PlacementVariant::WholeSequence).push_back(builder.whole_sequence(dimension));
  }
  rules.placements = placements;
  if (placements == nullptr) return rules;
  for (auto& slices : rules.slices) {
    for (SliceMap& map : slices) map = over_factors(mesh, map, placements->factors.size());
  }
  return rules;
}

}  // namespace plansearch
