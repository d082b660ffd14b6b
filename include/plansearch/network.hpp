// SPDX-License-Identifier: Apache-2.0
// The computation, before it is placed: operators with named dimensions.
//
// An operator is a loop nest over named dimensions. Its tensors carry subsets of them; a dimension
// of the loop that the output does not carry is contracted. Everything the rest of the program
// needs (FLOPs, bytes, parameters, saved activations, the two backward operators and, once the
// dimensions are placed on a mesh, the communication) follows from these lists.
// The row of a kind of operators in src/workload/operator_traits.cpp says all about it but how
// it may be priced, which stands here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/layer_module.hpp"
#include "plansearch/operator_passes.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

enum class OperatorKind : std::uint8_t {
  Matmul,         ///< activations times parameters (several parameters: one fused launch)
  BatchedMatmul,  ///< activations times activations (unfused attention)
  /// Fused attention kernel; inputs q, k, v in this order. k and v are read with their token
  /// dimension as KeySequence and their KvHead as Head (context parallelism pays for that).
  Attention,
  GroupedMatmul,  ///< one matmul per local expert
  Norm,
  Softmax,
  Elementwise,   ///< activation functions, dropout, residual additions, rotary embedding, bias
  Embedding,     ///< contracts Vocab or Position (a sharded table leaves partial sums)
  CrossEntropy,  ///< loop over (batch, sequence, vocabulary)
  Route,         ///< top-k choice of experts
  Dispatch,      ///< tokens to experts: (batch, sequence, ...) -> (expert, routed, ...)
  Combine,       ///< experts to tokens
  Convolution,
  DepthwiseConvolution,  ///< every channel by itself
  /// A state per head that tokens update one after the other; inputs query, key, value, then what
  /// decays and gates it. Loop: batch, head, tokens, features of the key, features of the value.
  Recurrence,
  Scores,  ///< of keys for a query, of which the best are kept (sparse attention)
  Count    ///< the number of kinds
};
inline constexpr auto kOperatorKindCount = static_cast<std::size_t>(OperatorKind::Count);

/// One price function each, in src/evaluate/block/operator_time.cpp.
enum class CostClass : std::uint8_t {
  Product,            ///< with one weight
  GroupedProduct,     ///< one launch of a product per group of rows
  ActivationProduct,  ///< of two activations
  FusedAttention,     ///< curves of its own, which count steps as well
  Loss,               ///< passes over logits
  Stream,             ///< passes over memory: inputs once, outputs once
  LookUp,             ///< passes over memory: of its table the rows of the output
  Recurrence,         ///< by chunks of tokens, one after the other: curves of its own
  Scores,             ///< a product of two activations, and a pass that keeps the best results
};

/// The role of a dimension. Placement rules refer to roles ("shard Head and Ffn over the tensor
/// axis"), never to operator names.
enum class DimRole {
  Batch,         ///< sequences (or images) of one micro-batch
  Sequence,      ///< tokens of a sequence
  KeySequence,   ///< tokens attended to
  Hidden,        ///< residual stream
  Head,          ///< query heads
  KvHead,        ///< key/value heads
  HeadSize,      ///< features of one head; never sharded
  Ffn,           ///< inner width: of the MLP, of a block of convolutions
  Vocab,         ///< vocabulary entries
  Expert,        ///< expert index after dispatch
  ExpertChoice,  ///< expert index of router scores; never sharded
  Routed,        ///< tokens of one expert after dispatch
  ExpertFfn,     ///< inner width of one expert
  Latent,        ///< low-rank latent of MLA; never sharded
  Position,      ///< learned position, token type and similar tables
  Pixel,         ///< spatial positions of a convolution
  Channel,       ///< residual stream of convolutions
  Kernel,        ///< taps of a convolution
  Other,         ///< constants such as the pair of a gated MLP; never sharded
};

enum class DimId : std::uint32_t {};
enum class TensorId : std::uint32_t {};
enum class ParameterId : std::uint32_t {};

struct Dimension {
  std::string name;
  DimRole role = DimRole::Other;
  std::int64_t extent = 1;
  bool operator==(const Dimension&) const = default;
};

/// Kind of one element of a tensor; the precision policy of the plan turns it into bytes.
enum class ElementClass {
  Activation,  ///< matmul inputs and outputs, residual stream
  Statistic,   ///< fp32 row statistics (norm, softmax)
  Mask,        ///< one byte per element (dropout)
  Index,       ///< token and expert indices, 8 bytes
  Logit,       ///< router and vocabulary scores, fp32 where the framework keeps them so
};

struct Tensor {
  std::string name;
  std::vector<DimId> dims;
  ElementClass element = ElementClass::Activation;
  bool gradient = true;  ///< false: nothing in front of it is trained
  bool operator==(const Tensor&) const = default;
};

enum class Trainable { Yes, No };

/// Which rule of the optimizer and of sharding a parameter follows.
enum class ParameterClass { Matrix, Vector, Embedding };

