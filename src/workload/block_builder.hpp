// SPDX-License-Identifier: Apache-2.0
// Writes one block of a network: keeps the ids, the saved tensors and the loop nests consistent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plansearch/network.hpp"
#include "plansearch/transformer_builder.hpp"

namespace plansearch {

using Dims = std::vector<DimId>;

[[nodiscard]] Dims concat(Dims a, const Dims& b);
[[nodiscard]] Dims without(const Dims& dims, const Dims& removed);

/// The dimension of that name; made at the first call, and the same at every later one.
DimId dimension(Network& network, const std::string& name, DimRole role, std::int64_t extent);

enum class Bias { No, Yes };

/// input (..., contracted) times a weight (contracted, outputs).
struct Linear {
  std::string name{};
  TensorId input{};
  Dims contracted{};
  Dims outputs{};
  Bias bias = Bias::No;
  std::string fused_key{};
  int products = 1;
  OperatorKind kind = OperatorKind::Matmul;
  Dims per_item{};  ///< dimensions of the input that the weight has too (experts)
  double useful_fraction = 1.0;
  ElementClass element = ElementClass::Activation;
  std::string shared_key{};
  ParameterClass parameter = ParameterClass::Matrix;
};

class BlockBuilder {
 public:
  BlockBuilder(Network& network, std::string name, BlockKind kind);

  DimId dim(const std::string& name, DimRole role, std::int64_t extent) {
    return dimension(network_, name, role, extent);
  }
  [[nodiscard]] std::int64_t extent(DimId id) const { return network_.dimension(id).extent; }
  [[nodiscard]] const std::string& name_of(DimId id) const { return network_.dimension(id).name; }
  [[nodiscard]] const Dims& dims(TensorId id) const { return block_.tensor(id).dims; }

  TensorId tensor(std::string name, Dims dims, ElementClass element = ElementClass::Activation);
  TensorId input(std::string name, Dims dims, ElementClass element = ElementClass::Activation);
  ParameterId parameter(std::string name, Dims dims, ParameterClass kind,
                        std::string shared_key = {});
  void freeze(ParameterId id) {
    block_.parameters[static_cast<std::size_t>(id)].trainable = Trainable::No;
  }
  /// Operators that are added while the guard lives are part of the module, besides those around.
  class Part {
   public:
    Part(LayerModules& modules, LayerModule module) : modules_(modules), before_(modules) {
      modules |= bit_of(module);
    }
    ~Part() { modules_ = before_; }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    LayerModules& modules_;
    LayerModules before_;
  };
  [[nodiscard]] Part part(LayerModule module) { return {modules_, module}; }

  /// The reference is valid until the next operator is added.
  Operator& add(Operator op);
  [[nodiscard]] Operator& last() { return block_.operators.back(); }
  [[nodiscard]] std::size_t operators() const { return block_.operators.size(); }
  /// Operators from that place on have no backward pass: nothing of theirs is kept or trained.
  void detach(std::size_t first);
  /// Lists the tensor as saved by the operator that produced it; block inputs are kept anyway.
  void save_at_producer(const Saved& saved);

  /// Lists a block input as saved by the operator added last.
  void save_input(TensorId id) { block_.operators.back().saved.push_back(id); }

  /// The operator added last keeps an fp32 copy of its input and an intermediate like its output.
  void keep_copies(TensorId in, TensorId out);

  TensorId linear(const Linear& spec);
  /// Normalises over `normalised`; `weights` are the dimensions of its weight; empty: it has none.
  TensorId norm(const std::string& name, TensorId in, const Dims& weights, const Dims& normalised,
                bool layer_norm, bool bias);
  /// One launch that reads inputs and writes one tensor of dims.
  TensorId elementwise(const std::string& name, std::vector<TensorId> inputs, Dims dims);

  /// Adds the block to the network and returns its index.
  std::size_t finish(std::vector<TensorId> outputs);

 private:
  Network& network_;
  Block block_;
  LayerModules modules_;  ///< of what is added
};

// The pieces a transformer layer is put together from.

/// State shared by the parts of a stack: the model, the options, the residual stream's dimensions.
struct Stack {
  const ModelDescription& model;
  AttentionKind attention = AttentionKind::Fused;
  Implementation implementation{};
  std::string name;      ///< "decoder", "encoder": prefix of shared keys
  std::string sequence;  ///< name of the token dimension
  DimId batch{};
  DimId tokens{};
  DimId hidden{};
  std::int64_t mlp_width = 0;
  const Documents& documents;  ///< that share a sequence
  std::string prefix{};        ///< of dimensions of the part that is built

