// SPDX-License-Identifier: Apache-2.0
#include "io/model/graph/graph_words.hpp"

#include <algorithm>

#include "workload/operator_traits.hpp"

namespace plansearch::io {
namespace {

bool contains(const std::vector<DimId>& dims, DimId dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

void add_missing(std::vector<DimId>& loop, DimId dim) {
  if (!contains(loop, dim)) loop.push_back(dim);
}

/// Dimensions of the loop nest by which an operator reads its operands; those of the first operand
/// only, if it reads the others by rules of its kind.
std::vector<DimId> read_dims(const Block& block, const Operator& op) {
  std::vector<DimId> dims;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (i < op.reads.size() && !op.reads[i].empty()) {
      for (const IndexExpression& index : op.reads[i]) {
        for (const IndexTerm& term : index.terms) add_missing(dims, term.dim);
      }
    } else if (i == 0 || !traits(op).multiplies_activations()) {
      for (const DimId dim : block.tensor(op.inputs[i]).dims) add_missing(dims, dim);
    }
  }
  return dims;
}

}  // namespace

std::vector<DimId> usual_loop(const Block& block, const Operator& op) {
  const std::vector<DimId> none;
  const auto& out = op.outputs.empty() ? none : block.tensor(op.outputs.front()).dims;
  const bool weighs = traits(op).is_product() && !op.parameters.empty();
  const auto& weight = weighs ? block.parameter(op.parameters.front()).dims : none;
  std::vector<DimId> loop;
  for (const DimId dim : out) {
    if (!contains(weight, dim)) add_missing(loop, dim);
  }
  for (const DimId dim : read_dims(block, op)) {
    if (!contains(out, dim)) add_missing(loop, dim);
  }
  for (const DimId dim : weight) {
    if (!contains(out, dim)) add_missing(loop, dim);
  }
  for (const DimId dim : out) add_missing(loop, dim);
  for (const ParameterId id : op.parameters) {
    for (const DimId dim : block.parameter(id).dims) add_missing(loop, dim);
  }
  return loop;
}

std::vector<Saved> usual_saved(const Block& block, const Operator& op) {
  const OperatorTraits& row = traits(op);
  std::vector<Saved> saved;
  const auto add = [&](const std::vector<TensorId>& tensors) {
    for (const TensorId id : tensors) {
      if (std::find(saved.begin(), saved.end(), Saved(id)) == saved.end()) saved.emplace_back(id);
    }
  };
  const bool by_function = row.backward_reads == BackwardReads::ByFunction;
  // The inputs of a sum are not read again.
  const bool sum = op.passes == MemoryBound::Residual || op.passes == MemoryBound::DropoutResidual;
  if (row.reads_inputs() || (by_function && !sum)) add(op.inputs);
  if (row.reads_outputs()) add(op.outputs);
  for (const TensorId id : op.outputs) {
    const ElementClass element = block.tensor(id).element;
    if (element == ElementClass::Mask || element == ElementClass::Statistic) add({id});
  }
  return saved;
}

double usual_flops(OperatorKind kind) {
  return traits(kind).model_flops ? 2.0 : 0.0;
}

int usual_backward_kernels(OperatorKind kind) {
  const OperatorTraits& row = traits(kind);
  return row.is_product() || row.reads_inputs() ? 2 : 1;
}

ParameterClass usual_class(OperatorKind kind) {
  const OperatorTraits& row = traits(kind);
  if (row.multiplies_weight()) return ParameterClass::Matrix;
  return row.cost == CostClass::LookUp ? ParameterClass::Embedding : ParameterClass::Vector;
}

std::string parameter_name(const Operator& op, std::string_view part) {
  return op.name + "." + std::string(part);
}

}  // namespace plansearch::io
