// SPDX-License-Identifier: Apache-2.0
// An architecture as plain switches that no family owns. Readers (our YAML, Hugging Face) fill it,
// the transformer builder turns it into a network. Nothing downstream knows a family's name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/data_type.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

// Networks whose layers differ one by one: the parts that layers are made of, by name, and which
// layer has which. Attention and MLPs of other sizes are overlays on the sections of the model.

/// The sizes that products of a recurrent mixer make.
enum class MixerSize {
  Heads,      ///< of values
  KeyHeads,   ///< of queries and keys: groups that several heads of values share
  KeySize,    ///< features of a query and key head, rows of the state
  ValueSize,  ///< features of a value head, columns of the state
  Rank,       ///< of low-rank products
};

/// A tensor that a recurrence, its convolution or its gate reads.
struct MixerPart {
  std::string name;             ///< query, key and value by these names, others at will
  std::vector<MixerSize> dims;  ///< without batch and tokens
  std::string from;             ///< another part that it is a product of; empty: the stream
  std::string times;            ///< another part that multiplies it before its convolution
  bool low_rank = false;        ///< a product down to the rank, and one up from it
  bool convolved = false;       ///< with the tokens in front of it
  bool normed = false;          ///< by an RMS norm with a weight
  bool bias = false;            ///< of its product, whatever the others have
  bool operator==(const MixerPart&) const = default;
};

/// A parameter of the recurrence itself.
struct MixerVector {
  std::string name;
  std::vector<MixerSize> dims;
  bool operator==(const MixerVector&) const = default;
};

/// A row of models/families/_recurrences.yaml: what a kind of recurrence computes.
struct RecurrenceForm {
  std::string name;
  std::string kernel;  ///< of its update; empty: convolution and gate are all there is
  std::string gate;    ///< the part that multiplies its result; empty: none
  std::vector<MixerPart> parts;
  std::vector<MixerVector> vectors;
  bool one_product = true;  ///< the parts out of the stream are one product
  double flops = 4.0;       ///< of a point of the state and a token
  double transition = 0.0;  ///< rows of what a slice hands on besides the state, over its columns
  bool keeps_convolved = true;  ///< for backward; else the convolution runs again
  std::int64_t chunk = 0;       ///< columns of a matrix per token and head that is kept; 0: none
  bool operator==(const RecurrenceForm&) const = default;
};

/// Norm of what a recurrence returns, before its output product.
enum class RecurrenceNorm {
  None,
  PerHead,   ///< one weight of a head's size, shared by the heads
  EachHead,  ///< a weight for every head
};

/// A mixer that keeps a state in place of keys and values.
struct RecurrenceDescription {
  RecurrenceForm form;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t key_size = 0;
  std::int64_t value_size = 0;
  std::int64_t rank = 0;  ///< where the form has low-rank products
  std::int64_t taps = 0;  ///< of the convolution; 0: none
  bool bias = false;      ///< of its products
  bool convolution_bias = false;
  RecurrenceNorm norm = RecurrenceNorm::None;
  bool operator==(const RecurrenceDescription&) const = default;
};

/// Words that need no part: the sections `attention`, `mlp` and `experts`, and nothing at all.
inline constexpr const char* kAttentionWord = "attention";
inline constexpr const char* kMlpWord = "mlp";
inline constexpr const char* kExpertsWord = "experts";
inline constexpr const char* kNoneWord = "none";

enum class Activation {
  Gelu,
  Relu,
  Silu,
  SquaredRelu,
  ClampedSilu,  ///< both halves of a gated SiLU are clamped (gpt-oss)
};
enum class NormKind {
  LayerNorm,
  LayerNormNoBias,
  LayerNormPlain,  ///< neither weight nor bias (OLMo)
  RmsNorm,
};