struct Parameter {
  std::string name;
  std::vector<DimId> dims;
  ParameterClass kind = ParameterClass::Matrix;
  Trainable trainable = Trainable::Yes;
  /// Parameters with the same non-empty key are one tensor used in several places (tied
  /// embeddings): counted once, and their gradients are reduced across the places.
  std::string shared_key;
  bool operator==(const Parameter&) const = default;
};

/// The form in which a tensor is kept for backward.
enum class SavedAs {
  Itself,  ///< as it was produced; every operator that keeps it so shares the one tensor
  Single,  ///< an fp32 copy
  Like,    ///< intermediates of the operator that saves it, of the tensor's shape and format
};

struct Saved {
  TensorId tensor{};
  SavedAs as = SavedAs::Itself;
  int count = 1;  ///< tensors (several intermediates)

  Saved(TensorId id) : tensor(id) {}  // NOLINT(google-explicit-constructor): a list of tensors
  Saved(TensorId id, SavedAs form, int tensors = 1) : tensor(id), as(form), count(tensors) {}
  bool operator==(const Saved&) const = default;
};

/// One term of an index: a dimension of the loop nest, so many times.
struct IndexTerm {
  DimId dim{};
  std::int64_t factor = 1;
  bool operator==(const IndexTerm&) const = default;
};

/// The place that an operator reads along one dimension of a tensor, from the place in its loop
/// nest: (sum of terms + offset) / divisor, rounded down. A window is s*d + k - p, an upsampled
/// read (d + k - p)/2. Places outside the tensor are padding.
struct IndexExpression {
  std::vector<IndexTerm> terms;
  std::int64_t offset = 0;
  std::int64_t divisor = 1;
  bool operator==(const IndexExpression&) const = default;
  /// A dimension of the loop nest by itself.
  [[nodiscard]] bool plain() const {
    return terms.size() == 1 && terms.front().factor == 1 && offset == 0 && divisor == 1;
  }
};

struct Operator {
  std::string name;
  OperatorKind kind = OperatorKind::Elementwise;
  MemoryBound passes = MemoryBound::Plain;  ///< which implementations it has
  std::vector<DimId> loop;                  ///< every dimension of the loop nest
  std::vector<TensorId> inputs;             ///< activations read
  /// Reads by input and dimension. Inputs beyond its length, and empty ones, are read by the
  /// tensor's own dimensions, keys and values by the rule of their kind.
  std::vector<std::vector<IndexExpression>> reads{};
  std::vector<ParameterId> parameters;
  std::vector<TensorId> outputs;  ///< activations written
  /// Kept from forward to backward; each form of a tensor is listed once per block. Inputs
  /// of the attention core are listed at the operator that produces them, so that dropping the
  /// tensors listed at its operators is right as it stands.
  std::vector<Saved> saved;
  LayerModules modules;          ///< it is part of
  double flops_per_point = 0.0;  ///< forward FLOPs per point of the loop nest (2 for a matmul)
  double useful_fraction = 1.0;  ///< share of the nest that is really needed (causal: about 1/2)
  bool windowed = false;         ///< attention to a window of the keys
  std::int64_t groups = 1;       ///< of channels or inner features that a norm takes one by one
  double selected = 0.0;         ///< keys that a query attends to at most, chosen by it; 0: all
  /// A name of frameworks/operators/recurrences.yaml: kernels with a curve of their own.
  std::string kernel{};
  /// Runs over all tokens of a sequence: context ranks share its heads instead.
  bool whole_sequence = false;
  /// Elements that a slice of the tokens takes over from those before it, for each point of the
  /// loop nest without tokens; fp32.
  double carried = 0.0;
  double backward_flops_factor = 2.0;  ///< input + weight gradient FLOPs over forward FLOPs
  /// Consecutive operators with the same non-empty key run as one kernel (query, key and value
  /// projections): same kind and input, output widths add; all but the first launch nothing.
  std::string fused_key;
  int products = 1;         ///< matmuls in one launch: 2 for a gate and its value
  int forward_kernels = 1;  ///< launches
  int backward_kernels = 1;
  /// Extra element passes over memory beyond reading inputs and writing outputs once (forward,
  /// backward), in units of the operator's output elements. Element-wise kinds only.
  double extra_forward_passes = 0.0;
  double extra_backward_passes = 0.0;
  bool operator==(const Operator&) const = default;
};

/// A piece of network that is laid out, recomputed and repeated as a whole.
enum class BlockKind {
  Embedding,
  Encoder,
  Decoder,
  CrossDecoder,
  Layer,  ///< of other networks than transformers
  Head,
  Other
};

struct Block {
  std::string name;
  BlockKind kind = BlockKind::Decoder;
  std::vector<Tensor> tensors;        ///< indexed by TensorId
  std::vector<Parameter> parameters;  ///< indexed by ParameterId
  std::vector<Operator> operators;    ///< in a topological order
  /// Input i is the end of an edge, or output i of the previous copy; beyond its outputs it comes
  /// from outside (tokens, images).
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  bool operator==(const Block&) const = default;

