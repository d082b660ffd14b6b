// SPDX-License-Identifier: Apache-2.0
#include "plan/legality/legality_parts.hpp"

#include <algorithm>

#include "plan/stages/layer_distribution.hpp"
#include "workload/network_edges.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::legality {
namespace {

template <typename Predicate>
bool any_operator(const Network& network, Predicate holds) {
  return std::ranges::any_of(network.blocks, [&](const Block& block) {
    return std::ranges::any_of(block.operators,
                               [&](const Operator& op) { return holds(block, op); });
  });
}

bool carries(const Network& network, const std::vector<DimId>& dims, DimRole role) {
  return std::ranges::any_of(dims, [&](DimId id) { return network.dimension(id).role == role; });
}

/// Weights are cut by the tensor degrees alone.
std::int64_t ranks_of(DimRole role, const PlanDegrees& plan) {
  switch (role) {
    case DimRole::Head:
    case DimRole::KvHead:
    case DimRole::Ffn:
      return plan.tensor_out;
    case DimRole::ExpertFfn:
      return plan.expert_tensor;
    case DimRole::Hidden:
    case DimRole::Channel:
      return plan.tensor_in;
    default:
      return 1;
  }
}

bool whole_features(const Network& network, const Block& block, const Operator& op,
                    const PlanDegrees& plan, std::int64_t multiple) {
  if (op.outputs.empty() || op.parameters.empty()) return true;
  const std::vector<DimId>& out = block.tensor(op.outputs.front()).dims;
  std::int64_t inner = 1;
  std::int64_t outer = 1;
  for (const DimId id : block.parameter(op.parameters.front()).dims) {
    const Dimension& dimension = network.dimension(id);
    if (dimension.role == DimRole::Expert) continue;  // a product of its own
    const std::int64_t local =
        std::max<std::int64_t>(1, dimension.extent / ranks_of(dimension.role, plan));
    const bool kept = std::ranges::find(out, id) != out.end();
    (kept ? outer : inner) *= local;
  }
  const bool gate = outer == 1;  // of shared experts: no narrow product
  return gate || (inner % multiple == 0 && outer % multiple == 0);
}

/// Dimensions that tensor ranks cut.
bool is_cut_by_tensor(DimRole role) {
  return role == DimRole::Head || role == DimRole::KvHead || role == DimRole::Ffn ||
         role == DimRole::Vocab;
}

}  // namespace

std::int64_t smallest_extent(const Network& network, DimRole role) {
  std::int64_t smallest = 0;
  for (const Dimension& dimension : network.dimensions) {
    if (dimension.role != role) continue;
    smallest = smallest == 0 ? dimension.extent : std::min(smallest, dimension.extent);
  }
  return smallest;
}

bool has_role(const Network& network, DimRole role) {
  return smallest_extent(network, role) > 0;
}

bool materialises_scores(const Network& network) {
  return any_operator(network, [&](const Block& block, const Operator& op) {
    return std::ranges::any_of(op.outputs, [&](TensorId id) {
      return carries(network, block.tensor(id).dims, DimRole::KeySequence);
    });
  });
}

bool attends_to_window(const Network& network) {
  return any_operator(network, [](const Block&, const Operator& op) { return op.windowed; });
}

bool has_attention_sinks(const Network& network) {
  return any_operator(network, [&](const Block&, const Operator& op) {
    return carries(network, op.loop, DimRole::KeySequence) && !op.parameters.empty();
  });
}

bool has_attention_bias(const Network& network) {
  constexpr std::size_t kQueryKeyValue = 3;
  return any_operator(network, [&](const Block&, const Operator& op) {
    return traits(op).multiplies_activations() && op.inputs.size() > kQueryKeyValue;
  });
}

bool takes_whole_sequence(const Network& network, DimId dim) {
  return any_operator(network, [&](const Block&, const Operator& op) {
    return op.whole_sequence && std::find(op.loop.begin(), op.loop.end(), dim) != op.loop.end();
  });
}

