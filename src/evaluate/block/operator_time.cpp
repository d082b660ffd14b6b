// SPDX-License-Identifier: Apache-2.0
// Computes: forward and backward kernel time of every operator of a block on one device.
// Source: backward of C = A B is dA = dC B^T and dB = A^T dC, each a matmul of its own shape.
// Assumes: memory-bound operators pass over their tensors as counted for their implementation;
//          scores of words and experts, and adapters, stay in the activation format; padding by a
//          compiler costs nothing; a convolution is the product of its patches, which are read as if they were
//          written out; the weight gradient is added into the accumulation buffer; an operator in
//          steps runs one kernel of a step's shape after the other. Depthwise convolutions: one
//          kernel forward, one for each gradient, as pytorch/pytorch@00410ca9
//          aten/src/ATen/native/cuda/DepthwiseConv2d.cu; taps of one place come out of the cache.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/operator_time_test.cpp
#include "evaluate/block/operator_time.hpp"

#include <algorithm>
#include <cmath>

#include "communication/derive/tensor_policy.hpp"
#include "cost/kernels/chunk_cost.hpp"
#include "cost/kernels/compute_cost.hpp"
#include "cost/kernels/kernel_shape.hpp"
#include "evaluate/block/price_memo.hpp"
#include "plansearch/error.hpp"
#include "workload/network_edges.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

constexpr double kSingle = 4.0;  // bytes of an fp32 element

/// Whether operands still have to be changed to the format of the product.
enum class Operands : std::uint8_t { AsProduced, InFormat };

struct AttentionCurves {
  const AttentionCurve* forward = nullptr;
  const AttentionCurve* backward = nullptr;
};

/// The framework, as settled, decides which fused kernel runs, else the cluster's software, else
/// the chip.
AttentionCurves attention_curves(const Problem& problem) {
  const KernelCurves& kernels = problem.cluster->accelerator.kernels;
  for (const auto& name :
       {problem.framework->attention_kernel, problem.cluster->software.attention_kernel}) {
    const AttentionKernel* kernel = name ? kernels.find_attention(*name) : nullptr;
    if (kernel != nullptr && kernel->backward) return {&kernel->forward, &*kernel->backward};
  }
  PLANSEARCH_CHECK(kernels.attention_forward && kernels.attention_backward);
  return {&*kernels.attention_forward, &*kernels.attention_backward};
}

/// Kernels whose times are worth keeping.
enum class Kernel : std::uint8_t { Matmul, WeightGradient, AttentionForward, AttentionBackward };

PriceMemo<Seconds>& kernel_memo() {
  thread_local PriceMemo<Seconds> memo;
  return memo;
}

/// One per thread: operators fill in the dimensions of their own loops.
std::vector<double>& extents_buffer(std::size_t dimensions) {
  thread_local std::vector<double> extents;
  extents.assign(dimensions, 1.0);
  return extents;
}

class OperatorPricer {
 public:
  /// `sizes`: of a kernel; `held`: of what a device has for all kernels of an operator.
  OperatorPricer(const PricingContext& context, const Block& block, const LocalSizes& sizes,
                 const LocalSizes& held)
      : context_(context),
        block_(block),
        sizes_(sizes),
        held_(held),
        extents_(extents_buffer(context.problem.network->dimensions.size())) {}

  OperatorTime price(std::size_t index) {
    const Operator& op = block_.operators[index];
    OperatorTime time = kernels(index, op);
    time.forward_kernels = op.forward_kernels;
    time.backward_kernels = op.backward_kernels;
    add_expansion(time, index, op);
    // Attention prices its own steps; what it launches is one kernel to its framework, or one for
    // each piece.
    const bool one_kernel = traits(op).cost == CostClass::FusedAttention;
    const int steps = one_kernel ? sizes_.steps(index) / held_.steps(index) : sizes_.steps(index);
    repeat(time, steps);
    const bool input = needs_input_gradient(block_, op);
    if (!input && !trains(op)) {
      time.backward = Seconds(0);
      time.backward_kernels = 0;
      return time;
    }
    // One of the two products of a linear operator; an operator that forms no weight gradient of
    // its own has none.
    if (time.weight_gradient > Seconds(0)) {
      time.weight_kernels = (input ? op.backward_kernels / 2 : op.backward_kernels) * steps;
    }
    return time;
  }

 private:
  [[nodiscard]] const Accelerator& chip() const { return context_.problem.cluster->accelerator; }
  [[nodiscard]] const Network& network() const { return *context_.problem.network; }

