// SPDX-License-Identifier: Apache-2.0
// Source: axonn-ai/Megatron-AxoNN@885d2e75 pretrain_gpt.py: forward_step (optimize_communication is
// entered for all-reduces, or not at all)
#include "exporters/fact.hpp"

namespace plansearch::exporters {
namespace {

bool hides(H h, Overlap overlap) {
  return h.problem.framework->overlap.at(static_cast<std::size_t>(overlap)).hides();
}
bool hides_sums(H h) {
  return h.degrees.tensor() > 1 && hides(h, Overlap::TensorParallel);
}
/// Gradients scattered over the depth axis, and weights gathered from it.
bool hides_scatters(H h) {
  return h.degrees.tensor_depth > 1 && hides(h, Overlap::GradientReduction);
}
bool hides_gathers(H h) {
  return h.degrees.tensor_depth > 1 && hides(h, Overlap::ParameterGather);
}

}  // namespace

// clang-format off
Facts axonn_facts() {
  return {
      {"sums_hidden", {setting_of(Overlap::TensorParallel)}, [](H h) { return Value(hides_sums(h)); }},
      {"scatters_hidden", {setting_of(Overlap::GradientReduction)}, [](H h) { return Value(hides_scatters(h)); }},
      {"depth_gathers_hidden", {setting_of(Overlap::ParameterGather)}, [](H h) { return Value(hides_gathers(h)); }},
      {"scatters_alone", {}, [](H h) { return Value((hides_scatters(h) || hides_gathers(h)) && !hides_sums(h)); }},
      // Counted before the depth axis splits them.
      {"micro_batch_of_depth", {s(D::MicroBatch), s(D::TensorDepth)},
       [](H h) { return Value(h.degrees.micro_batch * h.degrees.tensor_depth); }},
  };
}
// clang-format on

}  // namespace plansearch::exporters