/// The place of the norms of a layer.
enum class NormPlacement {
  Pre,          ///< before attention and before the MLP (GPT-2 and most since)
  Post,         ///< after each residual addition (BERT)
  Sandwich,     ///< before and after each (Gemma 2)
  AfterBranch,  ///< of what attention and MLP return, before the residual addition (OLMo 2)
  Parallel,     ///< attention and MLP read one norm (Falcon 7B, Phi)
  ParallelTwo,  ///< attention and MLP read a norm each of the same stream (GPT-NeoX)
};

enum class PositionKind { None, Learned, Rotary, Alibi, Relative };

/// Normalisation of queries and keys.
enum class QkNorm {
  None,
  PerHead,     ///< one weight of a head's size, shared by the heads (Qwen 3)
  FullWidth,   ///< a weight for every head, normalised over all of them (OLMo 2)
  EachHead,    ///< a weight for every head, normalised by head (Command-R, StableLM)
  Plain,       ///< by head, without weights (Llama 4)
  KeyWeights,  ///< both by head, the keys alone with weights (DeepSeek-V4)
};

/// Multi-head latent attention (DeepSeek): low-rank queries, keys and values.
struct LatentAttention {
  std::optional<std::int64_t> query_rank;  ///< absent: queries are projected directly
  std::int64_t kv_rank = 0;
  std::int64_t nope_size = 0;  ///< features of a head without rotary positions
  std::int64_t rope_size = 0;  ///< features with them, shared by all heads on the key side
  std::int64_t value_size = 0;
  /// Queries meet the latent itself: one key of kv_rank + rope_size features, a value of kv_rank.
  bool absorbed = false;
  bool operator==(const LatentAttention&) const = default;
};

/// The gate on what attention returns, in front of its output product.
enum class OutputGate {
  None,
  PerHead,  ///< one number a head (Step 3.5)
  Full,     ///< one a feature (Qwen 3.5)
};

/// An indexer: scores of its own for every key, of which a query attends to the best (DeepSeek-V3.2).
struct IndexDescription {
  std::int64_t heads = 0;
  std::int64_t size = 0;  ///< features of one of its heads
  std::int64_t keys = 0;  ///< that a query attends to
  bool shared = false;    ///< takes the choice of the nearest layer before it that has its own
  bool operator==(const IndexDescription&) const = default;
};

/// Keys and values of several tokens as one, in addition to a window of single ones (DeepSeek-V4).
struct PoolDescription {
  std::int64_t ratio = 1;    ///< tokens from one pooled key to the next
  std::int64_t overlap = 1;  ///< times as many tokens are in one
  bool operator==(const PoolDescription&) const = default;
};

/// The keys that a window of w tokens leaves a query.
enum class WindowKind {
  Sliding,  ///< the last w tokens; without a causal mask w / 2 on either side
  Chunked,  ///< those of its own chunk of w tokens (Llama 4)
};

struct AttentionDescription {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  std::optional<std::int64_t> value_size;  ///< absent: head_size
  std::optional<std::int64_t> query_rank;  ///< of low-rank queries; absent: one product
  std::int64_t output_groups = 0;          ///< of heads, each with a product of its own to
  std::int64_t output_rank = 0;            ///< so many features, in front of the output product
  bool value_is_key = false;               ///< one product makes both (DeepSeek-V4)
  OutputGate gate = OutputGate::None;
  bool query_key_value_bias = false;
  bool output_bias = false;
  bool repeats_heads = false;     ///< copies keys and values to every query head (Falcon-40B)
  bool fused_projection = false;  ///< query, key and value are one product (GPT-NeoX, Phi-3)
  bool sinks = false;             ///< one learned logit per head (gpt-oss)
  QkNorm qk_norm = QkNorm::None;
  PositionKind positions = PositionKind::None;
  std::int64_t relative_buckets = 0;   ///< entries of the bias table (Relative only)
  std::optional<std::int64_t> window;  ///< tokens a query sees; absent: all
  WindowKind window_kind = WindowKind::Sliding;
  std::int64_t full_attention_every = 0;  ///< with a window: every n-th layer sees all; 0: none
  std::int64_t leading_full = 0;          ///< with a window: so many first layers see all
  std::vector<bool>
      full_layers;  ///< with a window: which layers see all, repeated; empty: as above
  std::optional<LatentAttention> latent;
  std::optional<IndexDescription> index;
  std::optional<PoolDescription> pool;
  bool operator==(const AttentionDescription&) const = default;
};

