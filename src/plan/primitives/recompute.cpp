// SPDX-License-Identifier: Apache-2.0
#include "plan/primitives/recompute.hpp"

#include <algorithm>

#include "base/ranges.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "plansearch/error.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

bool is_fused_attention(const Operator& op) {
  return traits(op).policy == PolicyOperation::FusedAttention;
}

bool is_core_attention(const Operator& op) {
  return (op.modules & bit_of(LayerModule::CoreAttention)).any();
}

/// Scores of a router: policies by operator do not keep them.
bool makes_scores(const Block& block, const Operator& op) {
  return !op.outputs.empty() && block.tensor(op.outputs.front()).element == ElementClass::Logit;
}

/// Every other product is kept, the first one first; fused attention always; all else runs again,
/// products of experts (another kernel) and of routers among it.
std::vector<double> alternate_matmuls(const Block& block) {
  std::vector<double> shares;
  int count = 0;
  for (const Operator& op : block.operators) {
    if (traits(op).policy == PolicyOperation::Product && !makes_scores(block, op)) {
      int kept = 0;
      for (int i = 0; i < op.products; ++i) kept += ++count % 2;
      shares.push_back(1.0 - static_cast<double>(kept) / op.products);
    } else {
      shares.push_back(is_fused_attention(op) ? 0.0 : 1.0);
    }
  }
  return shares;
}

std::vector<double> all_but_matmuls(const Block& block) {
  const auto is_product = [](const Operator& op) {
    const PolicyOperation policy = traits(op).policy;
    return policy == PolicyOperation::Product || policy == PolicyOperation::GroupedProduct;
  };
  return transformed(block.operators, [&](const Operator& op) {
    return is_product(op) && !makes_scores(block, op) ? 0.0 : 1.0;
  });
}

std::vector<double> all_but_attention(const Block& block) {
  return transformed(block.operators,
                     [&](const Operator& op) { return is_fused_attention(op) ? 0.0 : 1.0; });
}

std::vector<double> attention_core(const Block& block, double fused) {
  std::vector<double> shares;
  for (const Operator& op : block.operators) {
    const double again = is_core_attention(op) ? 1.0 : 0.0;
    shares.push_back(is_fused_attention(op) ? fused : again);
  }
  return shares;
}

std::vector<double> named_modules(const Block& block, LayerModules modules) {
  return transformed(block.operators,
                     [&](const Operator& op) { return (op.modules & modules).any() ? 1.0 : 0.0; });
}

/// Embeddings and head are never run again, nor is what has no backward.
bool repeats(const Block& block) {
  const bool forward_alone =
      !block.outputs.empty() &&
      std::ranges::none_of(block.outputs, [&](TensorId id) { return block.tensor(id).gradient; });
  return !forward_alone && block.kind != BlockKind::Embedding && block.kind != BlockKind::Head;
}

}  // namespace

SelectiveRecompute selective_of(const Framework& framework, const PlanDegrees& plan) {
  if (plan.modules == 0) return framework.selective;
  return {SelectiveRule::Modules, LayerModules(plan.modules)};
}

bool repeats_whole(const Block& block, Recompute recompute) {
  return recompute == Recompute::Full && repeats(block);
}

std::vector<double> repeated_shares(const Block& block, Recompute recompute,
                                    const SelectiveRecompute& selective) {
  if (repeats_whole(block, recompute)) return std::vector<double>(block.operators.size(), 1.0);
  if (recompute != Recompute::Selective || !repeats(block)) {
    return std::vector<double>(block.operators.size(), 0.0);
  }
  switch (selective.rule) {
    case SelectiveRule::UnfusedAttention:
      return attention_core(block, 0.0);
    case SelectiveRule::AttentionCore:
      return attention_core(block, 1.0);
    case SelectiveRule::AlternateMatmuls:
      return alternate_matmuls(block);
    case SelectiveRule::AllButMatmuls:
      return all_but_matmuls(block);
    case SelectiveRule::AllButAttention:
      return all_but_attention(block);
    case SelectiveRule::Modules:
      return named_modules(block, selective.modules);
  }
  throw InternalError("unknown rule of selective recompute");
}

