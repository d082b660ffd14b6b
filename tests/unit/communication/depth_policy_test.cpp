// SPDX-License-Identifier: Apache-2.0
// Settings of the depth axis: what it cuts, how long what was gathered stays, what goes together.
#include <doctest/doctest.h>

#include "small_networks.hpp"

namespace plansearch::depth_policy_test {
namespace {

using Lines = std::vector<std::string>;

/// Depth 4, data 2; 1024 tokens of 64 features per sequence, every device one sequence.
PlanDegrees depth_plan() {
  PlanDegrees plan;
  plan.tensor_depth = 4;
  plan.data = 2;
  return plan;
}

Framework depth_framework(Scope gather, DepthParameters cut) {
  Framework framework = test::plain_framework();
  framework.sharding.depth_gather = gather;
  framework.sharding.depth_parameters = cut;
  framework.sharding.recompute_gather = RecomputeGather::Repeated;
  return framework;
}

TEST_SUITE("unit") {
  TEST_CASE("gradients that stages sum at the end of a step are whole until then") {
    Framework framework = test::plain_framework();
    PlanDegrees plan;
    plan.data = 4;
    plan.zero = ZeroStage::Parameters;
    const auto gradient = [&] {
      const DeviceMesh mesh = make_device_mesh(plan, framework.rank_order);
      return tensor_policies(plan, mesh, framework, DataType::Bf16).dense.gradient;
    };
    for (const int stages : {1, 2}) {
      plan.pipeline = stages;
      framework.sharding.gradient_reduce_pipelined.reset();
      CHECK(gradient().reduce == Scope::MicroBatch);
      CHECK(gradient().storage.size() == 1);
      framework.sharding.gradient_reduce_pipelined = Scope::Step;
      CHECK((gradient().reduce == Scope::Step) == (stages == 2));
      CHECK(gradient().storage.empty() == (stages == 2));
    }
  }

  TEST_CASE(
      "weights that stay gathered are gathered once before backward, others once more in it") {
    // w is 64 x 256: 16384. Its gradient is scattered over depth and summed over data: a quarter.
    const Network network = test::linear_pair(1024, 64, 256);
    const Lines reductions{
        "weight-gradient: reduce-scatter depth x4 of gradient of w2, 16384 per micro-batch",
        "weight-gradient: reduce-scatter depth x4 of gradient of w1, 16384 per micro-batch",
        "step: all-reduce data x2 of gradient of w1, 4096 per step",
        "step: all-reduce data x2 of gradient of w2, 4096 per step"};
    Lines kept{"forward: all-gather depth x4 of w1, 16384 per micro-batch",
               "forward: all-gather depth x4 of w2, 16384 per micro-batch"};
    kept.insert(kept.end(), reductions.begin(), reductions.end());
    const auto derived = test::derive(network, depth_plan(),
                                      depth_framework(Scope::MicroBatch, DepthParameters::All));
    CHECK(test::lines(network, derived) == kept);
    CHECK(derived.front().on_recompute == RecomputeGather::Repeated);
    Lines dropped{"forward: all-gather depth x4 of w1, 16384 per use",
                  "forward: all-gather depth x4 of w2, 16384 per use",
                  "input-gradient: all-gather depth x4 of w2, 16384 per use",
                  "input-gradient: all-gather depth x4 of w1, 16384 per use"};
    dropped.insert(dropped.end(), reductions.begin(), reductions.end());
    CHECK(test::lines(network, test::derive(network, depth_plan(),
                                            depth_framework(Scope::Use, DepthParameters::All))) ==
          dropped);
  }

  TEST_CASE("what depth does not cut it holds copies of, and sums once per step") {
    // gamma, 64 elements, sees the sequences of 4 x 2 devices: summed over data, then over depth.
    const Network network = test::mlp_block(1024, 64, 256);
    const auto lines = test::lines(
        network, test::derive(network, depth_plan(),
                              depth_framework(Scope::MicroBatch, DepthParameters::Products)));
    const auto of_gamma = [](const std::string& line) {
      return line.find("gamma") != std::string::npos;
    };
    Lines gamma;
    std::copy_if(lines.begin(), lines.end(), std::back_inserter(gamma), of_gamma);
    CHECK(gamma == Lines{"step: all-reduce data x2 of gradient of gamma, 64 per step",
                         "step: all-reduce depth x4 of gradient of gamma, 64 per step"});
  }

  TEST_CASE("weights of one launch travel as one message") {
    // wq: 64 x 64; wk, wv: 64 x 16: 6144 together; wo by itself.
    Network network = test::attention_block(1024, 4, 1, 16);
    for (Operator& op : network.blocks.front().operators) {
      if (op.name == "query" || op.name == "key" || op.name == "value") op.fused_key = "qkv";
    }
    Framework framework = depth_framework(Scope::MicroBatch, DepthParameters::All);
    framework.sharding.unit = ParameterUnit::Launch;
    std::vector<double> gathers;
    for (const Communication& c : test::derive(network, depth_plan(), framework)) {
      if (c.kind == CommunicationKind::AllGather) gathers.push_back(c.elements);
    }
    CHECK(gathers == std::vector<double>{6144, 4096});
  }
}

}  // namespace
}  // namespace plansearch::depth_policy_test
