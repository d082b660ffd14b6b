// SPDX-License-Identifier: Apache-2.0
// Computes: the operators of a mixer that keeps a state: its products out of the stream, the causal
//           convolution, the recurrence, norm and gate of its result, and the product back.
// Source: rows of models/families/_recurrences.yaml.
// Assumes: a gate is part of the kernel that normalises; convolutions of one product are one
//          launch.
// Units: elements.
// Checked by: tests/unit/workload/recurrence_test.cpp
#include <algorithm>
#include <map>

#include "plansearch/error.hpp"
#include "workload/block_builder.hpp"

namespace plansearch {
namespace {

constexpr const char* kConvolution = "causal_conv1d";

class RecurrenceBuilder {
 public:
  RecurrenceBuilder(BlockBuilder& block, const Stack& stack, const RecurrenceDescription& mixer)
      : block_(block), stack_(stack), mixer_(mixer), form_(mixer.form) {
    whole_ = stack.implementation.recurrence_context == RecurrenceContext::Heads;
  }

  TensorId run(TensorId in) {
    for (const MixerPart& part : form_.parts) {
      if (part.from.empty()) made_[part.name] = add_product(part, in, {stack_.hidden});
    }
    for (const MixerPart& part : form_.parts) {
      TensorId& made = made_[part.name];
      if (!part.from.empty()) {
        const TensorId from = made_.at(part.from);
        made = add_product(part, from, without(block_.dims(from), {stack_.batch, stack_.tokens}));
      }
      if (part.normed) made = add_part_norm(part, made);
      if (!part.times.empty()) made = multiply(part.name + "_input", made, made_.at(part.times));
      if (part.convolved && mixer_.taps > 0) made = add_convolution(part, made);
    }
    TensorId out = form_.kernel.empty() ? made_.at("value") : add_scan();
    out = add_gated_norm(out);
    const Dims features = {size(MixerSize::Heads), size(MixerSize::ValueSize)};
    return block_.linear({.name = "mixer_out",
                          .input = out,
                          .contracted = features,
                          .outputs = {stack_.hidden},
                          .bias = bias(mixer_.bias)});
  }

 private:
  static Bias bias(bool present) { return present ? Bias::Yes : Bias::No; }

  [[nodiscard]] DimId size(MixerSize size) {
    const auto dim = [&](const char* name, DimRole role, std::int64_t extent) {
      return block_.dim(stack_.prefix + name, role, extent);
    };
    switch (size) {
      case MixerSize::KeyHeads:
        if (mixer_.key_heads != mixer_.heads)
          return dim("key_heads", DimRole::KvHead, mixer_.key_heads);
        [[fallthrough]];
      case MixerSize::Heads:
        return dim("heads", DimRole::Head, mixer_.heads);
      case MixerSize::KeySize:
        return dim("key_size", DimRole::HeadSize, mixer_.key_size);
      case MixerSize::ValueSize:
        return dim("value_size", DimRole::HeadSize, mixer_.value_size);
      case MixerSize::Rank:
        return dim("rank", DimRole::Latent, mixer_.rank);
    }
    throw InternalError("a recurrence has no such size");
  }

  [[nodiscard]] Dims sizes(const std::vector<MixerSize>& names) {
    Dims dims;
    for (const MixerSize name : names) dims.push_back(size(name));
    return dims;
  }

  TensorId add_product(const MixerPart& part, TensorId in, const Dims& contracted) {
    const std::string name = "mixer_" + part.name;
    Linear product{.name = name,
                   .input = in,
                   .contracted = contracted,
                   .outputs = sizes(part.dims),
                   .bias = bias(mixer_.bias || part.bias)};
    if (form_.one_product && !part.low_rank && !part.normed)
      product.fused_key = part.from.empty() ? "mixer_in" : "mixer_" + part.from;
    if (part.low_rank) {
      const DimId rank = size(MixerSize::Rank);
      product.input = block_.linear(
          {.name = name + "_down", .input = in, .contracted = contracted, .outputs = {rank}});
      product.contracted = {rank};
    }
    return block_.linear(product);
  }

  TensorId add_part_norm(const MixerPart& part, TensorId in) {
    const Dims last = {block_.dims(in).back()};
    return block_.norm("mixer_" + part.name + "_norm", in, last, last, false, false);
  }

  TensorId multiply(const std::string& name, TensorId in, TensorId by) {
    const Dims loop = block_.dims(in);
    const TensorId out = block_.elementwise("mixer_" + name, {in, by}, loop);
    block_.save_at_producer(in);
    block_.save_at_producer(by);
    return out;
  }

