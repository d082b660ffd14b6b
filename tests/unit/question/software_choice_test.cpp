// SPDX-License-Identifier: Apache-2.0
#include "question/framework_flags.hpp"

#include <doctest/doctest.h>

#include <string>

#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::software_choice_test {
namespace {

template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

std::string contradiction(const ProblemRequest& choice, const std::string& attention,
                          DataType precision = DataType::Bf16) {
  return message_of([&] { refuse_contradictions(choice, attention, precision); });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("options that contradict each other are named") {
    ProblemRequest kernels;
    kernels.kernels = "flash2 fused-norm";
    CHECK(contradiction(kernels, "unfused")
              .find("--attention unfused and --kernels flash2 contradict each other") !=
          std::string::npos);
    CHECK(contradiction(kernels, "flash").empty());
    CHECK(contradiction(kernels, "").empty());
    kernels.kernels = "flash1,flash2";
    CHECK(contradiction(kernels, "").find("2 attention kernels: flash1, flash2") !=
          std::string::npos);
    kernels.kernels = "fused-softmax";
    CHECK(contradiction(kernels, "unfused").empty());
  }

  TEST_CASE("an fp8 recipe needs a precision that has one") {
    ProblemRequest recipe;
    recipe.fp8_recipe = "block";
    CHECK(contradiction(recipe, "").find("--fp8-recipe block and --precision bf16") !=
          std::string::npos);
    CHECK(contradiction(recipe, "", DataType::Fp8).empty());
    CHECK(contradiction(recipe, "", DataType::Mxfp8).find("--precision mxfp8") !=
          std::string::npos);
    recipe.fp8_recipe = "mxfp8";
    CHECK(contradiction(recipe, "", DataType::Mxfp8).empty());
  }

  TEST_CASE("what lives on the host: framework and machine must know how") {
    const Problem problem = test::toy_problem();
    Framework framework = *problem.framework;
    Cluster cluster = *problem.cluster;
    const auto offload = [&](const char* what) {
      const HostBits tensors = find_host_tensors(what).value();
      return message_of([&] { check_offload(framework, cluster, tensors); });
    };
    CHECK(offload("none").empty());
    CHECK(offload("activations").find("toy keeps them on the device") != std::string::npos);
    CHECK(offload("optimizer").find("toy keeps them on the device") != std::string::npos);
    framework.optimizer_offload = OptimizerOffload{};
    framework.offloads.modules = bit_of(LayerModule::CoreAttention);
    CHECK(offload("optimizer").find("says nothing of its hosts") != std::string::npos);
    cluster.host = Host{};
    CHECK(offload("optimizer").empty());
    CHECK(offload("optimizer,core_attn").empty());
    CHECK(offload("mlp").find("toy keeps them on the device") != std::string::npos);
    CHECK(offload("optimizer,activations").find("--offload activations") != std::string::npos);
  }

  TEST_CASE("a machine that says nothing of its hosts takes every choice away") {
    const Problem problem = test::toy_problem();
    Framework framework = *problem.framework;
    framework.optimizer_offload = OptimizerOffload{};
    framework.offloads.activations = true;
    Cluster cluster = *problem.cluster;
    cluster.host = Host{};
    take_offloads(framework, cluster, {});
    CHECK(framework.optimizer_offload);
    CHECK(framework.offloads.activations);
    cluster.host.reset();
    take_offloads(framework, cluster, {});
    CHECK(!framework.optimizer_offload);
    CHECK(!framework.offloads.any());
  }

  TEST_CASE("layers of experts alone have nothing to hide their exchanges behind") {
    const auto hides = [](const char* model, const char* framework) {
      ProblemRequest request;
      request.hardware = "gb300-nvl72";
      request.model = model;
      request.framework = framework;
      request.precision = "mxfp8";
      const Problem problem = load_problem(request).problem;
      return problem.framework->overlap[static_cast<std::size_t>(Overlap::ExpertAllToAll)].hides();
    };
    CHECK(hides("qwen3-30b-a3b", "megatron"));
    CHECK_FALSE(hides("nemotron-3-nano-30b-a3b", "megatron"));
    CHECK(hides("nemotron-3-nano-30b-a3b", "fsdp2") == hides("qwen3-30b-a3b", "fsdp2"));
    // Convolutions slide in the activation format: the plan that was published in mxfp8 is legal.
    ProblemRequest published;
    published.hardware = "gb300-nvl72";
    published.model = "nemotron-3-nano-30b-a3b";
    published.precision = "mxfp8";
    published.gpus = 8;
    published.batch = 512;
    PlanDegrees plan;
    plan.data = plan.expert = 8;
    plan.micro_batch = 4;
    plan.micro_batches = 16;
    plan.zero = ZeroStage::Optimizer;
    const Evaluation answer = PlanEvaluator(load_problem(published).problem).evaluate(plan);
    CHECK(std::holds_alternative<Estimate>(answer));
  }

  TEST_CASE("moments in the format of products are those of such weights, without a master copy") {
    for (const bool master : {false, true}) {
      for (const char* states : {"bf16", "int8"}) {
        Framework framework = *test::toy_problem().framework;
        PrecisionPolicy& policy = framework.precision[DataType::Bf16];
        policy.parameter = DataType::Fp32;
        policy.gradient = DataType::Fp32;
        if (!master) policy.master.reset();
        ProblemRequest choice;
        choice.optimizer_states = states;
        apply_software(framework, {}, choice, DataType::Bf16);
        const bool plain = choice.optimizer_states == "bf16";
        const bool follows = plain && !master;
        CHECK(policy.moment == (plain ? DataType::Bf16 : DataType::Int8));
        CHECK(policy.parameter == (follows ? DataType::Bf16 : DataType::Fp32));
        CHECK(policy.gradient == (follows ? DataType::Bf16 : DataType::Fp32));
      }
    }
  }

  TEST_CASE("updates in backward: frameworks that can, and two words") {
    Framework framework = *test::toy_problem().framework;
    const auto ask = [&](const std::string& what) {
      return message_of([&] { apply_optimizer_in_backward(framework, what); });
    };
    CHECK(ask("0").empty());
    CHECK(ask("yes").find("unknown word 'yes'") != std::string::npos);
    CHECK(ask("1").find("toy updates parameters after backward") != std::string::npos);
    framework.has_optimizer_in_backward = true;
    CHECK(ask("1").empty());
    CHECK(framework.optimizer_in_backward);
  }

  TEST_CASE("modules to recompute: framework, model and recipe must have them") {
    const Problem problem = test::toy_problem();
    Framework framework = *problem.framework;
    const auto ask = [&](LayerModules modules) {
      return message_of(
          [&] { check_recompute_modules(framework, *problem.model, *problem.network, modules); });
    };
    const LayerModules mlp = bit_of(LayerModule::Mlp);
    const LayerModules norm = bit_of(LayerModule::LayerNorm);
    CHECK(ask(mlp).find("toy recomputes no modules by name") != std::string::npos);
    framework.recompute_modules = mlp | norm | bit_of(LayerModule::MlaUpProjection);
    CHECK(ask(mlp | bit_of(LayerModule::Moe)).find("unknown word 'moe'") != std::string::npos);
    CHECK(ask(bit_of(LayerModule::MlaUpProjection)).find("has no such module") !=
          std::string::npos);
    framework.fp8_recipe = Fp8Recipe::Delayed;
    CHECK(ask(mlp | norm).find("delayed scaling of fp8 does not support") != std::string::npos);
    CHECK(ask(mlp).empty());
    framework.fp8_recipe = Fp8Recipe::Block;
    CHECK(ask(mlp | norm).empty());
  }

  TEST_CASE("dispatchers: framework, machine and model must have them") {
    Framework framework = *test::toy_problem().framework;
    ModelDescription model = *test::toy_problem().model;
    Cluster machine = *test::toy_problem().cluster;
    const DispatcherId deepep = find_dispatcher("Deep_EP").value();
    const auto ask = [&](DispatcherId id) {
      return message_of([&] { check_dispatcher(framework, model, machine, id); });
    };
    CHECK(ask(deepep).find("has no experts") != std::string::npos);
    CHECK(ask(kOwnDispatcher).empty());
    model.moe = MoeDescription{};
    CHECK(ask(deepep).find("toy has no such dispatcher") != std::string::npos);
    TokenDispatcher by_nodes{"deepep", deepep, TokenPath::Nodes, 0.9, 0.7, "a table"};
    framework.dispatchers.push_back(by_nodes);
    CHECK(ask(deepep).empty());
    CHECK(ask(find_dispatcher("AllToAll").value()).empty());
    framework.dispatchers.back().needs = {{.format = DataType::Nvfp4, .message = "words of it"}};
    CHECK(ask(deepep).find("(words of it)") != std::string::npos);
    const std::size_t known = framework.dispatchers.size();
    leave_dispatchers_out(framework, machine);
    CHECK(framework.dispatchers.size() == known - 1);
    CHECK(ask(deepep).find("toy has no such dispatcher") != std::string::npos);
  }

  TEST_CASE("needs of software: links, fabrics, how many are linked, formats") {
    Cluster machine = *test::toy_problem().cluster;
    machine.accelerators_per_node = 8;
    machine.tiers.resize(2);
    machine.tiers[0].name = "NVLink";
    machine.tiers[0].size = 8;
    machine.tiers[0].nics.reset();
    machine.tiers[0].curve = LocalLinkCurve{};
    machine.tiers[1].name = "roce";
    machine.tiers[1].size = 64;
    machine.tiers[1].nics = Nics{8, Bandwidth(50e9)};
    machine.tiers[1].curve = FabricCurve{};
    const auto unmet = [&](const MachineNeed& need) {
      return unmet_need(std::vector{need}, machine).value_or("");
    };
    const MachineNeed links{.links = {"nvlink"}, .message = "m"};
    const MachineNeed fabrics{.fabrics = {"infiniband", "roce"}, .message = "m"};
    CHECK(unmet(links).empty());
    CHECK(unmet(fabrics).empty());
    CHECK(unmet({.most_linked = 8, .message = "m"}).empty());
    CHECK(unmet({.most_linked = 4, .message = "m"}).find("join 8 accelerators") !=
          std::string::npos);
    machine.tiers[0].size = 2;  // bridges between pairs do not join a node
    CHECK(unmet(links).find("needs nvlink inside a node") != std::string::npos);
    machine.tiers[0].size = 8;
    machine.tiers[0].name = "pcie";
    CHECK(unmet(links).find("has pcie (m)") != std::string::npos);
    machine.tiers[1].name = "efa";
    CHECK(unmet(fabrics).find("needs infiniband or roce between nodes") != std::string::npos);
    machine.tiers.pop_back();  // one node: nothing leaves it
    CHECK(unmet(fabrics).empty());
    machine.accelerator.peak.fill(std::nullopt);
    CHECK(unmet({.format = DataType::Bf16, .message = "m"}).find("has no bf16") !=
          std::string::npos);
  }

  TEST_CASE("weight gradients that run later: the framework must be able to") {
    Framework framework = *test::toy_problem().framework;
    const auto ask = [&](const char* value) {
      ProblemRequest choice;
      choice.delay_wgrad = value;
      return message_of([&] { apply_software(framework, {}, choice, DataType::Bf16); });
    };
    CHECK(ask("0").empty());
    CHECK(ask("2").find("unknown word '2'") != std::string::npos);
    CHECK(ask("1").find("toy runs weight gradients with their passes") != std::string::npos);
    framework.can_delay_weight_gradients = true;
    CHECK(ask("1").empty());
    CHECK(framework.delays_weight_gradients);
  }
}

}  // namespace plansearch::software_choice_test