struct MlpDescription {
  std::int64_t width = 0;
  Activation activation = Activation::Gelu;
  bool gated = false;
  bool bias = false;
  bool operator==(const MlpDescription&) const = default;
};

struct MoeDescription {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t expert_width = 0;
  std::int64_t shared_width = 0;  ///< summed width of the shared experts; 0: none
  bool shared_gate = false;       ///< a sigmoid gate on the shared expert (Qwen 2 MoE)
  bool router_bias = false;       ///< trained bias of the router (gpt-oss)
  bool fp32_router = false;       ///< the model's own code casts the router's input (DeepSeek)
  bool correction_bias = false;   ///< balancing bias, moved without gradient (DeepSeek-V3)
  bool expert_bias = false;
  std::int64_t leading_dense = 0;          ///< first layers with a dense MLP
  std::int64_t every = 1;                  ///< of the others, each n-th has experts
  std::vector<std::int64_t> dense_layers;  ///< further layers with a dense MLP, from 0
  std::vector<std::int64_t> layers;  ///< the layers with experts, from 0; empty: by the rules above
  std::optional<double> capacity_factor;
  double imbalance = 1.0;
  std::int64_t groups = 1;      ///< of experts; a token chooses among those of its best ones
  std::int64_t top_groups = 1;  ///< so many
  std::int64_t latent = 0;  ///< width in which tokens go to their experts; 0: that of the stream
  std::int64_t idle = 0;    ///< further choices of the router, which compute nothing (LongCat)
  bool operator==(const MoeDescription&) const = default;
};

struct NormDescription {
  NormKind kind = NormKind::LayerNorm;
  NormPlacement placement = NormPlacement::Pre;
  bool final_norm = true;
  bool first_norm =
      true;  ///< false: the first layer's attention reads the bare stream (ModernBERT)
  bool operator==(const NormDescription&) const = default;
};

/// A dense layer, activation and norm in front of the logits (RoBERTa).
enum class HeadTransform { None, Plain, Biased };

struct EmbeddingDescription {
  std::int64_t vocab = 0;
  bool tied = false;                  ///< logits use the word embedding
  std::optional<std::int64_t> width;  ///< factorised embedding (OPT-350m)
  std::int64_t position_rows = 0;     ///< learned positions, offsets included
  std::int64_t token_types = 0;
  bool norm = false;       ///< normalised after summing (BLOOM, BERT, mBART)
  bool head_bias = false;  ///< bias of the logits (Phi)
  bool pooler = false;     ///< dense layer on the first token (BERT)
  HeadTransform head_transform = HeadTransform::None;
  double predicted = 1.0;  ///< share of the positions whose logits are computed (masked tokens)
  bool operator==(const EmbeddingDescription&) const = default;
};

/// Second stack, reading the first through cross attention (T5, mBART). The first has `layers`.
struct DecoderDescription {
  std::int64_t layers = 0;
  std::int64_t mlp_width = 0;
  std::int64_t sequence = 0;  ///< default length of the target sequence
  bool operator==(const DecoderDescription&) const = default;
};

/// A mixer with a name: the attention of the model with other sizes, or a recurrence.
struct MixerDescription {
  std::string name;
  AttentionDescription attention;
  std::optional<RecurrenceDescription> recurrence;
  bool operator==(const MixerDescription&) const = default;
};

/// The MLP of the model with other sizes.
struct FeedForwardDescription {
  std::string name;
  MlpDescription mlp;
  bool operator==(const FeedForwardDescription&) const = default;
};