  /// Every step is a kernel of its own.
  static void repeat(OperatorTime& time, int steps) {
    time.forward *= steps;
    time.backward *= steps;
    time.weight_gradient *= steps;
    time.forward_kernels *= steps;
    time.backward_kernels *= steps;
  }

  OperatorTime kernels(std::size_t index, const Operator& op) {
    switch (traits(op).cost) {
      case CostClass::Product:
        return linear(index, op);
      case CostClass::GroupedProduct:
        return grouped(index, op);
      case CostClass::ActivationProduct:
        return product(index, op);
      case CostClass::FusedAttention:
        return attention(index, op);
      case CostClass::Loss:
        return loss(index, op);
      case CostClass::Scores:
        return scores(index, op);
      case CostClass::Recurrence:
      case CostClass::Stream:
      case CostClass::LookUp:
        return streaming(index, op);
    }
    throw InternalError("unknown cost class");
  }

  LocalExtents load(std::size_t index, const Operator& op) {
    for (std::size_t position = 0; position < op.loop.size(); ++position) {
      extents_[static_cast<std::size_t>(op.loop[position])] = sizes_.loop(index, position);
    }
    return extents_;
  }

  /// Products of activations. tf32 is how the matrix engine multiplies fp32: a switch of all
  /// products.
  [[nodiscard]] DataType activation_type() const {
    const bool tf32 = context_.precision.matmul == DataType::Tf32;
    return tf32 ? DataType::Tf32 : context_.precision.activation;
  }

  [[nodiscard]] DataType matmul_type(const Operator& op) const {
    return multiplies_wide(network(), block_, op) ? activation_type() : context_.precision.matmul;
  }

  /// Adding the result into the accumulation buffer.
  [[nodiscard]] Seconds accumulation(const MatmulShape& shape) const {
    const Bytes extra(context_.constants.accumulation_bytes * shape.batch * shape.k * shape.n);
    return extra / (chip().memory_bandwidth * chip().kernels.stream.efficiency);
  }

  /// Every step but the first reads the sum that the one before has written; averaged over steps.
  [[nodiscard]] Seconds sum_up(int steps, double elements) const {
    if (steps == 1) return Seconds(0);
    const Bytes read =
        element_size(context_.precision.activation) * (elements * (steps - 1) / steps);
    return read / (chip().memory_bandwidth * chip().kernels.stream.efficiency);
  }

  /// A product of the matrix engine, its fp8 inputs scaled as the framework does.
  [[nodiscard]] Seconds product_time(DataType type, const MatmulShape& shape, Operands operands,
                                     Rows rows) const {
    const MatmulKernel usual = matmul_kernel(chip(), type);
    MatmulCurve curve = usual.curve;
    Bytes element = usual.element;
    const auto recipe = context_.problem.framework->fp8_recipe;
    if (type == DataType::Fp8 && recipe == Fp8Recipe::Block && chip().kernels.matmul_fp8_block) {
      curve = *chip().kernels.matmul_fp8_block;
      element = scaled_size(DataType::Fp8);
    } else if (type == DataType::Fp8) {
      const Scaling scaling = scaling_of(recipe);
      curve.quantise_bytes = std::max(0.0, curve.quantise_bytes + scaling.bytes);
      if (scaling.by_row) curve.flop_efficiency *= curve.row_scaled;
    }
    if (operands == Operands::InFormat) curve.quantise_bytes = 0.0;
    return matmul_time(chip(), {curve, usual.peak, element}, shape, Clock::Sustained, rows);
  }

  /// Both operands have been changed to the input format before, in forward and for the input
  /// gradient.
  [[nodiscard]] Seconds weight_gradient(DataType type, const MatmulShape& shape) const {
    const MatmulShape own{shape.batch, shape.k, shape.n, shape.m};
    const Rows aligned = rows(type, shape);
    return kernel_memo().get(key(Kernel::WeightGradient, type, own, aligned), [&] {
      return product_time(type, own, Operands::InFormat, aligned);
    }) + accumulation(shape);
  }

  [[nodiscard]] Seconds matmul(DataType type, const MatmulShape& shape, Rows aligned) const {
    return kernel_memo().get(key(Kernel::Matmul, type, shape, aligned), [&] {
      return product_time(type, shape, Operands::AsProduced, aligned);
    });
  }

  [[nodiscard]] Seconds fused_attention(const AttentionCurve& curve, DataType type,
                                        const AttentionShape& s, Pass pass) const {
    PriceKey shape =
        key(pass == Pass::Forward ? Kernel::AttentionForward : Kernel::AttentionBackward, type, {});
    shape.numbers = {s.batch, s.heads,    s.kv_heads,   s.queries,
                     s.keys,  s.key_size, s.value_size, s.useful_fraction};
    return kernel_memo().get(shape, [&] { return attention_time(chip(), curve, type, s, pass); });
  }

