// SPDX-License-Identifier: Apache-2.0
// Computes: a residual of several streams (hyper-connections): what a sublayer reads of them, and
//           how its result comes back to them.
// Source: DeepSeek-V4 (transformers, models/deepseek_v4: DeepseekV4HyperConnection,
//         DeepseekV4HyperHead): one product of all streams makes the weights of their sum, of the
//         result and of the streams among each other.
// Assumes: the iterations that balance the weights cost nothing beside the streams.
// Units: elements.
// Checked by: tests/unit/workload/recurrence_test.cpp
#include "workload/block_builder.hpp"

namespace plansearch {
namespace {

DimId streams_of(BlockBuilder& block, const Stack& stack) {
  return block.dim("streams", DimRole::Other, stack.model.streams);
}

/// Weights from all streams, and the one stream that the first of them sum up.
CollapsedStreams collapse(BlockBuilder& block, const Stack& stack, const std::string& name,
                          TensorId in, DimId made, DimId scales) {
  const DimId streams = streams_of(block, stack);
  const TensorId normed = block.norm(name + "_norm", in, {}, {streams, stack.hidden}, false, false);
  const TensorId weights = block.linear({.name = name + "_weights",
                                         .input = normed,
                                         .contracted = {streams, stack.hidden},
                                         .outputs = {made},
                                         .bias = Bias::Yes});
  Operator op;
  op.name = name;
  op.loop = {stack.batch, stack.tokens, streams, scales, stack.hidden};
  op.inputs = {in, weights};
  op.parameters = {block.parameter(name + ".scale", {scales}, ParameterClass::Vector)};
  op.outputs = {block.tensor(name, stack.stream())};
  op.saved = {in, weights};
  return {block.add(std::move(op)).outputs.front(), weights};
}

}  // namespace

Dims residual_dims(BlockBuilder& block, const Stack& stack) {
  if (stack.model.streams == 1) return stack.stream();
  return {stack.batch, stack.tokens, streams_of(block, stack), stack.hidden};
}

TensorId add_streams(BlockBuilder& block, const Stack& stack, TensorId in) {
  if (stack.model.streams == 1) return in;
  return block.elementwise("streams", {in}, residual_dims(block, stack));
}

CollapsedStreams collapse_streams(BlockBuilder& block, const Stack& stack, const std::string& name,
                                  TensorId in) {
  const std::int64_t n = stack.model.streams;
  return collapse(block, stack, name, in, block.dim("stream_weights", DimRole::Other, (2 + n) * n),
                  block.dim("stream_scales", DimRole::Other, 3));
}

TensorId spread_streams(BlockBuilder& block, const std::string& name, TensorId branch,
                        TensorId residual, TensorId weights) {
  const TensorId out =
      block.elementwise(name, {branch, residual, weights}, Dims(block.dims(residual)));
  block.last().saved = {branch, residual, weights};
  return out;
}

TensorId last_stream(BlockBuilder& block, const Stack& stack, TensorId in) {
  if (stack.model.streams == 1) return in;
  return collapse(block, stack, "last_streams", in,
                  block.dim("last_stream_weights", DimRole::Other, stack.model.streams),
                  block.dim("last_stream_scales", DimRole::Other, 1))
      .stream;
}

}  // namespace plansearch
