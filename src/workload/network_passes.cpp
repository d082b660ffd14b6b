// SPDX-License-Identifier: Apache-2.0
// Passes over a finished network: frozen parameters, saved tensors listed once.
#include <algorithm>
#include <set>

#include "workload/network_parts.hpp"

namespace plansearch {
namespace {

/// '*' matches any run of characters; one backtracking point suffices.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool is_frozen(const Block& block, ParameterId id) {
  return block.parameter(id).trainable == Trainable::No;
}

/// A product with a frozen weight has no weight gradient and need not keep its input.
void drop_weight_gradient(const Block& block, Operator& op) {
  const bool product = op.kind == OperatorKind::Matmul || op.kind == OperatorKind::GroupedMatmul;
  if (!product || op.parameters.empty()) return;
  if (!is_frozen(block, op.parameters.front())) return;
  op.backward_flops_factor = 1.0;
  op.backward_kernels = std::min(op.backward_kernels, 1);
  std::erase_if(op.saved, [&](TensorId id) {
    return std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
  });
}

}  // namespace

void apply_frozen(Network& network, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  for (Block& block : network.blocks) {
    for (Parameter& parameter : block.parameters) {
      const std::string name = block.name + "/" + parameter.name;
      const bool hit = std::any_of(patterns.begin(), patterns.end(),
                                   [&](const std::string& p) { return matches(p, name); });
      if (hit) parameter.trainable = Trainable::No;
    }
    for (Operator& op : block.operators) drop_weight_gradient(block, op);
  }
}

void list_saved_once(Network& network) {
  for (Block& block : network.blocks) {
    std::set<TensorId> seen;
    for (Operator& op : block.operators) {
      std::erase_if(op.saved, [&](TensorId id) { return !seen.insert(id).second; });
    }
  }
}

}  // namespace plansearch