bool has_recurrence(const Network& network) {
  return any_operator(network, [](const Block&, const Operator& op) {
    return op.whole_sequence || traits(op).cost == CostClass::Recurrence;
  });
}

bool selects_keys(const Network& network) {
  return any_operator(network, [](const Block&, const Operator& op) { return op.selected > 0.0; });
}

bool has_streams(const Network& network) {
  constexpr std::size_t kOneStream = 3;  // batch, tokens, features
  return std::any_of(network.blocks.begin(), network.blocks.end(), [&](const Block& block) {
    return block.kind == BlockKind::Decoder && !block.inputs.empty() &&
           block.tensor(block.inputs.front()).dims.size() > kOneStream;
  });
}

bool has_expert_bias(const Network& network) {
  return any_operator(network, [](const Block& block, const Operator& op) {
    return traits(op).second_operand == SecondOperand::GroupedWeights &&
           std::ranges::any_of(op.parameters, [&](ParameterId id) {
             return block.parameter(id).kind == ParameterClass::Vector;
           });
  });
}

namespace {

/// An embedding is one parameter with one of a block of the other kind.
bool shares_embedding(const Network& network, BlockKind other) {
  const auto holds = [&](BlockKind kind, const std::string& key) {
    return std::ranges::any_of(network.blocks, [&](const Block& block) {
      return block.kind == kind && std::ranges::any_of(block.parameters, [&](const Parameter& p) {
               return p.shared_key == key;
             });
    });
  };
  return std::ranges::any_of(network.blocks, [&](const Block& block) {
    return block.kind == BlockKind::Embedding &&
           std::ranges::any_of(block.parameters, [&](const Parameter& p) {
             return !p.shared_key.empty() && holds(other, p.shared_key);
           });
  });
}

}  // namespace

bool ties_embeddings(const Network& network) {
  return shares_embedding(network, BlockKind::Head);
}

bool has_prediction_modules(const Network& network) {
  return shares_embedding(network, BlockKind::Other);
}

OperandBlock operand_block(DataType matmul) {
  switch (matmul) {
    case DataType::Fp8:
      return {16, 8};
    case DataType::Mxfp8:
      return {32, 32};
    case DataType::Nvfp4:
      return {16, 16};
    default:
      return {};
  }
}

bool fits_blocks(const Network& network, const PlanDegrees& plan, const OperandBlock& block) {
  const std::int64_t spread =
      std::int64_t{plan.context} *
      (plan.sequence_parallel == SequenceParallel::On ? plan.tensor_out : 1);
  for (const Dimension& dimension : network.dimensions) {
    if (dimension.role != DimRole::Sequence || dimension.extent % spread != 0) continue;
    if (dimension.extent / spread * (plan.micro_batch / plan.pieces) % block.tokens != 0)
      return false;
  }
  for (const Block& layer : network.blocks) {
    if (!is_layer(layer.kind)) continue;
    for (const Operator& op : layer.operators) {
      const OperatorTraits& row = traits(op);  // windows slide in the activation format
      if (row.multiplies_weight() && !row.slides && !multiplies_wide(network, layer, op) &&
          !whole_features(network, layer, op, plan, block.features)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace plansearch::legality

namespace plansearch {

double tensor_share(const Network& network) {
  double all = 0.0;
  double cut = 0.0;
  for (const BlockRun& run : network.order) {
    for (const Parameter& parameter : network.blocks[run.block].parameters) {
      const auto has = [&](auto&& holds) {
        return std::ranges::any_of(parameter.dims,
                                   [&](DimId id) { return holds(network.dimension(id).role); });
      };
      if (has([](DimRole role) { return role == DimRole::Expert; })) continue;
      double elements = static_cast<double>(run.count);
      for (const DimId id : parameter.dims) {
        elements *= static_cast<double>(network.dimension(id).extent);
      }
      all += elements;
      if (has(legality::is_cut_by_tensor)) cut += elements;
    }
  }
  return all == 0.0 ? 1.0 : cut / all;
}

}  // namespace plansearch
