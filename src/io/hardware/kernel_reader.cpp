// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <set>

#include "io/document/fields.hpp"

namespace plansearch::io {
namespace {

constexpr std::string_view kFp8Block = "fp8_block";

MatmulCurve read_matmul(const Node& node, const MatmulCurve* base, const Defaults& defaults) {
  MatmulCurve curve;
  if (base != nullptr) {
    curve = *base;
  } else {
    curve.split_pass = defaults.split_pass;
    curve.burst_warm_up = defaults.burst_warm_up;
    curve.unaligned_rows = defaults.unaligned_rows;
  }
  const CurveReader read(node, base != nullptr);
  read.time("launch", curve.launch);
  read.number("flop_efficiency", curve.flop_efficiency, 0.0, 2.0);
  read.number("byte_efficiency", curve.byte_efficiency, 0.0, 2.0);
  if (curve.flop_efficiency <= 0.0 || curve.byte_efficiency <= 0.0) {
    node.fail("efficiencies must be above zero");
  }
  read.number("prologue_depth", curve.prologue_depth, 0.0, 1e5);
  read.number("tile_penalty", curve.tile_penalty, 0.0, 1e3);
  read.number("wave_quantisation", curve.wave_quantisation, 0.0, 1.0);
  read.number("split_traffic", curve.split_traffic, 0.0, 1e6);
  read.time("split_pass", curve.split_pass, Need::Optional);
  read.number("power_droop", curve.power_droop, 0.0, 10.0);
  read.time("warm_up", curve.warm_up, Need::Optional);
  read.time("burst_warm_up", curve.burst_warm_up, Need::Optional);
  read.number("quantise_bytes", curve.quantise_bytes, 0.0, 1e3, Need::Optional);
  read.number("row_scaled", curve.row_scaled, 0.01, 1.0, Need::Optional);
  read.number("unaligned_rows", curve.unaligned_rows, 1.0, 100.0, Need::Optional);
  read.residual(curve.residual);
  return curve;
}

AttentionCurve read_attention(const Node& node, const AttentionCurve* base) {
  AttentionCurve curve = base != nullptr ? *base : AttentionCurve{};
  const CurveReader read(node, base != nullptr);
  read.time("launch", curve.launch);
  read.number("flop_efficiency", curve.flop_efficiency, 1e-3, 2.0);
  constexpr double kMicrosecond = 1e-6;
  if (base == nullptr || node.find("exponential_rate")) {
    curve.exponentials_per_us =
        node.at("exponential_rate").positive<FlopRate>().value() * kMicrosecond;
  }
  read.time("block", curve.block);
  read.number("longest", curve.longest, 0.0, 10.0);
  read.number("query_byte_efficiency", curve.query_byte_efficiency, 1e-3, 2.0);
  read.number("key_byte_efficiency", curve.key_byte_efficiency, 1e-3, 2.0);
  read.time("token", curve.token, Need::Optional);
  read.number("wide_head", curve.wide_head, 1e-3, 1.0);
  read.residual(curve.residual);
  return curve;
}

AttentionKernel read_attention_kernel(const std::string& name, const Node& node,
                                      const AttentionKernel* base) {
  AttentionKernel kernel = base != nullptr ? *base : AttentionKernel{};
  kernel.name = name;
  if (base == nullptr || node.find("forward")) {
    kernel.forward = read_attention(node.at("forward"), base != nullptr ? &base->forward : nullptr);
  }
  if (const auto backward = node.find("backward")) {
    const bool inherits = base != nullptr && base->backward.has_value();
    kernel.backward = read_attention(*backward, inherits ? &*base->backward : nullptr);
  }
  return kernel;
}

StreamCurve read_stream(const Node& node, const StreamCurve* base, const Defaults& defaults) {
  StreamCurve curve;
  if (base != nullptr) {
    curve = *base;
  } else {
    curve.reduction_efficiency = defaults.reduction_efficiency;
    curve.optimizer_efficiency = defaults.optimizer_efficiency;
  }
  const CurveReader read(node, base != nullptr);
  read.number("efficiency", curve.efficiency, 1e-3, 1.0);
  read.number("reduction_efficiency", curve.reduction_efficiency, 1e-3, 1.0, Need::Optional);
  read.number("optimizer_efficiency", curve.optimizer_efficiency, 1e-3, 1.0, Need::Optional);
  read.time("launch", curve.launch);
  read.time("graph_launch", curve.graph_launch);
  Fields(node).take("l2_bandwidth", curve.l2_bandwidth, &Node::positive<Bandwidth>);
  return curve;
}

/// Formats and whose curve they share.
using SharedCurves = std::map<DataType, DataType>;

/// Formats that shared the curve of one that is given here share the given one.
void read_matmuls(const Node& node, KernelCurves& kernels, const Defaults& defaults, FieldLog& log,
                  SharedCurves& shared) {
  std::set<DataType> given;
  for (const Node::Entry& entry : node.entries()) {
    const auto type = parse_data_type(entry.key);
    std::optional<MatmulCurve>* slot = nullptr;
    if (entry.key == kFp8Block) {
      slot = &kernels.matmul_fp8_block;
    } else if (type) {
      slot = &kernels.matmul.at(static_cast<std::size_t>(*type));
    } else {
      throw InputError(entry.where, fmt::format("unknown number format '{}'", entry.key),
                       "one of fp64, fp32, tf32, fp16, bf16, fp8, fp8_block, mxfp8, nvfp4");
    }
    *slot = read_matmul(entry.value, slot->has_value() ? &**slot : nullptr, defaults);
    log.given("kernels.matmul." + entry.key);
    if (type && entry.key != kFp8Block) given.insert(*type);
  }
  for (const DataType type : given) shared.erase(type);
  for (const auto& [type, other] : shared) {
    if (given.contains(other)) kernels.matmul.at(static_cast<std::size_t>(type)).reset();
  }
}

void read_attentions(const Node& node, KernelCurves& kernels, FieldLog& log) {
  for (const Node::Entry& entry : node.entries()) {
    AttentionKernel* found = nullptr;
    for (AttentionKernel& kernel : kernels.attention) {
      if (kernel.name == entry.key) found = &kernel;
    }
    AttentionKernel kernel = read_attention_kernel(entry.key, entry.value, found);
    if (found != nullptr) {
      *found = std::move(kernel);
    } else {
      kernels.attention.push_back(std::move(kernel));
    }
    log.given("kernels.attention." + entry.key);
  }
}

/// Formats the matrix engine has but no curve was given for take the nearest format's.
void fill_formats(KernelCurves& kernels, const Accelerator& accelerator, const Defaults& defaults,
                  ProvenanceMap& inherited, SharedCurves& shared) {
  for (const auto& [type, order] : defaults.matmul_fallback) {
    auto& slot = kernels.matmul.at(static_cast<std::size_t>(type));
    if (slot || !accelerator.peak_of(type)) continue;
    for (const DataType other : order) {
      const auto& donor = kernels.matmul.at(static_cast<std::size_t>(other));
      if (!donor) continue;
      slot = donor;
      shared[type] = other;
      inherited[fmt::format("kernels.matmul.{}", to_text(type))] = {
          Evidence::Assumed, fmt::format("as {}", to_text(other))};
      break;
    }
  }
}

/// The first implementation that can train is the one used where nothing else is asked for.
void choose_attention(KernelCurves& kernels) {
  kernels.attention_forward.reset();
  kernels.attention_backward.reset();
  for (const AttentionKernel& kernel : kernels.attention) {
    if (!kernel.backward) continue;
    kernels.attention_forward = kernel.forward;
    kernels.attention_backward = kernel.backward;
    return;
  }
}

/// Curves of another accelerator, and what that makes of their provenance.
KernelCurves curves_from(const Accelerator& donor, ProvenanceMap& inherited) {
  for (const auto& [field, from] : donor.provenance) {
    if (!field.starts_with("kernels")) continue;
    inherited[field] = {Evidence::Assumed,
                        fmt::format("fractions of {} ({})", donor.name, from.source)};
  }
  return donor.kernels;
}

/// How far one architecture's measured kernels lie from their curves says nothing of another's.
void forget_residuals(KernelCurves& kernels) {
  const auto forget = [](auto& curve) {
    if (curve) curve->residual.reset();
  };
  for (auto& curve : kernels.matmul) forget(curve);
  forget(kernels.matmul_fp8_block);
  for (AttentionKernel& kernel : kernels.attention) {
    kernel.forward.residual.reset();
    forget(kernel.backward);
  }
}

std::string default_donor(const Accelerator& accelerator, const Defaults& defaults) {
  FlopRate peak;
  for (const DataType type : {DataType::Fp16, DataType::Bf16}) {
    peak = std::max(peak, accelerator.peak_of(type).value_or(FlopRate()));
  }
  for (const KernelRule& rule : defaults.kernels) {
    if (peak >= rule.min_peak) return rule.like;
  }
  return {};
}

std::optional<Node> named_donor(const Node& accelerator) {
  const auto section = accelerator.find("kernels");
  return section ? section->find("like") : std::nullopt;
}

}  // namespace

Accelerator kernel_donor(const Node& accelerator, const Accelerator& so_far,
                         ProfileLibrary& library, int depth) {
  if (const auto like = named_donor(accelerator)) {
    return find_accelerator(like->text(), library, like->where(), depth + 1);
  }
  return find_accelerator(default_donor(so_far, library.defaults()), library, accelerator.where(),
                          depth + 1);
}

KernelCurves read_kernels(const Node& accelerator_node, const Accelerator& so_far,
                          const Accelerator* base, ProfileLibrary& library, FieldLog& log,
                          ProvenanceMap& inherited, int depth) {
  const Defaults& defaults = library.defaults();
  const auto section = accelerator_node.find("kernels");
  const bool like = named_donor(accelerator_node).has_value();
  KernelCurves kernels;
  SharedCurves shared;
  const bool complete = section && section->find("matmul") && section->find("stream");
  if (!like && base != nullptr) {
    kernels = base->kernels;
    shared = library.shared_curves(base->name);
  } else if (like || !complete) {
    const Accelerator donor = kernel_donor(accelerator_node, so_far, library, depth);
    kernels = curves_from(donor, inherited);
    if (so_far.foreign_kernels) forget_residuals(kernels);
    shared = library.shared_curves(donor.name);
  }
  const bool from_donor = like || base != nullptr || !complete;
  if (section) {
    if (const auto matmul = section->find("matmul"))
      read_matmuls(*matmul, kernels, defaults, log, shared);
    if (const auto attention = section->find("attention"))
      read_attentions(*attention, kernels, log);
    if (const auto stream = section->find("stream")) {
      kernels.stream = read_stream(*stream, from_donor ? &kernels.stream : nullptr, defaults);
      log.given("kernels.stream");
    }
  }
  fill_formats(kernels, so_far, defaults, inherited, shared);
  library.shared_curves(so_far.name) = shared;
  choose_attention(kernels);
  return kernels;
}

}  // namespace plansearch::io
