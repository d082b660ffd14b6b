// SPDX-License-Identifier: Apache-2.0
// The block in front of the layers: table look-ups, their sum, norm and dropout.

#include <cmath>

#include "workload/block_builder.hpp"

namespace plansearch {
namespace {

/// Adds rows of a table to the stream (or starts it). The table dimension is contracted: a sharded
/// table leaves partial sums. It costs bytes, no FLOPs.
TensorId look_up(BlockBuilder& block, const std::string& name, TensorId in, const Dims& out,
                 Dims table, std::string shared_key) {
  Operator op;
  op.name = name;
  op.kind = OperatorKind::Embedding;
  op.loop = concat(without(out, table), table);
  op.inputs = {in};
  op.parameters = {block.parameter(name + ".weight", std::move(table), ParameterClass::Embedding,
                                   std::move(shared_key))};
  op.outputs = {block.tensor(name, out)};
  return block.add(op).outputs.front();
}

}  // namespace

Stack make_stack(Network& network, const ModelDescription& model, const NetworkOptions& options,
                 const std::string& name, const std::string& sequence, std::int64_t tokens) {
  return Stack{.model = model,
               .attention = options.attention,
               .implementation = options.implementation,
               .name = name,
               .sequence = sequence,
               .batch = dimension(network, "batch", DimRole::Batch, 1),
               .tokens = dimension(network, sequence, DimRole::Sequence, tokens),
               .hidden = dimension(network, "hidden", DimRole::Hidden, model.hidden),
               .mlp_width = model.mlp.width,
               .documents = options.documents};
}

DimId vocabulary(BlockBuilder& block, const ModelDescription& model,
                 const NetworkOptions& options) {
  return block.dim("vocabulary", DimRole::Vocab,
                   options.padded_vocab.value_or(model.embedding.vocab));
}

TensorId add_dropout(BlockBuilder& block, const Stack& stack, const std::string& name,
                     TensorId in) {
  if (stack.model.dropout <= 0.0) return in;
  Operator op;
  op.name = name;
  op.kind = OperatorKind::Elementwise;
  op.passes = MemoryBound::Dropout;
  op.loop = stack.stream();
  op.inputs = {in};
  const TensorId mask = block.tensor(name + ".mask", op.loop, ElementClass::Mask);
  op.outputs = {block.tensor(name, op.loop), mask};
  op.saved = {mask};
  return block.add(op).outputs.front();
}

TensorId add_embedding(BlockBuilder& block, const Stack& stack, TensorId token_ids,
                       const NetworkOptions& options) {
  const ModelDescription& model = stack.model;
  const EmbeddingDescription& e = model.embedding;
  const DimId width = e.width.has_value() && *e.width != model.hidden
                          ? block.dim("embedding_width", DimRole::Latent, *e.width)
                          : stack.hidden;
  const DimId vocab = vocabulary(block, model, options);
  // Both stacks of an encoder-decoder, and the prediction modules, use the one word embedding.
  const bool shared = e.tied || model.stack == StackKind::EncoderDecoder || model.mtp_layers > 0;
  TensorId stream = look_up(block, "word_embedding", token_ids, {stack.batch, stack.tokens, width},
                            {vocab, width}, shared ? kWordEmbeddingKey : "");
  block.save_input(token_ids);
  if (width != stack.hidden) {
    stream = block.linear(
        {.name = "project_in", .input = stream, .contracted = {width}, .outputs = {stack.hidden}});
  }
  if (e.position_rows > 0) {
    const DimId rows = block.dim("positions", DimRole::Position, e.position_rows);
    stream = look_up(block, "position_embedding", stream, stack.stream(), {rows, stack.hidden}, "");
  }
  if (e.token_types > 0) {
    const DimId rows = block.dim("token_types", DimRole::Position, e.token_types);
    stream = look_up(block, "type_embedding", stream, stack.stream(), {rows, stack.hidden}, "");
  }
  if (e.norm) stream = add_norm(block, stack, "embedding_norm", stream);
  return add_dropout(block, stack, "embedding_dropout", stream);
}

std::size_t embedding_block(Network& network, const Stack& stack, const NetworkOptions& options) {
  BlockBuilder block(network, "embedding", BlockKind::Embedding);
  const TensorId ids = block.input("token_ids", {stack.batch, stack.tokens}, ElementClass::Index);
  const TensorId stream = add_embedding(block, stack, ids, options);
  return block.finish({add_streams(block, stack, stream)});
}

// The block behind the layers: final norm, logits, loss; and the modules that predict further
// tokens (DeepSeek-V3, arXiv:2412.19437, section 2.2).

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
  TensorId stream = block.input("stream", residual_dims(block, stack));
  stream = last_stream(block, stack, stream);
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
                             const std::vector<LayerVariant>& layers, std::int64_t number) {
  BlockBuilder block(network, "prediction" + std::to_string(number), BlockKind::Other);
  const TensorId residual = block.input("stream", residual_dims(block, stack));
  const TensorId stream = last_stream(block, stack, residual);
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
  next = add_streams(block, stack, next);
  int sublayers = 1;
  for (const LayerVariant& layer : layers) {
    LayerLinks links;
    next = add_layer(block, stack, layer, next, links, sublayers);
    sublayers += static_cast<int>(layer.mixer != kNoneWord) +
                 static_cast<int>(layer.feed_forward != kNoneWord);
  }
  if (stack.model.streams > 1) next = last_stream(block, stack, next);
  next = add_norm(block, stack, "prediction_norm", next);
  const std::string key = stack.model.embedding.tied ? kWordEmbeddingKey : "output_embeddings";
  add_loss(block, add_language_head(block, stack, next, options, key));
  return block.finish({residual});
}

