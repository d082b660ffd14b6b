// SPDX-License-Identifier: Apache-2.0
// The block behind the layers: final norm, logits, loss; and the modules that predict further
// tokens (DeepSeek-V3, arXiv:2412.19437, section 2.2).
#include <cmath>

#include "workload/network_parts.hpp"

namespace plansearch {
namespace {

/// Dense layer on the first token (BERT).
TensorId add_pooler(BlockBuilder& block, const Stack& stack, TensorId in) {
  const TensorId first = block.elementwise("first_token", {in}, {stack.batch, stack.hidden});
  const DimId pooled = block.dim("pooled", DimRole::Other, block.extent(stack.hidden));
  return block.linear({.name = "pooler",
                       .input = first,
                       .contracted = {stack.hidden},
                       .outputs = {pooled},
                       .bias = Bias::Yes});
}

/// The positions whose tokens are predicted, where those are some of all: masked ones, at least
/// one.
TensorId add_predicted_positions(BlockBuilder& block, const Stack& stack, TensorId in) {
  const double share = stack.model.embedding.predicted;
  if (share >= 1.0) return in;
  const auto all = static_cast<double>(block.extent(stack.tokens));
  const DimId some =
      block.dim("predicted", DimRole::Sequence, static_cast<std::int64_t>(std::ceil(share * all)));
  return block.elementwise("predicted_positions", {in}, {stack.batch, some, stack.hidden});
}

/// Dense layer, activation and norm in front of the logits (RoBERTa).
TensorId add_transform(BlockBuilder& block, const Stack& stack, TensorId in) {
  const DimId inner = block.dim("head_transform", DimRole::Other, block.extent(stack.hidden));
  const bool biased = stack.model.embedding.head_transform == HeadTransform::Biased;
  const TensorId dense = block.linear({.name = "head_transform",
                                       .input = in,
                                       .contracted = {stack.hidden},
                                       .outputs = {inner},
                                       .bias = biased ? Bias::Yes : Bias::No});
  const TensorId active = block.elementwise("head_activation", {dense}, Dims(block.dims(in)));
  block.save_input(dense);
  return add_norm(block, stack, "head_norm", active);
}

TensorId add_language_head(BlockBuilder& block, const Stack& stack, TensorId stream,
                           const NetworkOptions& options, const std::string& shared_key) {
  const EmbeddingDescription& e = stack.model.embedding;
  const DimId vocab = vocabulary(block, stack.model, options);
  DimId width = stack.hidden;
  if (e.width.has_value() && *e.width != stack.model.hidden) {
    width = block.dim("embedding_width", DimRole::Latent, *e.width);
    stream = block.linear(
        {.name = "project_out", .input = stream, .contracted = {stack.hidden}, .outputs = {width}});
  }
  if (e.head_transform != HeadTransform::None) stream = add_transform(block, stack, stream);
  return block.linear({.name = "logits",
                       .input = stream,
                       .contracted = {width},
                       .outputs = {vocab},
                       .bias = e.head_bias ? Bias::Yes : Bias::No,
                       .shared_key = shared_key,
                       .parameter = ParameterClass::Embedding});
}

void add_loss(BlockBuilder& block, TensorId logits) {
  Operator op;
  op.name = "loss";
  op.kind = OperatorKind::CrossEntropy;
  op.passes = MemoryBound::Loss;
  op.loop = block.dims(logits);
  op.inputs = {logits};
  Dims rows = op.loop;
  rows.pop_back();
  const TensorId probabilities = block.tensor("probabilities", op.loop, ElementClass::Logit);
  op.outputs = {block.tensor("loss", rows, ElementClass::Statistic), probabilities};
  op.saved = {logits, probabilities};
  // fp32 copy, maximum, difference, exponential, sum, logarithm, gather and mean, and back.
  op.forward_kernels = 8;
  op.backward_kernels = 8;
  block.add(op);
}

}  // namespace

void add_logits_and_loss(BlockBuilder& block, const Stack& stack, TensorId in, DimId classes) {
  const TensorId logits = block.linear({.name = "logits",
                                        .input = in,
                                        .contracted = {stack.hidden},
                                        .outputs = {classes},
                                        .bias = Bias::Yes,
                                        .parameter = ParameterClass::Embedding});
  add_loss(block, logits);
}

std::size_t head_block(Network& network, const Stack& stack, const NetworkOptions& options) {
  BlockBuilder block(network, "head", BlockKind::Head);
  TensorId stream = block.input("stream", stack.stream());
  if (stack.model.norm.final_norm) stream = add_norm(block, stack, "final_norm", stream);
  if (stack.model.dropout > 0.0 && stack.model.stack == StackKind::EncoderDecoder) {
    stream = add_dropout(block, stack, "final_dropout", stream);
  }
  if (stack.model.embedding.pooler) static_cast<void>(add_pooler(block, stack, stream));
  stream = add_predicted_positions(block, stack, stream);
  const EmbeddingDescription& e = stack.model.embedding;
  std::string key = e.tied ? kWordEmbeddingKey : "";
  if (key.empty() && stack.model.mtp_layers > 0) key = "output_embeddings";
  add_loss(block, add_language_head(block, stack, stream, options, key));
  return block.finish({});
}

std::size_t prediction_block(Network& network, const Stack& stack, const NetworkOptions& options,
                             const LayerVariant& variant, std::int64_t number) {
  BlockBuilder block(network, "prediction" + std::to_string(number), BlockKind::Other);
  const TensorId stream = block.input("stream", stack.stream());
  const TensorId ids =
      block.input("next_token_ids", {stack.batch, stack.tokens}, ElementClass::Index);
  TensorId next = add_embedding(block, stack, ids, options);
  const TensorId a = add_norm(block, stack, "token_norm", next);
  const TensorId b = add_norm(block, stack, "stream_norm", stream);
  const DimId both = block.dim("stream_and_token", DimRole::Other, 2 * block.extent(stack.hidden));
  const TensorId joined = block.elementwise("join", {a, b}, {stack.batch, stack.tokens, both});
  next = block.linear({.name = "join_projection",
                       .input = joined,
                       .contracted = {both},
                       .outputs = {stack.hidden}});
  next = add_layer(block, stack, variant, next, std::nullopt);
  next = add_norm(block, stack, "prediction_norm", next);
  const std::string key = stack.model.embedding.tied ? kWordEmbeddingKey : "output_embeddings";
  add_loss(block, add_language_head(block, stack, next, options, key));
  return block.finish({stream});
}

}  // namespace plansearch
