// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/probe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/ranges.hpp"
#include "plansearch/error.hpp"
#include "plansearch/network.hpp"
#include "plansearch/transformer_builder.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::calibrate {
namespace {

constexpr std::array kCut{DimRole::Head, DimRole::KvHead, DimRole::Ffn, DimRole::Vocab,
                          DimRole::ExpertFfn};

std::vector<double> extents_of(const Network& network, std::int64_t ranks) {
  std::vector<double> extents;
  for (const Dimension& dimension : network.dimensions) {
    const bool cut = contains(kCut, dimension.role) && dimension.extent % ranks == 0;
    extents.push_back(static_cast<double>(cut ? dimension.extent / ranks : dimension.extent));
  }
  return extents;
}

}  // namespace

std::span<const Probe> probes() {
  static constexpr std::array kProbes{
      Probe{"gemm", "matrix products in the three layouts of a training step", gemm_points,
            gemm_work},
      Probe{"batched_gemm", "many small products in one call, as unfused attention makes them",
            batched_gemm_points, gemm_work},
      Probe{"attention", "fused causal attention, forward and backward", attention_points,
            attention_work},
      Probe{"stream", "passes over memory: copy, element-wise, norm, optimizer", stream_points,
            stream_work},
      Probe{"launch", "the start of a small kernel, one by one and in a graph", launch_points,
            launch_work},
      Probe{"host_copy", "copies between host and accelerator", host_copy_points, host_copy_work},
      Probe{"collective", "messages of all kinds within a group of ranks", collective_points,
            collective_work},
      Probe{"overlap", "products, messages and copies while another of them runs", overlap_points,
            overlap_work}};
  return kProbes;
}

const Probe& probe_named(std::string_view name) {
  std::vector<std::string> known;
  for (const Probe& probe : probes()) {
    if (probe.name == name) return probe;
    known.emplace_back(probe.name);
  }
  throw InputError({}, fmt::format("there is no probe '{}'", name),
                   fmt::format("one of {}", fmt::join(known, ", ")));
}

std::vector<MatmulShape> model_shapes(const std::vector<std::string>& models,
                                      const ShippedData& data) {
  std::vector<MatmulShape> shapes;
  for (const std::string& name : models) {
    const Network network = build_network(data.model(name).description);
    for (const std::int64_t ranks : {1, 2, 4, 8}) {
      const std::vector<double> extents = extents_of(network, ranks);
      for (const Block& block : network.blocks) {
        for (const Operator& op : block.operators) {
          if (traits(op).cost != CostClass::Product || traits(op).slides || op.parameters.empty())
            continue;
          const MatmulShape shape = matmul_shape(network, block, op, extents);
          const bool known = contains(shapes, shape);
          if (!known && shape.batch == 1.0) shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

}  // namespace plansearch::calibrate
