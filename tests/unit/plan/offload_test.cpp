// SPDX-License-Identifier: Apache-2.0
#include "plan/primitives/offload.hpp"

#include <doctest/doctest.h>

#include "plan/legality/legality.hpp"
#include "plansearch/degree_table.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::offload_test {
namespace {

TEST_SUITE("unit") {
  TEST_CASE("bits and words of tensors on the host are the same") {
    CHECK(find_host_tensors("none") == HostBits{0});
    CHECK(find_host_tensors("0") == HostBits{0});
    CHECK(find_host_tensors("parameters,optimizer") == HostBits{3});
    CHECK(host_text(3) == "optimizer,parameters");
    CHECK(find_host_tensors("activations+core_attn") == HostBits{4 + 8});
    CHECK(host_text(12) == "activations,core_attn");
    CHECK(!find_host_tensors("disk"));
    CHECK(!find_host_tensors(""));
    for (std::size_t set = 0; set < kHostSets; ++set) {
      const auto bits = static_cast<HostBits>(set);
      CHECK(to_bits(host_tensors(bits)) == bits);
      CHECK(find_host_tensors(host_text(bits)) == bits);
    }
    CHECK(value_text(Degree::Offload, 5) == "optimizer,activations");
    CHECK(parse_value(Degree::Offload, "activations,optimizer") == 5);
  }

  TEST_CASE("choices of tensors on the host: what the framework knows, the fewest first") {
    Framework framework = *test::toy_problem().framework;
    CHECK(host_choices(framework).empty());
    framework.optimizer_offload = OptimizerOffload{};
    framework.offloads.activations = true;
    CHECK(host_choices(framework) == std::vector<HostBits>{1, 4, 5});
    framework.offloads.parameters = true;
    CHECK(host_choices(framework) == std::vector<HostBits>{1, 2, 4, 3, 5, 6, 7});
    framework.offloads.modules = bit_of(LayerModule::CoreAttention);
    CHECK(host_choices(framework).size() == 7);  // modules are asked for by name
    CHECK(kept_on_device(framework, 1 + 2 + 4 + 8) == 0);
    CHECK(kept_on_device(framework, 1 + 8 + 16) == 16);
  }

  TEST_CASE("a plan keeps on the host what its framework can, parameters with --zero 3") {
    const Problem problem = test::toy_problem();
    Framework framework = *problem.framework;
    PlanDegrees plan;
    plan.data = 16;
    const auto refusal = [&] {
      const auto bad = check_legality(plan, *problem.network, framework, 16, problem.precision);
      return bad ? bad->detail : std::string();
    };
    plan.on_host = 4;
    CHECK(refusal() == "toy keeps activations on the device");
    framework.offloads.activations = framework.offloads.parameters = true;
    CHECK(refusal().empty());
    plan.on_host = 6;
    CHECK(refusal().find("--zero 3") != std::string::npos);
    plan.zero = ZeroStage::Parameters;
    CHECK(refusal().empty());
  }
}

}  // namespace
}  // namespace plansearch::offload_test
