// SPDX-License-Identifier: Apache-2.0
// The block in front of the layers: table look-ups, their sum, norm and dropout.
#include "workload/network_parts.hpp"

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
  return block.finish({stream});
}

}  // namespace plansearch
