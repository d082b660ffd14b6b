// SPDX-License-Identifier: Apache-2.0
// The equivalence class of one plan of a toy problem, and what its operators and blocks cost.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "evaluate/operator_time.hpp"
#include "plansearch/error.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::test {

class ToyClass {
 public:
  ToyClass(Problem problem, const PlanDegrees& plan)
      : problem_(std::move(problem)),
        plan_(plan),
        constants_(framework_constants(*problem_.framework)),
        precision_(problem_.framework->precision.at(problem_.precision)),
        mesh_(make_device_mesh(plan_, problem_.framework->rank_order)),
        context_{problem_,
                 constants_,
                 precision_,
                 plan_,
                 placement_rules(*problem_.network, plan_, mesh_, *problem_.framework),
                 tensor_policies(plan_, mesh_, *problem_.framework, problem_.precision)} {}
  ToyClass(const ToyClass&) = delete;
  ToyClass& operator=(const ToyClass&) = delete;

  [[nodiscard]] const Accelerator& chip() const { return problem_.cluster->accelerator; }
  [[nodiscard]] const Network& network() const { return *problem_.network; }

  [[nodiscard]] const Block& block(const std::string& name) const {
    for (const Block& b : network().blocks) {
      if (b.name == name) return b;
    }
    throw InternalError("no block " + name);
  }

  [[nodiscard]] BlockProfile profile(const std::string& name) const {
    return profile_block(context_, block(name));
  }

  [[nodiscard]] std::vector<OperatorTime> times(const Block& b) const {
    return operator_times(context_, b, place_block(network(), b, context_.rules));
  }

  [[nodiscard]] OperatorTime time(const std::string& block_name, const std::string& name) const {
    const Block& b = block(block_name);
    const auto found = std::find_if(b.operators.begin(), b.operators.end(),
                                    [&](const Operator& op) { return op.name == name; });
    if (found == b.operators.end()) throw InternalError("no operator " + name);
    return times(b)[static_cast<std::size_t>(found - b.operators.begin())];
  }

 private:
  Problem problem_;
  PlanDegrees plan_;
  FrameworkConstants constants_;
  PrecisionPolicy precision_;
  DeviceMesh mesh_;
  ClassContext context_;
};

/// The problem with its network changed.
template <typename Change>
[[nodiscard]] Problem with_network(Problem problem, Change change) {
  Network network = *problem.network;
  change(network);
  problem.network = std::make_shared<const Network>(std::move(network));
  return problem;
}

/// The problem with its framework changed.
template <typename Change>
[[nodiscard]] Problem with_framework(Problem problem, Change change) {
  Framework framework = *problem.framework;
  change(framework);
  problem.framework = std::make_shared<const Framework>(std::move(framework));
  return problem;
}

}  // namespace plansearch::test
