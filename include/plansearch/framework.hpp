// SPDX-License-Identifier: Apache-2.0
// Behaviour of a training framework: data, read from frameworks/*.yaml, never code.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/axis.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/dispatcher.hpp"
#include "plansearch/framework_constants.hpp"
#include "plansearch/implementation.hpp"
#include "plansearch/layer_module.hpp"
#include "plansearch/named_kernels.hpp"
#include "plansearch/operator_passes.hpp"
#include "plansearch/provenance.hpp"

namespace plansearch {

/// How often something happens.
enum class Scope : std::uint8_t {
  Use,         ///< every time the operator runs
  MicroBatch,  ///< once per micro-batch
  Step,        ///< once per optimizer step
};

/// Which feature or combination a framework refuses, with its own words.
struct FrameworkRule {
  std::string name;  ///< key of the closed rule vocabulary, see docs/frameworks.md
  double limit = 0.0;
  std::string message;
  bool operator==(const FrameworkRule&) const = default;
};

/// Who updates a matrix of which data-parallel ranks keep states.
enum class UpdateShards : std::uint8_t {
  Replicated,  ///< every rank that holds it
  Whole,       ///< one rank: shards of optimizer states are whole matrices
  Cut,         ///< one rank, to which the pieces of a matrix travel, and back
};

/// The same of a matrix that tensor-parallel ranks hold in slices.
enum class UpdateSlices : std::uint8_t {
  Apart,     ///< each rank its slice, as if it were a matrix
  Gathered,  ///< each rank all of it, gathered before
  Summed,    ///< each rank its slice, products over the cut side summed in every iteration
  Dealt,     ///< one rank, to which the slices travel, and back
};

/// How matrices go to the ranks that update them.
enum class UpdateDeal : std::uint8_t {
  Balanced,  ///< the longest first, each to the rank with least to do
  ByKind,    ///< of every weight of a layer, the same number of layers to each rank
};

/// The matrix that the iteration of Newton and Schulz multiplies.
enum class UpdateIteration : std::uint8_t {
  Direct,  ///< the matrix itself
  Gram,    ///< its Gram matrix, unless it is square
};

/// How a framework runs an optimizer whose update needs whole matrices (Muon).
struct MatrixUpdates {
  UpdateShards shards = UpdateShards::Replicated;
  UpdateSlices slices = UpdateSlices::Apart;
  UpdateDeal deal = UpdateDeal::Balanced;
  UpdateIteration iteration = UpdateIteration::Direct;
  int iterations = 5;
  bool joined_gate = false;            ///< gate and up projection are one matrix
  std::vector<FrameworkRule> rules{};  ///< that hold besides
  bool operator==(const MatrixUpdates&) const = default;
};

/// Bytes per element of everything that is kept; absent: not kept.
struct PrecisionPolicy {
  DataType matmul = DataType::Bf16;
  DataType activation = DataType::Bf16;
  DataType parameter = DataType::Bf16;
  std::optional<DataType> frozen{};  ///< weights that are not trained; else as parameter
  /// Format of the frozen weights in products of layers, without vocabulary and router; absent: as
  /// frozen. Products read them in their own format: smaller ones are expanded before each.
  std::optional<DataType> quantised{};
  std::optional<DataType> gradient = DataType::Bf16;  ///< kept with the main gradient
  std::optional<DataType> main_gradient;              ///< accumulation buffer
  std::optional<DataType> master;                     ///< master copy of the parameters
  DataType moment = DataType::Fp32;                   ///< each optimizer moment
  DataType reduction = DataType::Bf16;                ///< on the wire
  DataType gather = DataType::Bf16;                   ///< parameters on the wire
  std::optional<DataType> dispatch{};  ///< tokens on the wire to their experts; else activation
  /// Format of saved tensors that only products and activation functions read again; absent:
  /// activation.
  std::optional<DataType> saved{};
  /// Format in which products of layers keep their inputs for weight gradients; absent: activation.
  /// A tensor that something else reads again is kept twice.
  std::optional<DataType> kept_inputs{};
  bool operator==(const PrecisionPolicy&) const = default;
};

/// When kernels wait for a message that a pass has posted.
enum class MessageWait : std::uint8_t {
  AtOnce,  ///< before the next kernel
  Use,     ///< before the kernel that reads what it brings; a gradient: at the end of the pass
};

/// How a framework hides one kind of communication.
struct OverlapRule {
  /// Share of a message that kernels hide, 0 to 1, where its order of issue is not described.
  double share = 0.0;
  MessageWait wait = MessageWait::AtOnce;  ///< inside a pass
  /// Tiles that travel between the steps of an operator; absent: as `wait`.
  std::optional<MessageWait> steps;
  /// Parameters under MessageWait::Use: how many gathers before its own use one is posted.
  int ahead = 1;
  /// Where an order joins the forward of one micro-batch and the backward of another, the kernels
  /// of the one run while messages of the other are on their way.
  bool joined = false;
  /// The share holds for dispatchers that a plan names as well, not for the framework's own alone.
  bool any_dispatcher = false;