  [[nodiscard]] PriceKey key(Kernel kernel, DataType type, const MatmulShape& shape,
                             Rows rows = Rows::Aligned) const {
    return {context_.id,
            static_cast<std::uint64_t>(rows) << 16U | static_cast<std::uint64_t>(kernel) << 8U |
                static_cast<std::uint64_t>(type),
            {shape.batch, shape.m, shape.n, shape.k}};
  }

  /// The passes of an operator, whichever product they belong to.
  [[nodiscard]] Rows rows(DataType type, const MatmulShape& shape) const {
    return context_.constants.pads_products ? Rows::Aligned : rows_of(type, shape);
  }

  /// Several matmuls of one launch share their input; their output widths add.
  bool absorb_fused(std::size_t index, const Operator& op, MatmulShape& shape) {
    if (op.fused_key.empty()) return true;
    if (index > 0 && block_.operators[index - 1].fused_key == op.fused_key) return false;
    for (std::size_t next = index + 1; next < block_.operators.size(); ++next) {
      const Operator& other = block_.operators[next];
      if (other.fused_key != op.fused_key) break;
      shape.n += matmul_shape(network(), block_, other, load(next, other)).n;
    }
    return true;
  }

  [[nodiscard]] bool trains(const Operator& op) const {
    return std::any_of(op.parameters.begin(), op.parameters.end(), [&](ParameterId id) {
      return block_.parameter(id).trainable == Trainable::Yes;
    });
  }

  /// Input and weight gradient of a product, where they are needed.
  void add_gradients(OperatorTime& time, const Operator& op, DataType type,
                     const MatmulShape& shape) const {
    if (needs_input_gradient(block_, op)) {
      time.backward = matmul(type, {shape.batch, shape.m, shape.k, shape.n}, rows(type, shape));
    }
    if (trains_weight(block_, op)) time.weight_gradient = weight_gradient(type, shape);
    time.backward += time.weight_gradient;
  }

  /// Weights kept in a smaller format than the product's are expanded before every product that
  /// reads them, whichever launch it is part of.
  void add_expansion(OperatorTime& time, std::size_t index, const Operator& op) const {
    const auto& kept = context_.precision.quantised;
    if (!kept || *kept == matmul_type(op) || op.parameters.empty()) return;
    const ParameterId weight = op.parameters.front();
    if (!is_quantisable(network(), block_, op, weight)) return;
    const WeightExpansion expansion = weight_expansion(*kept, context_.precision.activation);
    const Seconds once = expansion.moved * sizes_.parameter(index, weight) /
                         (chip().memory_bandwidth * chip().kernels.stream.efficiency);
    time.forward += once;
    time.forward_kernels += expansion.calls;
    if (expansion.kept_for_backward || !needs_input_gradient(block_, op)) return;
    time.backward += once;
    time.backward_kernels += expansion.calls;
  }

  OperatorTime linear(std::size_t index, const Operator& op) {
    MatmulShape shape = matmul_shape(network(), block_, op, load(index, op));
    const double own_results = shape.m * shape.n * shape.batch;  // of one step
    if (!absorb_fused(index, op, shape)) return {};
    const DataType type = matmul_type(op);
    const int steps = sizes_.steps(index);
    OperatorTime time;
    // A result of which a device holds more than a step makes is not a sum of steps.
    constexpr double kSame = 1.0 + 1e-9;
    const auto sums = [&](TensorId id, double of_step) {
      return held_.tensor(index, id) <= kSame * of_step;
    };
    time.forward = matmul(type, shape, rows(type, shape));
    if (sums(op.outputs.front(), own_results)) {
      time.forward += sum_up(steps, shape.m * shape.n * shape.batch);
    }
    add_gradients(time, op, type, shape);
    const double inputs = shape.m * shape.k * shape.batch;
    if (needs_input_gradient(block_, op) && sums(op.inputs.front(), inputs)) {
      time.backward += sum_up(steps, inputs);
    }
    return time;
  }

  /// A product of an expert. Where tokens are drawn its rows differ from one micro-batch to the
  /// next, so that what the last tile lacks is averaged: between the multiples around them.
  [[nodiscard]] Seconds expert_product(DataType type, const MatmulShape& shape) const {
    constexpr double kTile = 256.0;  // the most rows of one
    const bool drawn = network().routing && network().routing->spread;
    const double below = std::floor(shape.m / kTile) * kTile;
    if (!drawn || below == 0.0 || below == shape.m) return matmul(type, shape, rows(type, shape));
    MatmulShape whole = shape;
    whole.m = below;
    const Seconds less = matmul(type, whole, rows(type, whole));
    whole.m = below + kTile;
    const Seconds more = matmul(type, whole, rows(type, whole));
    return less + (more - less) * ((shape.m - below) / kTile);
  }

