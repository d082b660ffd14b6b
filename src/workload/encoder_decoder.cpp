// SPDX-License-Identifier: Apache-2.0
// Two stacks (T5, mBART): the second reads the first through cross attention. The encoder's final
// norm stands at the start of the decoder's embedding block; an edge leads from there to every
// layer.
#include "workload/network_parts.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kMemoryOutput = 1;  // behind the decoder's stream

std::size_t decoder_embedding(Network& network, const Stack& encoder, const Stack& decoder,
                              const NetworkOptions& options) {
  BlockBuilder block(network, "decoder_embedding", BlockKind::Embedding);
  TensorId memory = block.input("encoder_stream", encoder.stream());
  const TensorId ids =
      block.input("target_ids", {decoder.batch, decoder.tokens}, ElementClass::Index);
  if (encoder.model.norm.final_norm) {
    memory = add_norm(block, encoder, "encoder_final_norm", memory);
    memory = add_dropout(block, encoder, "encoder_final_dropout", memory);
  }
  const TensorId stream = add_embedding(block, decoder, ids, options);
  return block.finish({stream, memory});
}

}  // namespace

void build_encoder_decoder(Network& network, const ModelDescription& model,
                           const NetworkOptions& options) {
  const DecoderDescription& second = *model.decoder;
  const Stack encoder = make_stack(network, model, options, "encoder", "sequence",
                                   options.seq_len.value_or(model.training.seq_len));
  Stack decoder = make_stack(network, model, options, "decoder", "target_sequence",
                             options.decoder_seq_len.value_or(second.sequence));
  decoder.mlp_width = second.mlp_width;

  network.order.push_back({embedding_block(network, encoder, options), 1});
  const LayerVariant both_ways{false, {Visibility::All, std::nullopt}, false};
  append_layers(network, encoder, model.layers, BlockKind::Encoder,
                std::vector<LayerVariant>(static_cast<std::size_t>(model.layers), both_ways),
                nullptr);
  network.order.push_back({decoder_embedding(network, encoder, decoder, options), 1});
  const std::int64_t layers_from = copy_count(network);
  network.edges.push_back({.from = layers_from - 1,
                           .output = kMemoryOutput,
                           .to = layers_from,
                           .readers = second.layers,
                           .input = kMemoryInput});
  const LayerVariant causal{false, {Visibility::Causal, std::nullopt}, true};
  append_layers(network, decoder, second.layers, BlockKind::CrossDecoder,
                std::vector<LayerVariant>(static_cast<std::size_t>(second.layers), causal),
                &encoder);
  network.order.push_back({head_block(network, decoder, options), 1});
}

}  // namespace plansearch
