// SPDX-License-Identifier: Apache-2.0
#include "evaluate/framework_constants.hpp"

#include <doctest/doctest.h>

#include "plansearch/error.hpp"
#include "support/toy_problem.hpp"

namespace plansearch {

TEST_SUITE("unit") {
  TEST_CASE("a framework that lacks any constant is refused with its name") {
    const Framework whole = test::toy_framework();
    CHECK_NOTHROW(static_cast<void>(framework_constants(whole)));
    CHECK(whole.constants.size() == framework_constant_descriptions().size());
    for (const ConstantDescription& constant : framework_constant_descriptions()) {
      Framework framework = whole;
      framework.constants.erase(std::string(constant.name));
      try {
        static_cast<void>(framework_constants(framework));
        FAIL_CHECK(std::string(constant.name) << " is never read");
      } catch (const InputError& error) {
        CHECK(std::string(error.what()) ==
              "framework toy has no constant " + std::string(constant.name));
      }
    }
  }

  TEST_CASE("contention stands in the order of the overlap classes") {
    Framework framework = test::toy_framework();
    const std::array<const char*, kOverlapCount> names{
        "contention_gradient_reduction", "contention_parameter_gather",
        "contention_pipeline_send",      "contention_tensor_parallel",
        "contention_context_ring",       "contention_expert_all_to_all"};
    for (std::size_t i = 0; i < names.size(); ++i) {
      framework.constants[names[i]] = static_cast<double>(i + 1);
    }
    const FrameworkConstants constants = framework_constants(framework);
    CHECK(constants.contention[static_cast<std::size_t>(Overlap::GradientReduction)] == 1);
    CHECK(constants.contention[static_cast<std::size_t>(Overlap::ParameterGather)] == 2);
    CHECK(constants.contention[static_cast<std::size_t>(Overlap::PipelineSend)] == 3);
    CHECK(constants.contention[static_cast<std::size_t>(Overlap::TensorParallel)] == 4);
    CHECK(constants.contention[static_cast<std::size_t>(Overlap::ContextRing)] == 5);
    CHECK(constants.contention[static_cast<std::size_t>(Overlap::ExpertAllToAll)] == 6);
  }
}

}  // namespace plansearch