  OperatorTime grouped(std::size_t index, const Operator& op) {
    MatmulShape shape = matmul_shape(network(), block_, op, load(index, op));
    shape.m *= op.useful_fraction;
    // Rows that no token fills are not multiplied: where capacity pads, loads show here.
    const auto& routing = network().routing;
    if (routing && routing->capacity_factor) shape.m *= routing->imbalance;
    const DataType type = context_.precision.matmul;
    const double slow = 1.0 / context_.constants.grouped_efficiency;
    const Seconds launch = context_.constants.expert_launch * shape.batch;
    OperatorTime time;
    time.forward = expert_product(type, shape) * slow + launch;
    if (needs_input_gradient(block_, op)) {
      time.backward =
          expert_product(type, {shape.batch, shape.m, shape.k, shape.n}) * slow + launch;
    }
    if (trains_weight(block_, op)) {
      time.weight_gradient = weight_gradient(type, shape) * slow + launch;
    }
    time.backward += time.weight_gradient;
    return time;
  }

  OperatorTime product(std::size_t index, const Operator& op) {
    const MatmulShape s = matmul_shape(network(), block_, op, load(index, op));
    const DataType type = activation_type();
    const Rows rows = rows_of(type, s);
    OperatorTime time;
    time.forward = matmul(type, s, rows);
    time.backward =
        matmul(type, {s.batch, s.m, s.k, s.n}, rows) + matmul(type, {s.batch, s.k, s.n, s.m}, rows);
    return time;
  }

  OperatorTime attention(std::size_t index, const Operator& op) {
    AttentionShape shape = attention_shape(network(), op, load(index, op));
    const double keys = sizes_.tensor(index, op.inputs[1]);
    shape.kv_heads = keys / (shape.batch * shape.keys * shape.key_size);
    const double steps = held_.steps(index);
    const DataType type = context_.precision.activation;
    // Learned sinks enter as parameters of the operator.
    const double sinks = op.parameters.empty() ? 1.0 : context_.constants.sink_attention_factor;
    const double slow = steps * sinks * gathering(*context_.problem.framework, op) *
                        context_.constants.attention_factor;
    const AttentionCurves curves = attention_curves(context_.problem);
    OperatorTime time;
    time.forward = slow * fused_attention(*curves.forward, type, shape, Pass::Forward);
    time.backward = slow * fused_attention(*curves.backward, type, shape, Pass::Backward);
    if (const auto& passes = passes_of(op)) {
      double elements = sizes_.tensor(index, op.outputs.front());
      for (std::size_t i = 0; i < 3; ++i) elements += sizes_.tensor(index, op.inputs[i]);
      time.forward += pass_time(passes->forward, elements, 0);
      time.backward += pass_time(passes->backward, elements, 0);
    }
    return time;
  }

  [[nodiscard]] Bytes bytes(std::size_t index, TensorId id) const {
    return element_size(block_.tensor(id).element, context_.precision) * sizes_.tensor(index, id);
  }

  OperatorTime streaming(std::size_t index, const Operator& op) {
    if (const OperatorPasses* passes = passes_of(op)) return counted(index, op, *passes);
    Bytes inputs;
    Bytes outputs;
    for (const TensorId id : op.inputs) inputs += bytes(index, id);
    for (const TensorId id : op.outputs) outputs += bytes(index, id);
    if (traits(op).cost == CostClass::LookUp) inputs = outputs;  // the rows that are looked up
    if (!op.kernel.empty()) return named(index, op, inputs + outputs);
    if (traits(op).multiplies_weight()) return weighted_stream(op, inputs + outputs);
    OperatorTime time;
    time.forward =
        stream_time(chip(), inputs + outputs * (1.0 + op.extra_forward_passes), op.forward_kernels);
    time.backward = stream_time(chip(), inputs + outputs * (1.0 + op.extra_backward_passes),
                                op.backward_kernels);
    return time;
  }

