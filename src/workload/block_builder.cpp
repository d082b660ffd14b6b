// SPDX-License-Identifier: Apache-2.0
#include "workload/block_builder.hpp"

#include <algorithm>
#include <utility>

#include "base/ranges.hpp"
#include "plansearch/error.hpp"

namespace plansearch {

Dims concat(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Dims without(const Dims& dims, const Dims& removed) {
  Dims kept;
  for (const DimId id : dims) {
    if (!contains(removed, id)) kept.push_back(id);
  }
  return kept;
}

DimId dimension(Network& network, const std::string& name, DimRole role, std::int64_t extent) {
  PLANSEARCH_CHECK(extent > 0);
  for (std::size_t i = 0; i < network.dimensions.size(); ++i) {
    if (network.dimensions[i].name != name) continue;
    PLANSEARCH_CHECK(network.dimensions[i].role == role);
    PLANSEARCH_CHECK(network.dimensions[i].extent == extent);
    return static_cast<DimId>(i);
  }
  network.dimensions.push_back({name, role, extent});
  return static_cast<DimId>(network.dimensions.size() - 1);
}

BlockBuilder::BlockBuilder(Network& network, std::string name, BlockKind kind) : network_(network) {
  block_.name = std::move(name);
  block_.kind = kind;
}

TensorId BlockBuilder::tensor(std::string name, Dims dims, ElementClass element) {
  block_.tensors.push_back({std::move(name), std::move(dims), element});
  return static_cast<TensorId>(block_.tensors.size() - 1);
}

TensorId BlockBuilder::input(std::string name, Dims dims, ElementClass element) {
  const TensorId id = tensor(std::move(name), std::move(dims), element);
  block_.inputs.push_back(id);
  return id;
}

ParameterId BlockBuilder::parameter(std::string name, Dims dims, ParameterClass kind,
                                    std::string shared_key) {
  block_.parameters.push_back(
      {std::move(name), std::move(dims), kind, Trainable::Yes, std::move(shared_key)});
  return static_cast<ParameterId>(block_.parameters.size() - 1);
}

Operator& BlockBuilder::add(Operator op) {
  op.modules |= modules_;
  block_.operators.push_back(std::move(op));
  return block_.operators.back();
}

void BlockBuilder::detach(std::size_t first) {
  for (std::size_t i = first; i < block_.operators.size(); ++i) {
    Operator& op = block_.operators[i];
    op.saved.clear();
    for (const ParameterId id : op.parameters) freeze(id);
    for (const TensorId id : op.outputs)
      block_.tensors[static_cast<std::size_t>(id)].gradient = false;
  }
}

void BlockBuilder::save_at_producer(const Saved& saved) {
  for (Operator& op : block_.operators) {
    if (!contains(op.outputs, saved.tensor)) continue;
    op.saved.push_back(saved);
    return;
  }
}

void BlockBuilder::keep_copies(TensorId in, TensorId out) {
  const Saved copy(in, SavedAs::Single);
  const bool kept = std::ranges::any_of(
      block_.operators, [&](const Operator& op) { return contains(op.saved, copy); });
  std::vector<Saved>& saved = block_.operators.back().saved;
  std::erase(saved, Saved(in));
  if (!kept) saved.push_back(copy);
  saved.emplace_back(out, SavedAs::Like);
}

TensorId BlockBuilder::linear(const Linear& spec) {
  const Dims rows = without(dims(spec.input), spec.contracted);
  Operator op;
  op.name = spec.name;
  op.kind = spec.kind;
  op.loop = concat(concat(rows, spec.contracted), spec.outputs);
  op.inputs = {spec.input};
  op.parameters = {parameter(spec.name + ".weight",
                             concat(spec.per_item, concat(spec.contracted, spec.outputs)),
                             spec.parameter, spec.shared_key)};
  if (spec.bias == Bias::Yes) {
    op.parameters.push_back(parameter(spec.name + ".bias", concat(spec.per_item, spec.outputs),
                                      ParameterClass::Vector));
  }
  op.outputs = {tensor(spec.name, concat(rows, spec.outputs), spec.element)};
  op.saved = {spec.input};
  op.flops_per_point = 2.0;
  op.useful_fraction = spec.useful_fraction;
  op.fused_key = spec.fused_key;
  op.products = spec.products;
  op.backward_kernels = 2;
  const bool joins =
      !spec.fused_key.empty() && std::ranges::any_of(block_.operators, [&](const Operator& o) {
        return o.fused_key == spec.fused_key;
      });
  if (joins) {
    op.forward_kernels = 0;
    op.backward_kernels = 0;
  }
  return add(std::move(op)).outputs.front();
}

TensorId BlockBuilder::norm(const std::string& name, TensorId in, const Dims& weights,
                            const Dims& normalised, bool layer_norm, bool bias) {
  Operator op;
  op.name = name;
  op.kind = OperatorKind::Norm;
  op.passes = layer_norm ? MemoryBound::LayerNorm : MemoryBound::RmsNorm;
  op.loop = dims(in);
  op.inputs = {in};
  if (!weights.empty()) {
    op.parameters = {parameter(name + ".weight", weights, ParameterClass::Vector)};
  }
  if (bias) op.parameters.push_back(parameter(name + ".bias", weights, ParameterClass::Vector));
  Dims rows = without(dims(in), normalised);
  if (layer_norm) rows.push_back(dim("mean_and_deviation", DimRole::Other, 2));
  const TensorId out = tensor(name, dims(in));
  const TensorId statistics = tensor(name + ".statistics", rows, ElementClass::Statistic);
  op.outputs = {out, statistics};
  op.saved = {in, statistics};
  op.extra_backward_passes = 1.0;  // the saved input
  op.backward_kernels = 2;
  add(std::move(op));
  return out;
}

TensorId BlockBuilder::elementwise(const std::string& name, std::vector<TensorId> inputs,
                                   Dims loop) {
  Operator op;
  op.name = name;
  op.kind = OperatorKind::Elementwise;
  op.loop = loop;
  op.inputs = std::move(inputs);
  op.outputs = {tensor(name, std::move(loop))};
  return add(std::move(op)).outputs.front();
}

std::size_t BlockBuilder::finish(std::vector<TensorId> outputs) {
  block_.outputs = std::move(outputs);
  network_.blocks.push_back(std::move(block_));
  return network_.blocks.size() - 1;
}

}  // namespace plansearch
