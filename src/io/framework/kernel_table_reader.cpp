// SPDX-License-Identifier: Apache-2.0
// frameworks/operators/recurrences.yaml: curves of recurrences and their convolutions, by library and chip.
#include <fmt/format.h>

#include "io/document/fields.hpp"
#include "io/framework/framework_reader.hpp"

namespace plansearch::io {
namespace {

ChunkCurve read_curve(const Node& node) {
  ChunkCurve curve;
  const Fields fields(node);
  curve.launch = node.at("launch").non_negative<Seconds>();
  fields.take("chunk", curve.chunk, &Node::non_negative<Seconds>);
  fields.take("rate", curve.rate, &Node::positive<FlopRate>);
  fields.take("byte_share", curve.byte_share, &Node::positive_number);
  return curve;
}

/// So many times the forward pass, where no table is published.
ChunkCurve times(ChunkCurve curve, double factor) {
  curve.launch = curve.launch * factor;
  curve.chunk = curve.chunk * factor;
  curve.rate = curve.rate / factor;
  curve.byte_share /= factor;
  return curve;
}

ChunkKernelOnChip read_chip(const Node::Entry& entry) {
  ChunkKernelOnChip chip;
  chip.accelerator = entry.key;
  chip.peak = entry.value.at("peak").positive<FlopRate>();
  chip.forward = read_curve(entry.value.at("forward"));
  const Node backward = entry.value.at("backward");
  chip.backward =
      backward.is_map() ? read_curve(backward) : times(chip.forward, backward.positive_number());
  return chip;
}

ChunkFlops read_flops(const Node& node) {
  ChunkFlops flops;
  const Fields fields(node);
  fields.take("state", flops.state, &Node::positive_number);
  fields.take("key", flops.key, &Node::positive_number);
  fields.take("shared_key", flops.shared_key, &Node::positive_number);
  fields.take("value", flops.value, &Node::positive_number);
  fields.take("square", flops.square, &Node::positive_number);
  return flops;
}

}  // namespace

std::vector<NamedKernel> read_named_kernels(const Document& document) {
  const Node root = document.root();
  require_schema(root, "plansearch/kernels/v1");
  std::vector<NamedKernel> kernels;
  for (const Node& row : root.at("kernels").items()) {
    NamedKernel kernel;
    kernel.name = row.at("name").text();
    kernel.library = row.at("library").text();
    kernel.source = row.at("source").text();
    const Fields fields(row);
    fields.take("chunk_tokens", kernel.tokens, &Node::positive_number);
    fields.take("flops", kernel.flops, read_flops);
    for (const Node::Entry& chip : row.at("chips").entries())
      kernel.chips.push_back(read_chip(chip));
    if (kernel.chips.empty()) row.fail(fmt::format("{} has no chip", kernel.name));
    kernels.push_back(std::move(kernel));
  }
  root.finish();
  return kernels;
}

}  // namespace plansearch::io
