// SPDX-License-Identifier: Apache-2.0
#include "question/asked_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plansearch/error.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {

ShippedModel asked_model(const ProblemRequest& request, const ShippedData& data) {
  ShippedModel model = data.model(request.model);
  const std::int64_t own = model.description.training.seq_len;
  const std::int64_t tokens = request.seq_len.value_or(own);
  if (!model.description.graph || tokens == own) return model;
  return data.changed(fmt::format("model.seq_len={}", tokens)).model(request.model);
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