  [[nodiscard]] const Tensor& tensor(TensorId id) const {
    return tensors[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const Parameter& parameter(ParameterId id) const {
    return parameters[static_cast<std::size_t>(id)];
  }
};

/// `count` consecutive copies of block `block`.
struct BlockRun {
  std::size_t block = 0;
  std::int64_t count = 1;
  bool operator==(const BlockRun&) const = default;
};

/// A tensor that is read elsewhere than by the next copy in its own order, or that several copies
/// read. It is one tensor wherever it is read: one buffer on a device, one message to each group of
/// devices, one gradient. Positions count the copies of all blocks in the order of the network.
struct Edge {
  std::int64_t from = 0;     ///< position of the producer
  std::size_t output = 0;    ///< of the block there
  std::int64_t to = 0;       ///< position of the first reader, behind the producer
  std::int64_t readers = 1;  ///< consecutive copies, from `to` on
  std::size_t input = 0;     ///< of their blocks
  bool operator==(const Edge&) const = default;
};

/// How tokens go to experts. The extent of Routed holds the balanced load (times the capacity
/// factor when tokens are dropped); the imbalance is a factor on the slowest device.
struct Routing {
  std::int64_t experts = 1;
  std::int64_t top_k = 1;
  std::optional<double> capacity_factor;  ///< absent: no token is dropped, nothing is padded
  double imbalance = 1.0;  ///< where it is given: tokens of the busiest expert group over the mean
  /// Group-limited routing: experts lie in so many groups, and a token chooses among those of its
  /// best `top_groups`, ranked by the sum of their best top_k / top_groups scores.
  std::int64_t groups = 1;
  std::int64_t top_groups = 1;
  /// Otherwise tokens are drawn: deviation over mean of what experts draw. Absent: all alike.
  std::optional<double> spread{};
  std::optional<double> most{};  ///< over the mean, that an expert takes: tokens beyond are dropped
  bool operator==(const Routing&) const = default;
};

/// A network for one micro-batch of one sequence per step of the Batch dimension. Extents of Batch
/// and Sequence are those of one sequence (Batch = 1); plans scale Batch by the micro-batch.
struct Network {
  std::string name;
  std::vector<Dimension> dimensions;  ///< indexed by DimId, shared by all blocks
  std::vector<Block> blocks;          ///< each distinct block once
  std::vector<BlockRun> order;        ///< the network as runs of blocks, first to last
  std::vector<Edge> edges;            ///< in addition to the chain
  std::optional<Routing> routing;     ///< of its mixture-of-experts blocks, if any
  /// Times a micro-batch passes it in one step (recycling); the last pass alone is differentiated.
  int forwards = 1;
  /// The earlier passes are of a frozen reference, on pairs of sequences (preferences).
  bool reference = false;

  [[nodiscard]] const Dimension& dimension(DimId id) const {
    return dimensions[static_cast<std::size_t>(id)];
  }
  bool operator==(const Network&) const = default;
};

/// Number of elements of dims, all extents full.
[[nodiscard]] double element_count(const Network& network, const std::vector<DimId>& dims);
/// Exact number of parameters; shared parameters count once.
[[nodiscard]] std::int64_t parameter_count(const Network& network);
/// Parameters of one copy of a block, shared ones included.
[[nodiscard]] double block_parameter_count(const Network& network, const Block& block);
/// Forward FLOPs of one operator over the whole loop nest, useful or not.
[[nodiscard]] Flops operator_forward_flops(const Network& network, const Operator& op);
/// The useful share of operators that count as model FLOPs (causal attention: half); zero for
/// others.
[[nodiscard]] Flops useful_forward_flops(const Network& network, const Operator& op);
/// FLOPs of one forward pass over one sequence: matmuls, attention (useful part) and logits.
[[nodiscard]] Flops model_forward_flops(const Network& network);
/// FLOPs of all forwards and backward over one sequence, nothing run again: a matrix product costs
/// as much again for the gradient of its input and for that of its weight, where they are needed.
[[nodiscard]] Flops model_training_flops(const Network& network);
/// Whether a tensor of this class can have a gradient (and is redistributed at all).
[[nodiscard]] bool differentiable(const Tensor& tensor);
/// Whether backward forms a gradient of what the operator reads.
[[nodiscard]] bool needs_input_gradient(const Block& block, const Operator& op);
/// Whether its first parameter, the weight of a product, is trained.
[[nodiscard]] bool trains_weight(const Block& block, const Operator& op);
/// The last block that has results. In a network that a micro-batch passes several times, the next
/// forward pass begins with them.
[[nodiscard]] std::optional<std::size_t> returning_block(const Network& network);
/// The modules that its operators are part of.
[[nodiscard]] LayerModules modules_of(const Network& network);
/// Copies of blocks in the order of the network.
[[nodiscard]] std::int64_t copy_count(const Network& network);
/// The number of layers: runs of blocks that are neither embedding nor head nor other.
[[nodiscard]] std::int64_t layer_count(const Network& network);

}  // namespace plansearch