  /// Every channel with the tokens in front of it.
  TensorId add_convolution(const MixerPart& part, TensorId in) {
    const Dims made = block_.dims(in);
    const Dims channels = without(made, {stack_.batch, stack_.tokens});
    const DimId taps = block_.dim(stack_.prefix + "taps", DimRole::Kernel, mixer_.taps);
    Operator op;
    op.name = "mixer_" + part.name + "_convolution";
    op.kind = OperatorKind::DepthwiseConvolution;
    op.kernel = kConvolution;
    op.whole_sequence = whole_;
    op.loop = concat({stack_.batch, stack_.tokens, taps}, channels);
    op.inputs = {in};
    std::vector<IndexExpression> read;
    for (const DimId dim : made) read.push_back({{{dim, 1}}, 0, 1});
    read[1] = {{{stack_.tokens, 1}, {taps, 1}}, 1 - mixer_.taps, 1};
    op.reads = {std::move(read)};
    op.parameters = {
        block_.parameter(op.name + ".weight", concat(channels, {taps}), ParameterClass::Matrix)};
    if (mixer_.convolution_bias) {
      op.parameters.push_back(
          block_.parameter(op.name + ".bias", channels, ParameterClass::Vector));
    }
    op.outputs = {block_.tensor(op.name, made)};
    op.saved = {in};
    op.flops_per_point = 2.0;
    op.forward_kernels = form_.one_product && convolved_ ? 0 : 1;
    op.backward_kernels = op.forward_kernels;
    convolved_ = true;
    return block_.add(std::move(op)).outputs.front();
  }

  /// Whether the recurrence keeps what it reads: results of convolutions may be made again.
  [[nodiscard]] bool keeps(const MixerPart& part) const {
    return form_.keeps_convolved || !part.convolved || mixer_.taps == 0;
  }

  TensorId add_scan() {
    const Dims rows = {stack_.batch, stack_.tokens, size(MixerSize::Heads)};
    Operator op;
    op.name = "mixer_scan";
    op.kind = OperatorKind::Recurrence;
    op.kernel = form_.kernel;
    op.whole_sequence = whole_;
    op.loop = {stack_.batch, size(MixerSize::Heads), stack_.tokens, size(MixerSize::KeySize),
               size(MixerSize::ValueSize)};
    std::vector<std::string> read = {"query", "key", "value"};
    for (const MixerPart& part : form_.parts) {
      const bool known = std::ranges::find(read, part.name) != read.end();
      const bool source = std::ranges::any_of(
          form_.parts, [&](const MixerPart& other) { return other.from == part.name; });
      if (!known && !source && part.name != form_.gate) read.push_back(part.name);
    }
    for (const std::string& name : read) {
      const auto part = std::ranges::find(form_.parts, name, &MixerPart::name);
      PLANSEARCH_CHECK(part != form_.parts.end());
      op.inputs.push_back(made_.at(name));
      if (keeps(*part)) op.saved.emplace_back(op.inputs.back());
    }
    for (const MixerVector& vector : form_.vectors) {
      op.parameters.push_back(block_.parameter("mixer_scan." + vector.name, sizes(vector.dims),
                                               ParameterClass::Vector));
    }
    op.outputs = {block_.tensor(op.name, concat(rows, {size(MixerSize::ValueSize)}))};
    if (form_.chunk > 0) {
      const DimId chunk = block_.dim(stack_.prefix + "chunk", DimRole::Other, form_.chunk);
      op.outputs.push_back(block_.tensor("mixer_chunks", concat(rows, {chunk})));
      op.saved.emplace_back(op.outputs.back());
    }
    op.flops_per_point = form_.flops;
    if (!whole_) {
      op.carried = 1.0 + form_.transition * static_cast<double>(mixer_.key_size) /
                             static_cast<double>(mixer_.value_size);
    }
    return block_.add(std::move(op)).outputs.front();
  }

  TensorId add_gated_norm(TensorId in) {
    const bool gated = !form_.gate.empty();
    if (mixer_.norm == RecurrenceNorm::None) {
      if (!gated) return in;
      const TensorId out = multiply("gating", in, made_.at(form_.gate));
      block_.last().whole_sequence = whole_;
      return out;
    }
    const DimId feature = size(MixerSize::ValueSize);
    const bool each = mixer_.norm == RecurrenceNorm::EachHead;
    const Dims weights = each ? Dims{size(MixerSize::Heads), feature} : Dims{feature};
    const TensorId out = block_.norm("mixer_norm", in, weights, {feature}, false, false);
    Operator& op = block_.last();
    op.whole_sequence = whole_;
    if (!gated) return out;
    op.passes = MemoryBound::Plain;  // reads the gate too
    op.inputs.push_back(made_.at(form_.gate));
    op.saved.emplace_back(op.inputs.back());
    op.extra_backward_passes = 2.0;
    return out;
  }

  BlockBuilder& block_;
  const Stack& stack_;
  const RecurrenceDescription& mixer_;
  const RecurrenceForm& form_;
  bool whole_ = true;
  bool convolved_ = false;  ///< a convolution stands already
  std::map<std::string, TensorId> made_;
};

}  // namespace

TensorId add_recurrence(BlockBuilder& block, const Stack& stack, TensorId in,
                        const RecurrenceDescription& mixer) {
  return RecurrenceBuilder(block, stack, mixer).run(in);
}

}  // namespace plansearch