  [[nodiscard]] MessageWait wait_of_steps() const { return steps.value_or(wait); }
  [[nodiscard]] bool hides() const {
    return share > 0.0 || wait == MessageWait::Use || wait_of_steps() == MessageWait::Use;
  }
  bool operator==(const OverlapRule&) const = default;
};

/// The operators that selective recompute runs again.
enum class SelectiveRule : std::uint8_t {
  UnfusedAttention,  ///< scores and softmax (Korthikanti et al.); a fused kernel runs once
  AttentionCore,     ///< the same, or the fused kernel
  AlternateMatmuls,  ///< all but fused attention and every other matmul, whose results and those of
                     ///< exchanges are kept (PyTorch's operator policy)
  AllButMatmuls,     ///< all but the products with weights (MaxText's "minimal")
  AllButAttention,   ///< all but fused attention (InternEvo)
  Modules,           ///< parts of a layer, by name
};

struct SelectiveRecompute {
  SelectiveRule rule;
  LayerModules modules;  ///< of SelectiveRule::Modules

  // NOLINTNEXTLINE(google-explicit-constructor): most rules are all there is to say
  SelectiveRecompute(SelectiveRule which = SelectiveRule::UnfusedAttention, LayerModules named = {})
      : rule(which), modules(named) {}
  bool operator==(const SelectiveRecompute&) const = default;
};

/// How layers go to stages when the counts do not divide, or always.
enum class LayerDistribution : std::uint8_t {
  EvenOnly,               ///< refuse what does not divide
  EvenCeil,               ///< earlier stages get the extra layers
  EvenInner,              ///< stages without embedding and head get the extra layers first
  EmbeddingAndHeadCount,  ///< embedding and head are blocks with a cost of their own
};

/// Which stages users can give a number of layers of their own.
enum class OwnLayers : std::uint8_t {
  None,
  Ends,   ///< the first and the last; the others share what is left evenly
  Every,  ///< with degrees of its own, too
};

/// Which layers of a chunk full recomputation can be limited to.
enum class PartialRecompute : std::uint8_t {
  None,
  FirstLayers,  ///< so many from the front
};

/// Whether linear operators may run in steps: their operands travelling over a square of devices,
/// or rows over a ring.
enum class OperatorSteps : std::uint8_t { None, Squares, Rings, All };
[[nodiscard]] constexpr bool runs_steps(OperatorSteps has, OperatorSteps steps) {
  return has == steps || has == OperatorSteps::All;
}

/// How many micro-batches pass a model chunk in a row, in schedules that interleave chunks.
enum class MicroBatchGroups : std::uint8_t {
  Stages,  ///< as many as there are stages
  Rounds,  ///< as few rounds as hold at least that many each, all alike
};

/// How the runtime lists the sends and receives of a pipeline.
enum class PipelineLists : std::uint8_t {
  Ahead,       ///< sent when produced; hidden as far as `overlap` says
  JustInTime,  ///< one list per device, run in order: sent when the consumer is about to run, both
               ///< ends wait; gradients are reduced inside the last backward
};

/// The parameters that are gathered and reduced as one message.
enum class ParameterUnit : std::uint8_t {
  Parameter,
  Launch,  ///< the weights of one kernel: query, key and value run as one product
  Block,
};

/// Which parameters the depth axis cuts; it holds copies of the others.
enum class DepthParameters : std::uint8_t {
  All,
  Products,  ///< matrices of matrix products inside layers: no biases, norms and vocabulary
};

/// Whether recomputing a block in backward gathers its parameters once more, or the gather of the
/// backward pass serves both.
enum class RecomputeGather : std::uint8_t { Shared, Repeated };

/// How ranks that have updated a part of the parameters each bring them together.
enum class StepGather : std::uint8_t {
  Together,  ///< one all-gather
  ByOwner,   ///< every owner broadcasts its parts, one after the other
};

/// How the framework treats sharded parameters and gradients (see docs/frameworks.md).
struct ShardingRules {
  Scope parameter_gather = Scope::Use;            ///< ZeRO-3 and FSDP
  Scope parameter_gather_pipelined = Scope::Use;  ///< the same with more than one stage
  Scope depth_gather = Scope::Use;                ///< AxoNN's z axis
  Scope depth_reduce = Scope::MicroBatch;
  DepthParameters depth_parameters = DepthParameters::All;
  /// The moment at which gradients of data-parallel replicas are summed, by ZeRO stage.
  std::array<Scope, 4> gradient_reduce{Scope::Step, Scope::Step, Scope::MicroBatch,
                                       Scope::MicroBatch};
  std::optional<Scope> gradient_reduce_pipelined;  ///< of every stage; absent: as above
  AxisSet shard_with{Axis::Context};               ///< axes that shard together with Data
  ParameterUnit unit = ParameterUnit::Block;
  RecomputeGather recompute_gather = RecomputeGather::Shared;
  StepGather step_gather = StepGather::Together;
  bool shards_in_fp32 = false;  ///< trained weights, gradients and moments under ZeRO-2 and 3
  bool operator==(const ShardingRules&) const = default;
};

/// When the optimizer of a device starts.
enum class OptimizerStart : std::uint8_t {
  Together,   ///< after the slowest reduction: clipping needs the norm of all gradients
  PerDevice,  ///< when its own gradients are reduced
  /// As PerDevice, and the device goes on with the next step: the norm is checked there, and the
  /// update taken back if need be. Only under orders that split the backward pass.
  PostValidated,
};

/// When gradients leave for optimizer states in host memory.
enum class GradientsToHost : std::uint8_t {
  AtStep,     ///< kept on the device until all are reduced
  AsReduced,  ///< under the backward pass, into a sum there; shards of ZeRO leave no gradient
              ///< behind
};

/// How a framework keeps and updates optimizer states in host memory.
struct OptimizerOffload {
  GradientsToHost gradients = GradientsToHost::AtStep;
  bool sums_in_fp32 = true;  ///< gradients there; else in the format that the device has
  double extra_bytes = 0.0;  ///< per parameter that the CPU moves in addition to the update
  bool operator==(const OptimizerOffload&) const = default;
};

/// How inputs of fp8 products are scaled.
enum class Fp8Recipe : std::uint8_t {
  Tensorwise,  ///< by the maximum of the tensor at hand, read once more for it
  Rowwise,     ///< the same by row
  Delayed,     ///< by maxima of earlier steps
  Block,       ///< one scale per 128 elements
  Mxfp8,       ///< one scale per 32 elements
};

/// A part of the framework that users know by its own name, such as one with its own code path.
struct FrameworkFeature {
  std::string name;       ///< "Megatron-FSDP"
  std::string plans;      ///< that have it, in the words of tables: "zero 2, 3"
  FrameworkRule without;  ///< plans that it would forbid have the feature
  bool operator==(const FrameworkFeature&) const = default;
};

struct Framework {
  std::string name;
  std::vector<std::string> aliases;
  std::string space{};           ///< searched where none is asked for; empty: what it runs
  bool has_program = true;       ///< there is one that runs its plans
  std::vector<Axis> rank_order;  ///< dense grid, fastest axis first
  std::map<DataType, PrecisionPolicy> precision;  ///< by the precision the user asks for
  std::array<OverlapRule, kOverlapCount> overlap{};
  LayerDistribution layers = LayerDistribution::EvenOnly;
  OwnLayers own_layers = OwnLayers::None;
  std::vector<std::string> schedules{"gpipe", "1f1b", "interleaved"};  ///< that it runs
  /// Orders of its own that join the forward of one micro-batch and the backward of another, for
  /// networks with experts.
  std::vector<std::string> paired_schedules{};
  std::vector<TokenDispatcher> dispatchers{TokenDispatcher{}};  ///< that it can use
  TokenDispatcher dispatcher{};                                 ///< that it uses
  std::vector<RoutingKind> routings{RoutingKind{}};  ///< that are known, the default first
  std::optional<RoutingKind> routing{};              ///< the user's choice
  bool drops_tokens = false;                         ///< experts may have a capacity
  MicroBatchGroups micro_batch_groups = MicroBatchGroups::Stages;
  PipelineLists pipeline_lists = PipelineLists::Ahead;
  SkipRoute skips = SkipRoute::Direct;
  SelectiveRecompute selective;
  LayerModules recompute_modules;  ///< that its users can name
  PartialRecompute partial_recompute = PartialRecompute::None;
  OperatorSteps operator_steps = OperatorSteps::None;
  bool runs_pieces = false;  ///< operators one piece of a device's share after the other
  /// Blocks may lie on the devices of several stages together, and devices run them in turn with
  /// the layers of their stage.
  bool shares_devices = false;
  /// Micro-batches that a device may keep under orders made for the case; absent: as many as there
  /// are stages.
  std::optional<int> memory_cap;
  ShardingRules sharding;
  Implementation implementation;
  OperatorTable operators;
  std::optional<Fp8Recipe> fp8_recipe;  ///< absent: by the tensor
  OptimizerStart optimizer_start = OptimizerStart::Together;
  std::optional<OptimizerOffload> optimizer_offload;  ///< absent: it keeps states on the device
  HostTensors offloads{};                             ///< that it can keep there besides
  bool offloads_between_kernels = false;              ///< kernels wait for copies of activations
  std::optional<MatrixUpdates> matrix_updates;        ///< absent: it has no Muon
  bool has_optimizer_in_backward = false;             ///< it can update in backward
  bool has_paged_states = false;                      ///< and optimizers whose states page
  bool trains_on_pairs = false;                       ///< has a trainer for preferences (DPO)
  /// Asked for: a parameter is updated as soon as its gradient is whole, which is then freed.
  bool optimizer_in_backward = false;
  /// Asked for: matrices of layers are updated as `matrix_updates` says (Muon), the rest by AdamW.
  bool updates_matrices = false;
  /// Asked for: optimizer states for which a device has no room leave for the host after an update
  /// and come back for the next.
  bool paged_states = false;
  /// Weight gradients may run after the pass that they belong to, under orders of its own that join
  /// forwards and backwards.
  bool can_delay_weight_gradients = false;
  bool delays_weight_gradients = false;  ///< asked for
  /// Fused attention it calls, a name of KernelCurves::attention; absent or unknown to the
  /// accelerator: the accelerator's first.
  std::optional<std::string> attention_kernel;
  std::vector<NamedKernel> named_kernels;  ///< of recurrences and their convolutions
  std::vector<std::string> libraries;      ///< of these, preferred to the first of each name
  int vocab_multiple = 1;                  ///< padded to a multiple of this times tp; 0: not padded
  std::vector<FrameworkRule> rules;
  std::vector<FrameworkFeature> features{};
  std::map<std::string, int> natural_degrees;  ///< by key: default values
  /// Default micro-batch: one sequence, gradients accumulate over several; false: a replica's share
  /// of the batch is one micro-batch a stage.
  bool accumulates = true;
  std::map<std::string, int> fixed_degrees;  ///< by key: values it has whatever a log says
  FrameworkConstants constants;
  std::map<std::string, Provenance> provenance;  ///< by field path, e.g. "constants.host_launch"
  std::string validation;    ///< the measured steps it was compared with; empty: none
  std::string release_of{};  ///< the framework whose program runs its plans; empty: it is its own
  std::uint64_t content_hash = 0;  ///< of every file it was read from
};

/// The dispatcher of that number, or the framework's own.
[[nodiscard]] inline const TokenDispatcher& dispatcher_of(const Framework& framework,
                                                          DispatcherId id) {
  for (const TokenDispatcher& one : framework.dispatchers) {
    if (one.id == id) return one;
  }
  return framework.dispatcher;
}

/// Dispatchers that a search tries: the framework's own, and those that send a token once to each
/// node. An all-to-all is usually its own; gathered tokens take longer on the wire unless few
/// devices share experts.
[[nodiscard]] inline std::vector<DispatcherId> tried_dispatchers(const Framework& framework) {
  std::vector<DispatcherId> tried{kOwnDispatcher};
  for (const TokenDispatcher& one : framework.dispatchers) {
    const bool is_own = one.id == framework.dispatcher.id;
    if (one.path == TokenPath::Nodes && !is_own) tried.push_back(one.id);
  }
  return tried;
}

/// Derives the tensors kept for backward from the chosen implementations.
void take_kept_tensors(Framework& framework);

[[nodiscard]] std::string_view to_text(LayerDistribution value);
[[nodiscard]] std::string_view to_text(OptimizerStart value);

}  // namespace plansearch
