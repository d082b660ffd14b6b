// SPDX-License-Identifier: Apache-2.0
// Computes: nothing; gives names to the constants of a framework file.
// Source: frameworks/*.yaml, docs/frameworks.md.
// Assumes: base units (seconds, bytes) in the file's canonical form.
// Units: as named.
// Checked by: tests/unit/evaluate/framework_constants_test.cpp
#include "evaluate/framework_constants.hpp"

#include <fmt/format.h>

#include <string>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

class Constants {
 public:
  explicit Constants(const Framework& framework) : framework_(framework) {}

  [[nodiscard]] double number(const std::string& key) const {
    const auto found = framework_.constants.find(key);
    if (found == framework_.constants.end()) {
      throw InputError({}, fmt::format("framework {} has no constant {}", framework_.name, key),
                       "docs/frameworks.md lists every constant a framework file holds");
    }
    return found->second;
  }
  [[nodiscard]] Seconds time(const std::string& key) const { return Seconds(number(key)); }
  [[nodiscard]] Bytes bytes(const std::string& key) const { return Bytes(number(key)); }

 private:
  const Framework& framework_;
};

}  // namespace

FrameworkConstants framework_constants(const Framework& framework) {
  const Constants c(framework);
  FrameworkConstants constants{};
  constants.host_launch = c.time("host_launch");
  constants.host_step = c.time("host_step");
  constants.run_ahead =
      c.number("host_runs_ahead_of_stage") > 0.0 ? HostRunAhead::Stage : HostRunAhead::Block;
  constants.boundary = c.number("boundary_scatter_gather") > 0.0 ? BoundaryMessage::ScatterGather
                                                                 : BoundaryMessage::Whole;
  constants.collective_call = c.time("collective_call");
  constants.collective_rank = c.time("collective_rank");
  constants.collective_skew = c.time("collective_skew");
  constants.collective_skew_across_nodes = c.time("collective_skew_across_nodes");
  constants.attention_factor = c.number("attention_factor");
  constants.accumulation_bytes = c.number("accumulation_bytes");
  constants.optimizer_factor = c.number("optimizer_factor");
  constants.product_rows =
      c.number("pads_products") > 0.0 ? ProductRows::Padded : ProductRows::AsCut;
  constants.expert_launch = c.time("expert_launch");
  constants.grouped_efficiency = c.number("grouped_efficiency");
  constants.sink_attention_factor = c.number("sink_attention_factor");
  constants.host_parameter = c.time("host_parameter");
  constants.host_slice = c.time("host_slice");
  constants.contention = {
      c.number("contention_gradient_reduction"), c.number("contention_parameter_gather"),
      c.number("contention_pipeline_send"),      c.number("contention_tensor_parallel"),
      c.number("contention_context_ring"),       c.number("contention_expert_all_to_all")};
  constants.memory_logit_bytes = c.number("memory_logit_bytes");
  constants.memory_previous_logit_bytes = c.number("memory_previous_logit_bytes");
  constants.loss_lifetime = c.number("memory_loss_through_backward") > 0.0
                                ? LossLifetime::ThroughBackward
                                : LossLifetime::FreedBeforeBlocks;
  constants.gradients = framework.implementation.gradients;
  for (std::size_t i = 0; i < kMemoryBoundCount; ++i) {
    const OperatorPasses* passes = framework.operators.passes(static_cast<MemoryBound>(i));
    if (passes != nullptr) constants.passes[i] = {passes->forward, passes->backward};
  }
  constants.memory_live_bytes = c.number("memory_live_bytes");
  constants.memory_attention_copies = c.number("memory_attention_copies");
  constants.memory_reduction_bytes = c.number("memory_reduction_bytes");
  constants.memory_gathered_cached = c.number("memory_gathered_cached");
  constants.memory_context = c.bytes("memory_context");
  constants.memory_workspace = c.bytes("memory_workspace");
  constants.memory_fragmentation = c.number("memory_fragmentation");
  constants.memory_error = {c.number("memory_error_median"), c.number("memory_error_below"),
                            c.number("memory_error_above")};
  constants.sigma = c.number("sigma");
  constants.sigma_experts = c.number("sigma_experts");
  constants.paired_sigma = c.number("paired_sigma");
  return constants;
}

}  // namespace plansearch
