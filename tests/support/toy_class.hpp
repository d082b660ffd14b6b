// SPDX-License-Identifier: Apache-2.0
// The equivalence class of one plan of a toy problem, and what its operators and blocks cost.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "evaluate/block/local_work.hpp"
#include "evaluate/block/operator_time.hpp"
#include "evaluate/block/profile_maker.hpp"
#include "plansearch/error.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::test {

/// The profile of one block with its communication, whoever made it.
struct ToyBlock : BlockProfile {
  std::vector<PricedCommunication> passes;  ///< inside a pass; counts and times per micro-batch
  std::shared_ptr<const ClassProfile> owner;
};

class ToyClass {
 public:
  ToyClass(Problem problem, const PlanDegrees& plan)
      : problem_(std::move(problem)),
        plan_(plan),
        mesh_(make_device_mesh(plan_, problem_.framework->rank_order)),
        context_(pricing_context(problem_)),
        maker_(problem_) {}
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

  [[nodiscard]] ToyBlock profile(const std::string& name) const {
    const auto owner = maker_.profile(plan_, mesh_);
    const auto index = static_cast<std::size_t>(&block(name) - network().blocks.data());
    ToyBlock toy{owner->blocks[index], {}, owner};
    for (PhaseLine& pass : maker_.passes(*owner, index)) toy.passes.push_back(std::move(pass.line));
    return toy;
  }

  /// One copy of a block, or a run of them, as its kernels and messages are issued.
  [[nodiscard]] SteadyRun steady(const std::string& name, BlockPass pass) const {
    const auto owner = maker_.profile(plan_, mesh_);
    const auto index = static_cast<std::size_t>(&block(name) - network().blocks.data());
    const BlockProgram program = maker_.program(*owner, index, pass);
    SteadyRun run;
    StreamSimulator(maker_.rates()).steady(program.streams, run);
    return run;
  }

  [[nodiscard]] std::vector<OperatorTime> times(const Block& b) const {
    const BlockIndex index = index_block(network(), b);
    const PlacementRules rules = placement_rules(network(), plan_, mesh_, *problem_.framework);
    const BlockCuts cuts = cut_block(network(), b, index, rules, place_block(network(), b, rules));
    std::vector<OperatorTime> times;
    std::vector<double> extents(rules.extents.begin(), rules.extents.end());
    fill_fullest_rank(network(), mesh_, plan_.micro_batch, extents);
    const LocalSizes sizes(b, index, cuts, extents);
    append_operator_times(context_, b, sizes, sizes, times);
    return times;
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
  DeviceMesh mesh_;
  PricingContext context_;
  ProfileMaker maker_;
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
