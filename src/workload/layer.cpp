// SPDX-License-Identifier: Apache-2.0
// Computes: one transformer layer: the order of norms, attention, MLP and residual additions; of a
//           residual of several streams (hyper-connections) what a sublayer reads of them, and how
//           its result comes back to them.
// Source: of streams DeepSeek-V4 (transformers, models/deepseek_v4: DeepseekV4HyperConnection,
//         DeepseekV4HyperHead): one product of all streams makes the weights of their sum, of the
//         result and of the streams among each other.
// Assumes: the iterations that balance the weights cost nothing beside the streams.
// Units: elements.
// Checked by: tests/unit/workload/recurrence_test.cpp
#include <algorithm>

#include "base/names.hpp"
#include "plansearch/error.hpp"
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

TensorId add_feed_forward(BlockBuilder& block, const Stack& stack, const LayerVariant& variant,
                          TensorId in) {
  if (variant.feed_forward == kExpertsWord) return add_experts(block, stack, in);
  if (variant.feed_forward == kMlpWord) return add_mlp(block, stack, in);
  const auto& parts = stack.model.list.feed_forwards;
  const auto part = std::ranges::find(parts, variant.feed_forward, &FeedForwardDescription::name);
  PLANSEARCH_CHECK(part != parts.end());
  ModelDescription model = stack.model;
  model.mlp = part->mlp;
  Stack own = stack.with(model, part->name);
  own.mlp_width = part->mlp.width;
  return add_mlp(block, own, in);
}

/// One mixer by its name.
TensorId add_named_mixer(BlockBuilder& block, const Stack& stack, const std::string& name,
                         AttentionSpan span, TensorId in, LayerLinks& links) {
  if (name == kAttentionWord) return add_attention(block, stack, in, span, links.chosen);
  const auto& parts = stack.model.list.mixers;
  const auto part = std::ranges::find(parts, name, &MixerDescription::name);
  PLANSEARCH_CHECK(part != parts.end());
  ModelDescription model = stack.model;
  model.attention = part->attention;
  const Stack own = stack.with(model, name);
  if (part->recurrence) return add_recurrence(block, own, in, *part->recurrence);
  return add_attention(block, own, in, span, links.chosen);
}

/// Mixers that read one norm and add up.
TensorId add_mixer(BlockBuilder& block, const Stack& stack, const LayerVariant& variant,
                   TensorId in, LayerLinks& links) {
  std::vector<TensorId> mixed;
  for (const std::string& name : mixers_of(variant.mixer))
    mixed.push_back(add_named_mixer(block, stack, name, variant.span, in, links));
  return mixed.size() == 1 ? mixed.front() : block.elementwise("mixer_sum", mixed, stack.stream());
}

/// Who reads the result of a norm.
enum class Reader : std::uint8_t {
  Products,   ///< several kernels: latents of queries and keys, a router and its experts
  Attention,  ///< the one product of queries, keys and values
  Mlp,        ///< the first product of a dense MLP
};

/// Adds the norm whose result attention and MLP read.
TensorId add_input_norm(BlockBuilder& block, const Stack& stack, const std::string& name,
                        TensorId in, Reader reader) {
  const bool own = stack.implementation.norm_part == NormPart::Own || reader == Reader::Products;
  if (!own && reader == Reader::Attention) return add_norm(block, stack, name, in);
  const auto part = block.part(own ? LayerModule::LayerNorm : LayerModule::Mlp);
  return add_norm(block, stack, name, in);
}

Reader mixer_reader(const Stack& stack, const LayerVariant& variant) {
  const AttentionDescription* a = attention_called(stack.model, variant.mixer);
  const bool one = a != nullptr && !a->latent && !a->query_rank && !a->index && !a->pool;
  return one ? Reader::Attention : Reader::Products;
}

Reader feed_forward_reader(const LayerVariant& variant) {
  return variant.feed_forward == kExpertsWord ? Reader::Products : Reader::Mlp;
}

TensorId add_parallel_layer(BlockBuilder& block, const Stack& stack, const LayerVariant& variant,
                            TensorId stream, LayerLinks& links) {
  const bool two = stack.model.norm.placement == NormPlacement::ParallelTwo;
  const TensorId norm1 = add_input_norm(block, stack, "norm1", stream,
                                        two ? mixer_reader(stack, variant) : Reader::Products);
  const TensorId norm2 =
      two ? add_input_norm(block, stack, "norm2", stream, feed_forward_reader(variant)) : norm1;
  const TensorId attended = add_mixer(block, stack, variant, norm1, links);
  const TensorId widened = add_feed_forward(block, stack, variant, norm2);
  const TensorId first = add_residual(block, stack, "residual1", attended, stream);
  return add_residual(block, stack, "residual2", widened, first);
}

/// The computation of a sub-layer, and the reader of its norm.
template <typename Compute>
struct Branch {
  Reader reader;
  Compute compute;
};
template <typename Compute>
Branch(Reader, Compute) -> Branch<Compute>;