/// Which layer has which mixer and feed-forward: names of parts or of sections ("attention", "mlp",
/// "experts", "none"), "a+b" for mixers that read one norm and add up. Lists repeat; an empty one
/// leaves it to the sections.
struct LayerList {
  std::vector<MixerDescription> mixers;
  std::vector<FeedForwardDescription> feed_forwards;
  std::vector<std::string> layer_mixers;
  std::vector<std::string> layer_feed_forwards;
  std::vector<std::string> prediction_mixers;  ///< of the layers of a prediction module
  std::vector<std::string> prediction_feed_forwards;
  bool operator==(const LayerList&) const = default;
  [[nodiscard]] bool empty() const { return *this == LayerList{}; }
};

/// Image classifier input and output (ViT). The sequence is the patches and a class token.
struct VisionDescription {
  std::int64_t image_size = 0;
  std::int64_t patch_size = 0;
  std::int64_t channels = 3;
  std::int64_t classes = 0;
  bool operator==(const VisionDescription&) const = default;
};

/// A network in front of a decoder, which turns an image into features that stand in place of tokens.
struct TowerDescription {
  std::string config;                      ///< its sizes, as a flow map of the file's own keys
  std::shared_ptr<const Network> network;  ///< of one image
  bool operator==(const TowerDescription& other) const { return config == other.config; }
};

enum class StackKind {
  Decoder,
  Encoder,
  EncoderDecoder,
  Vision,
  Graph,  ///< listed operator by operator
};
enum class OptimizerKind { Adam, Sgd, Lion, Adafactor, Muon };

/// The word for every product of the layers, experts and routers aside.
inline constexpr const char* kAllLinear = "all-linear";

/// Low-rank adapters of frozen products (LoRA, arXiv:2106.09685).
struct LoraDescription {
  std::int64_t rank = 0;
  std::vector<std::string> targets;  ///< q, k, v, qkv, o, gate, up, down, ... or all-linear
  bool operator==(const LoraDescription&) const = default;
};

/// Defaults of a training job; every one can be overridden.
struct TrainingDefaults {
  bool assumed = false;  ///< invented by the reader: the file does not speak of training
  std::int64_t seq_len = 0;
  std::int64_t global_batch = 0;
  std::optional<DataType> precision;
  OptimizerKind optimizer = OptimizerKind::Adam;
  /// Patterns ('*' matches any run) of "block/parameter" names that are not trained.
  std::vector<std::string> frozen;
  std::optional<LoraDescription> lora;  ///< present: only the adapters are trained
  bool operator==(const TrainingDefaults&) const = default;
};

struct ModelDescription {
  std::string name;
  std::string source;  ///< where the sizes were published
  StackKind stack = StackKind::Decoder;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::optional<std::int64_t> max_positions;
  AttentionDescription attention;
  MlpDescription mlp;
  NormDescription norm;
  EmbeddingDescription embedding;
  double dropout = 0.0;  ///< of the residual branches and the embedding
  double attention_dropout = 0.0;
  std::int64_t mtp_layers = 0;  ///< multi-token prediction modules (DeepSeek-V3)
  std::int64_t streams = 1;     ///< of the residual, which sublayers mix (hyper-connections)
  LayerList list;
  std::optional<MoeDescription> moe;
  std::optional<DecoderDescription> decoder;
  std::optional<VisionDescription> vision;
  std::optional<TowerDescription> tower;   ///< of a decoder; only questions with images build it
  std::shared_ptr<const Network> graph{};  ///< of StackKind::Graph
  TrainingDefaults training;
  bool operator==(const ModelDescription&) const = default;
};

/// Moments an optimizer keeps per parameter: Adam two; Lion, Muon and SGD with momentum one;
/// Adafactor keeps row and column statistics only, which do not count.
[[nodiscard]] double optimizer_moments(OptimizerKind optimizer);

/// Contradictions of the sizes, one sentence each ("heads 25 is not a multiple of kv_heads 4").
[[nodiscard]] std::vector<std::string> contradictions(const ModelDescription& description);

/// The longest sequence the architecture has positions for; absent: any.
[[nodiscard]] std::optional<std::int64_t> longest_sequence(const ModelDescription& description);

}  // namespace plansearch