  [[nodiscard]] Dims stream() const { return {batch, tokens, hidden}; }
  /// The same with the sizes of a part that has a name.
  [[nodiscard]] Stack with(const ModelDescription& part, const std::string& part_name) const {
    return {part,   attention, implementation, name,      sequence,       batch,
            tokens, hidden,    mlp_width,      documents, part_name + "_"};
  }
};

enum class Visibility { Causal, All };

/// Which keys a query sees.
struct AttentionSpan {
  Visibility visibility = Visibility::Causal;
  std::optional<std::int64_t> window{};
  WindowKind window_kind = WindowKind::Sliding;
  bool operator==(const AttentionSpan&) const = default;
};

/// Queries, keys and values, ready for the core.
struct Heads {
  TensorId query{};
  TensorId key{};
  TensorId value{};
  DimId query_size{};  ///< features of a query and key head
  DimId value_size{};
  std::optional<TensorId> gate{};    ///< of the result
  std::optional<TensorId> latent{};  ///< of low-rank queries
  /// The wider results that stay alive because the value is a view of them; empty: the value alone.
  std::vector<TensorId> value_storage{};
};

/// Share of the (query, key) pairs that are needed.
[[nodiscard]] double visible_fraction(std::int64_t queries, std::int64_t keys, AttentionSpan span);
/// The same of a sequence that documents fill, each of which sees itself alone.
[[nodiscard]] double visible_fraction(std::int64_t tokens, const Documents& documents,
                                      AttentionSpan span);

[[nodiscard]] DimId head_dimension(BlockBuilder& block, const Stack& stack);
[[nodiscard]] TensorId add_norm(BlockBuilder& block, const Stack& stack, const std::string& name,
                                TensorId in);
[[nodiscard]] TensorId add_residual(BlockBuilder& block, const Stack& stack,
                                    const std::string& name, TensorId branch, TensorId stream);
/// Self-attention up to and including the output projection.
[[nodiscard]] TensorId add_attention(BlockBuilder& block, const Stack& stack, TensorId in,
                                     AttentionSpan span, std::optional<TensorId>& chosen);
/// Attention of the stream to the memory of an encoder, whose tokens are `memory_tokens`.
[[nodiscard]] TensorId add_cross_attention(BlockBuilder& block, const Stack& stack, TensorId in,
                                           TensorId memory);
[[nodiscard]] Heads add_latent_heads(BlockBuilder& block, const Stack& stack, TensorId in);
/// A mixer that keeps a state, up to and including its output projection.
[[nodiscard]] TensorId add_recurrence(BlockBuilder& block, const Stack& stack, TensorId in,
                                      const RecurrenceDescription& mixer);
/// The keys that every query attends to, chosen by an indexer.
[[nodiscard]] Dims chosen_dims(BlockBuilder& block, const Stack& stack,
                               const IndexDescription& index);
[[nodiscard]] TensorId add_index(BlockBuilder& block, const Stack& stack, TensorId in,
                                 const Heads& heads);
/// Keys (and values) of several tokens as one.
struct PooledKeys {
  TensorId keys{};
  DimId tokens{};
};
[[nodiscard]] PooledKeys add_pool(BlockBuilder& block, const Stack& stack, TensorId in, DimId size,
                                  const std::string& prefix);
/// The residual of a network with several streams.
[[nodiscard]] Dims residual_dims(BlockBuilder& block, const Stack& stack);
[[nodiscard]] TensorId add_streams(BlockBuilder& block, const Stack& stack, TensorId in);
/// The one stream that a sublayer reads, and the weights with which its result comes back.
struct CollapsedStreams {
  TensorId stream{};
  TensorId weights{};
};
[[nodiscard]] CollapsedStreams collapse_streams(BlockBuilder& block, const Stack& stack,
                                                const std::string& name, TensorId in);
[[nodiscard]] TensorId spread_streams(BlockBuilder& block, const std::string& name, TensorId branch,
                                      TensorId residual, TensorId weights);
[[nodiscard]] TensorId last_stream(BlockBuilder& block, const Stack& stack, TensorId in);
/// The keys of an attention core, where they are not all tokens.
struct CoreKeys {
  std::optional<TensorId> chosen{};  ///< by an indexer
  std::int64_t ratio = 1;            ///< tokens from one pooled key to the next
};
/// Share of the pairs of a query and a pooled key that are needed: windows of `ratio` tokens that
/// end before the query, `most` of them at most.
[[nodiscard]] double pooled_fraction(std::int64_t queries, std::int64_t keys, std::int64_t ratio,
                                     std::int64_t most);
/// Scores, softmax, dropout and context, or the one kernel that fuses them.
[[nodiscard]] TensorId add_attention_core(BlockBuilder& block, const Stack& stack,
                                          const Heads& heads, AttentionSpan span,
                                          const std::string& prefix, CoreKeys from = {});
[[nodiscard]] TensorId add_mlp(BlockBuilder& block, const Stack& stack, TensorId in);
[[nodiscard]] TensorId add_experts(BlockBuilder& block, const Stack& stack, TensorId in);

/// A gated or plain MLP over the dimensions of its weights; used by dense, shared and expert MLPs.
struct MlpParts {
  std::string in_name{};
  std::string activation_name{};
  std::string out_name{};
  DimId inner{};
  std::optional<DimId> outer{};  ///< features in and out; absent: the stream's
  Bias bias = Bias::No;
  OperatorKind kind = OperatorKind::Matmul;
  Dims per_item{};
  std::optional<TensorId> weights{};  ///< of the routed tokens, where multiplied here
  LayerModules activation{};          ///< modules of its activation
  double useful_fraction = 1.0;
};
[[nodiscard]] TensorId add_mlp_parts(BlockBuilder& block, const Stack& stack, TensorId in,
                                     const MlpParts& parts);

/// The kinds of layer one model can mix: names of its parts (LayerList).
struct LayerVariant {
  std::string mixer = kAttentionWord;
  std::string feed_forward = kMlpWord;
  AttentionSpan span{};
  bool cross = false;
  bool bare = false;  ///< its attention reads the stream without a norm
  bool operator==(const LayerVariant&) const = default;
};
/// The mixers that a layer's word names: several read one norm and add up.
[[nodiscard]] std::vector<std::string> mixers_of(const std::string& word);
/// The attention of that name, the model's or one laid over it; null: a recurrence, or none.
[[nodiscard]] const AttentionDescription* attention_called(const ModelDescription& model,
                                                           const std::string& name);
/// Every layer of a model, by its lists or its sections; windows that `tokens` do not fill are dropped.
[[nodiscard]] std::vector<LayerVariant> layer_variants(const ModelDescription& model,
                                                       std::int64_t tokens);
/// Tensors that a layer reads besides the stream: the memory of an encoder, or chosen keys of a layer
/// before it; and what it hands on besides it: the keys that it chose.
struct LayerLinks {
  std::optional<TensorId> memory{};
  std::optional<TensorId> chosen{};
};
/// Adds the operators of one layer and returns the new residual stream. `number` counts the norms
/// and residuals of the block.
[[nodiscard]] TensorId add_layer(BlockBuilder& block, const Stack& stack,
                                 const LayerVariant& variant, TensorId stream, LayerLinks& links,
                                 int number = 1);

// The blocks before, between and after the layers, and the passes over a finished network.

inline constexpr const char* kWordEmbeddingKey = "word_embeddings";
/// Index of the input that cross attention reads; it follows the stream.
inline constexpr std::size_t kMemoryInput = 1;

/// The dimensions of a stack over a sequence of that name and length.
[[nodiscard]] Stack make_stack(Network& network, const ModelDescription& model,
                               const NetworkOptions& options, const std::string& name,
                               const std::string& sequence, std::int64_t tokens);
[[nodiscard]] DimId vocabulary(BlockBuilder& block, const ModelDescription& model,
                               const NetworkOptions& options);

/// Word, position and token-type embeddings of a token tensor; returns the residual stream.
[[nodiscard]] TensorId add_embedding(BlockBuilder& block, const Stack& stack, TensorId token_ids,
                                     const NetworkOptions& options);
[[nodiscard]] TensorId add_dropout(BlockBuilder& block, const Stack& stack, const std::string& name,
                                   TensorId in);
/// A classifier with bias over the features of the stack, and its loss.
void add_logits_and_loss(BlockBuilder& block, const Stack& stack, TensorId in, DimId classes);

std::size_t embedding_block(Network& network, const Stack& stack, const NetworkOptions& options);
std::size_t head_block(Network& network, const Stack& stack, const NetworkOptions& options);
std::size_t prediction_block(Network& network, const Stack& stack, const NetworkOptions& options,
                             const std::vector<LayerVariant>& layers, std::int64_t number);
void append_layers(Network& network, const Stack& stack, std::int64_t layers, BlockKind kind,
                   const std::vector<LayerVariant>& variants, const Stack* memory);

void build_language_model(Network& network, const ModelDescription& model,
                          const NetworkOptions& options);
void build_encoder_decoder(Network& network, const ModelDescription& model,
                           const NetworkOptions& options);
void build_vision(Network& network, const ModelDescription& model, const NetworkOptions& options);

/// Puts a tower that reads so many images in front of a decoder, whose embedding takes its features.
void join_tower(Network& network, const Network& tower, const Images& images);

/// Marks parameters whose "block/parameter" name matches a pattern.
void freeze(Network& network, const std::vector<std::string>& patterns);
/// Freezes all parameters and adds low-rank adapters to the targets (workload/adapters.cpp).
void add_adapters(Network& network, const ModelDescription& model);
/// Drops gradients, kernels and saved tensors that nothing trained needs. The first layer that is
/// trained becomes a block of its own: its input needs no gradient.
void follow_gradients(Network& network);
/// Leaves every saved tensor at the first operator that lists it.
void list_saved_once(Network& network);

}  // namespace plansearch