/// One sub-layer with its norms: `number` counts the norms and residuals of the layer.
template <typename Compute>
TensorId add_sublayer(BlockBuilder& block, const Stack& stack, int number, TensorId stream,
                      const Branch<Compute>& of, bool bare = false) {
  const Compute& branch = of.compute;
  const std::string n = std::to_string(number);
  if (stack.model.streams > 1) {
    const CollapsedStreams one = collapse_streams(block, stack, "streams" + n, stream);
    const TensorId normed = add_input_norm(block, stack, "norm" + n, one.stream, of.reader);
    return spread_streams(block, "residual" + n, branch(normed), stream, one.weights);
  }
  if (bare) return add_residual(block, stack, "residual" + n, branch(stream), stream);
  switch (stack.model.norm.placement) {
    case NormPlacement::Pre:
      return add_residual(block, stack, "residual" + n,
                          branch(add_input_norm(block, stack, "norm" + n, stream, of.reader)),
                          stream);
    case NormPlacement::Post:
      return add_norm(block, stack, "norm" + n,
                      add_residual(block, stack, "residual" + n, branch(stream), stream));
    case NormPlacement::Sandwich: {
      const TensorId out = branch(add_input_norm(block, stack, "norm" + n, stream, of.reader));
      const TensorId after = add_norm(block, stack, "post_norm" + n, out);
      return add_residual(block, stack, "residual" + n, after, stream);
    }
    case NormPlacement::AfterBranch:
      return add_residual(block, stack, "residual" + n,
                          add_norm(block, stack, "norm" + n, branch(stream)), stream);
    case NormPlacement::Parallel:
    case NormPlacement::ParallelTwo:
      break;
  }
  throw InternalError("a parallel layer has no sub-layers");
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

TensorId add_norm(BlockBuilder& block, const Stack& stack, const std::string& name, TensorId in) {
  const NormKind kind = stack.model.norm.kind;
  const Dims weights = kind == NormKind::LayerNormPlain ? Dims{} : Dims{stack.hidden};
  const TensorId out = block.norm(name, in, weights, {stack.hidden}, kind != NormKind::RmsNorm,
                                  kind == NormKind::LayerNorm);
  if (kind == NormKind::RmsNorm && stack.implementation.norm == NormInput::Single) {
    block.keep_copies(in, out);
  }
  return out;
}

TensorId add_residual(BlockBuilder& block, const Stack& stack, const std::string& name,
                      TensorId branch, TensorId stream) {
  Operator op;
  op.name = name;
  op.kind = OperatorKind::Elementwise;
  op.loop = stack.stream();
  op.inputs = {branch, stream};
  op.outputs = {block.tensor(name, op.loop)};
  op.passes = MemoryBound::Residual;
  if (stack.model.dropout > 0.0) {
    op.passes = MemoryBound::DropoutResidual;
    const TensorId mask = block.tensor(name + ".mask", op.loop, ElementClass::Mask);
    op.outputs.push_back(mask);
    op.saved = {mask};
  }
  return block.add(op).outputs.front();
}

std::vector<std::string> mixers_of(const std::string& word) {
  return split(word, "+");
}

const AttentionDescription* attention_called(const ModelDescription& model,
                                             const std::string& name) {
  if (name == kAttentionWord) return &model.attention;
  const auto& parts = model.list.mixers;
  const auto part = std::ranges::find(parts, name, &MixerDescription::name);
  return part == parts.end() || part->recurrence ? nullptr : &part->attention;
}

TensorId add_layer(BlockBuilder& block, const Stack& stack, const LayerVariant& variant,
                   TensorId stream, LayerLinks& links, int number) {
  const bool mixes = variant.mixer != kNoneWord;
  const bool feeds = variant.feed_forward != kNoneWord;
  const NormPlacement placement = stack.model.norm.placement;
  if (placement == NormPlacement::Parallel || placement == NormPlacement::ParallelTwo) {
    PLANSEARCH_CHECK(!links.memory.has_value() && mixes && feeds);
    return add_parallel_layer(block, stack, variant, stream, links);
  }
  TensorId now = stream;
  if (mixes) {
    now = add_sublayer(
        block, stack, number++, now,
        Branch{mixer_reader(stack, variant),
               [&](TensorId in) { return add_mixer(block, stack, variant, in, links); }},
        variant.bare);
  }
  if (links.memory.has_value()) {
    now = add_sublayer(block, stack, number++, now, Branch{Reader::Attention, [&](TensorId in) {
                                                             return add_cross_attention(
                                                                 block, stack, in, *links.memory);
                                                           }});
  }
  if (!feeds) return now;
  return add_sublayer(block, stack, number, now,
                      Branch{feed_forward_reader(variant), [&](TensorId in) {
                               return add_feed_forward(block, stack, variant, in);
                             }});
}

// Two stacks (T5, mBART): the second reads the first through cross attention. The encoder's final
// norm stands at the start of the decoder's embedding block; an edge leads from there to every
// layer.

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
  const LayerVariant both_ways{.span = {Visibility::All, std::nullopt}};
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
  const LayerVariant causal{.span = {Visibility::Causal, std::nullopt}, .cross = true};
  append_layers(network, decoder, second.layers, BlockKind::CrossDecoder,
                std::vector<LayerVariant>(static_cast<std::size_t>(second.layers), causal),
                &encoder);
  network.order.push_back({head_block(network, decoder, options), 1});
}

}  // namespace plansearch