// Image classifier (ViT, arXiv:2010.11929): patches times a matrix, a class token, learned
// positions, an encoder, and a classifier on the class token.

namespace {

std::size_t patch_block(Network& network, const Stack& stack, std::int64_t patches) {
  const VisionDescription& vision = *stack.model.vision;
  BlockBuilder block(network, "embedding", BlockKind::Embedding);
  const DimId patch_tokens = block.dim("patches", DimRole::Sequence, patches);
  const DimId pixels = block.dim("patch_pixels", DimRole::Other,
                                 vision.channels * vision.patch_size * vision.patch_size);
  const TensorId image = block.input("image", {stack.batch, patch_tokens, pixels});
  const TensorId projected = block.linear({.name = "patch_projection",
                                           .input = image,
                                           .contracted = {pixels},
                                           .outputs = {stack.hidden},
                                           .bias = Bias::Yes});
  Operator op;
  op.name = "positions";
  op.kind = OperatorKind::Embedding;
  op.loop = stack.stream();
  op.inputs = {projected};
  op.parameters = {
      block.parameter("class_token", {stack.hidden}, ParameterClass::Embedding),
      block.parameter("positions", {stack.tokens, stack.hidden}, ParameterClass::Embedding)};
  op.outputs = {block.tensor("positions", op.loop)};
  const TensorId stream = block.add(op).outputs.front();
  const TensorId out = add_dropout(block, stack, "embedding_dropout", stream);
  return block.finish({out});
}

std::size_t classifier_block(Network& network, const Stack& stack) {
  BlockBuilder block(network, "head", BlockKind::Head);
  const TensorId stream = block.input("stream", stack.stream());
  const TensorId normed = add_norm(block, stack, "final_norm", stream);
  const TensorId token = block.elementwise("class_token", {normed}, {stack.batch, stack.hidden});
  const DimId classes = block.dim("classes", DimRole::Vocab, stack.model.vision->classes);
  add_logits_and_loss(block, stack, token, classes);
  return block.finish({});
}

}  // namespace

void build_vision(Network& network, const ModelDescription& model, const NetworkOptions& options) {
  const std::int64_t side = model.vision->image_size / model.vision->patch_size;
  const Stack stack = make_stack(network, model, options, "encoder", "sequence", side * side + 1);
  network.order.push_back({patch_block(network, stack, side * side), 1});
  const LayerVariant all{.span = {Visibility::All, std::nullopt}};
  append_layers(network, stack, model.layers, BlockKind::Encoder,
                std::vector<LayerVariant>(static_cast<std::size_t>(model.layers), all), nullptr);
  network.order.push_back({classifier_block(network, stack), 1});
}

}  // namespace plansearch