bool keeps_outputs(const SelectiveRecompute& selective) {
  switch (selective.rule) {
    case SelectiveRule::AlternateMatmuls:
    case SelectiveRule::AllButMatmuls:
    case SelectiveRule::AllButAttention:
      return true;
    case SelectiveRule::UnfusedAttention:
    case SelectiveRule::AttentionCore:
    case SelectiveRule::Modules:
      break;
  }
  return false;
}

bool sends_again(Recompute recompute, const SelectiveRecompute& selective) {
  return recompute == Recompute::Full ||
         (recompute == Recompute::Selective && selective.rule != SelectiveRule::AlternateMatmuls);
}

bool is_dropped(const Block& block, const std::vector<double>& repeated, std::size_t index,
                TensorId tensor) {
  if (repeated[index] == 0.0) return false;
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& reader = block.operators[i];
    const bool reads = std::ranges::find(reader.inputs, tensor) != reader.inputs.end();
    if (reads && repeated[i] == 0.0 && trains_weight(block, reader)) return false;
  }
  return true;
}

std::int64_t copies_among_first(const Network& network, const std::vector<BlockRun>& chunk,
                                std::size_t block, int layers) {
  std::int64_t left = layers;
  std::int64_t copies = 0;
  for (const BlockRun& run : chunk) {
    if (!is_layer(network.blocks[run.block].kind)) continue;
    const std::int64_t taken = std::min<std::int64_t>(left, run.count);
    if (run.block == block) copies += taken;
    left -= taken;
  }
  return copies;
}

std::vector<RecomputedRun> recomputed_runs(const Network& network,
                                           const std::vector<BlockRun>& chunk, Recompute level,
                                           int layers) {
  std::vector<RecomputedRun> runs;
  std::int64_t left = layers;
  for (const BlockRun& run : chunk) {
    const bool counts = layers > 0 && is_layer(network.blocks[run.block].kind);
    const std::int64_t taken = layers == 0 ? run.count
                               : counts    ? std::min<std::int64_t>(left, run.count)
                                           : 0;
    if (counts) left -= taken;
    if (taken > 0) runs.push_back({{run.block, taken}, level});
    if (taken < run.count) runs.push_back({{run.block, run.count - taken}, Recompute::None});
  }
  return runs;
}

void repeat_pieces(const std::vector<PieceRegion>& regions, std::vector<double>& shares) {
  for (const PieceRegion& region : regions) {
    if (!region.runs_again()) continue;
    for (const std::size_t op : region.operators) shares[op] += 1.0;
  }
}

double repeated_flops_share(const Network& network, const std::vector<RecomputedRun>& runs,
                            const SelectiveRecompute& selective, const Placements* placements) {
  double all = 0.0;
  double repeated = 0.0;
  for (const auto& [run, level] : runs) {
    const Block& block = network.blocks[run.block];
    std::vector<double> shares = repeated_shares(block, level, selective);
    if (placements != nullptr) repeat_pieces(placements->blocks[run.block].regions, shares);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const double flops = useful_forward_flops(network, block.operators[i]).value() *
                           static_cast<double>(run.count);
      all += flops;
      repeated += flops * shares[i];
    }
  }
  return all > 0.0 ? repeated / all : 0.0;
}

bool selective_drops(const Network& network, const SelectiveRecompute& selective) {
  if (keeps_outputs(selective)) return true;
  if (selective.rule == SelectiveRule::Modules) return selective.modules.any();
  return std::ranges::any_of(network.blocks, [](const Block& block) {
    return std::ranges::any_of(block.operators, [](const Operator& op) {
      return is_core_attention(op) && !op.saved.empty() && !is_fused_attention(op);
    });
  });
}

}  // namespace plansearch
