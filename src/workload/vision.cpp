// SPDX-License-Identifier: Apache-2.0
// Image classifier (ViT, arXiv:2010.11929): patches times a matrix, a class token, learned
// positions, an encoder, and a classifier on the class token.
#include "workload/network_parts.hpp"

namespace plansearch {
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
  const LayerVariant all{false, {Visibility::All, std::nullopt}, false};
  append_layers(network, stack, model.layers, BlockKind::Encoder,
                std::vector<LayerVariant>(static_cast<std::size_t>(model.layers), all), nullptr);
  network.order.push_back({classifier_block(network, stack), 1});
}

}  // namespace plansearch