  /// Priced by its chunks. States stay in the multiprocessor: inputs are read once and results are
  /// written once.
  OperatorTime named(std::size_t index, const Operator& op, Bytes moved) {
    ChunkShape shape = chunk_shape(network(), op, load(index, op));
    shape.moved = moved;
    shape.launched = op.forward_kernels > 0;
    if (traits(op).cost == CostClass::Recurrence) {
      shape.key_heads =
          sizes_.tensor(index, op.inputs[1]) / (shape.batch * shape.tokens * shape.key_size);
    }
    const NamedKernel& kernel = kernel_of(*context_.problem.framework, op);
    OperatorTime time;
    time.forward = chunk_time(chip(), kernel, shape, Pass::Forward);
    time.backward = chunk_time(chip(), kernel, shape, Pass::Backward);
    return time;
  }

  /// A product with every visible key, and a pass that reads the sums over heads and keeps the best.
  OperatorTime scores(std::size_t index, const Operator& op) {
    const ScoresShape shape = scores_shape(network(), op, load(index, op));
    const DataType type = activation_type();
    OperatorTime time;
    time.forward = matmul(type, shape.product, rows(type, shape.product)) +
                   pass_time({.single = 2.0}, shape.pairs, 1);
    time.backward = 2.0 * time.forward;
    return time;
  }

  /// A kernel forward and one for the gradient of each operand, which reads the other one: each
  /// passes once over as much as the input and the result. The weight is small.
  [[nodiscard]] OperatorTime weighted_stream(const Operator& op, Bytes moved) const {
    const Seconds pass = stream_time(chip(), moved, 1);
    OperatorTime time;
    time.forward = pass;
    if (needs_input_gradient(block_, op)) time.backward = pass;
    if (trains_weight(block_, op)) time.weight_gradient = pass;
    time.backward += time.weight_gradient;
    return time;
  }

  [[nodiscard]] const OperatorPasses* passes_of(const Operator& op) const {
    return context_.passes.at(static_cast<std::size_t>(op.passes));
  }

  [[nodiscard]] Seconds pass_time(const PassCount& passes, double elements, int kernels) const {
    const Bytes activation = element_size(context_.precision.activation);
    return stream_time(chip(),
                       activation * (passes.activation * elements) +
                           Bytes((kSingle * passes.single + passes.bytes) * elements),
                       kernels);
  }

  /// Passes as counted are per element of what backward hands on: results that have a gradient.
  OperatorTime counted(std::size_t index, const Operator& op, const OperatorPasses& passes) const {
    double elements = 0.0;
    for (const TensorId id : op.outputs) {
      if (differentiable(block_.tensor(id))) elements += sizes_.tensor(index, id);
    }
    OperatorTime time;
    time.forward = pass_time(passes.forward, elements, op.forward_kernels);
    time.backward = pass_time(passes.backward, elements, op.backward_kernels);
    return time;
  }

  /// Logits are read, and rewritten into gradients in backward; those of pieces are made again.
  OperatorTime loss(std::size_t index, const Operator& op) {
    const double logits = sizes_.tensor(index, op.inputs.front());
    static const OperatorPasses kOnce{{.activation = 1.0}, {.activation = 2.0}};
    const OperatorPasses* known = passes_of(op);
    const OperatorPasses& passes = known != nullptr ? *known : kOnce;
    OperatorTime time;
    time.forward = pass_time(passes.forward, logits, op.forward_kernels);
    time.backward = pass_time(passes.backward, logits, op.backward_kernels);
    for (std::size_t i = 0; passes.multiplies && passes.chunks > 0.0 && i < index; ++i) {
      if (block_.operators[i].outputs == op.inputs) time.backward += price(i).forward;
    }
    if (known == nullptr || passes.chunks != 1.0 || passes.keeps == KeptTensors::Separate)
      return time;
    if (context_.problem.framework->implementation.loss == LossInput::AsProduced) return time;
    // Logits become fp32 in a kernel of the model's, and their gradients become narrow again.
    static constexpr PassCount kCopied{.activation = 1.0, .single = 1.0};
    time.forward += pass_time(kCopied, logits, 1);
    time.backward += pass_time(kCopied, logits, 1);
    return time;
  }

  const PricingContext& context_;
  const Block& block_;
  const LocalSizes& sizes_;
  const LocalSizes& held_;
  std::vector<double>& extents_;  ///< by DimId, of the loop of the operator at hand
};

}  // namespace

void append_operator_times(const PricingContext& context, const Block& block,
                           const LocalSizes& sizes, const LocalSizes& kernels,
                           std::vector<OperatorTime>& times) {
  OperatorPricer pricer(context, block, kernels, sizes);
  for (std::size_t i = 0; i < block.operators.size(); ++i) times.push_back(pricer.price(i));
}

OperatorTime operator_time(const PricingContext& context, const Block& block,
                           const LocalSizes& sizes, std::size_t op) {
  return OperatorPricer(context, block, sizes, sizes).price(op);
}

}  // namespace plansearch
