// SPDX-License-Identifier: Apache-2.0
#include "question/asked_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plansearch/error.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {

std::optional<std::string> change_of_length(const ModelDescription& model,
                                            std::optional<std::int64_t> seq_len) {
  const std::int64_t own = model.training.seq_len;
  if (!model.graph || seq_len.value_or(own) == own) return std::nullopt;
  return fmt::format("model.seq_len={}", *seq_len);
}

std::int64_t tokens_of(const Network& network) {
  std::int64_t tokens = 1;
  for (const Dimension& dimension : network.dimensions) {
    if (dimension.role == DimRole::Sequence) tokens = std::max(tokens, dimension.extent);
  }
  return tokens;
}

void refuse_built(const ModelDescription& model, const ProblemRequest& request,
                  const Cluster& cluster) {
  if (request.attention) {
    throw InputError(
        {}, fmt::format("--attention: the graph file of {} lists its operators", model.name),
        "change them there");
  }
  if (cluster.accelerator.kernels.attention_forward) return;
  for (const Block& block : model.graph->blocks) {
    for (const Operator& op : block.operators) {
      if (traits(op).cost != CostClass::FusedAttention) continue;
      throw InputError({},
                       fmt::format("{} of {} is fused attention: no rates of such a kernel for {}",
                                   op.name, block.name, cluster.accelerator.name),
                       "write scores, softmax and context as operators of their own");
    }
  }
}

}  // namespace plansearch
