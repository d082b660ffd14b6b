// SPDX-License-Identifier: Apache-2.0
// Computes: plans in which some blocks lie on the devices of all stages together.
// Source: interlaced pipelines of nnScaler (Lin et al., OSDI 2024, section 3.3 and table 4).
// Assumes: the devices of a replica are one tensor group of such a block; activations are whole on
//          each of them.
// Units: ranks, copies of blocks.
// Checked by: tests/unit/plan/gangs_test.cpp
#include "plan/stages/gangs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "plan/legality/legality_parts.hpp"
#include "plan/stages/expand.hpp"
#include "plansearch/placements.hpp"
#include "schedule/table.hpp"
#include "schedule/window/block_plan.hpp"

namespace plansearch {
namespace {

Infeasible refuse(Obstacle obstacle, std::string detail) {
  return {.obstacle = obstacle, .detail = std::move(detail)};
}

/// Why the stages of a plan cannot share devices with a gang.
std::optional<Infeasible> check_stages(const ParallelPlan& plan, const Network& network) {
  const Assignment& assignment = *plan.assignment;
  if (assignment.replicas > 1 || splits_backward(plan.order.schedule)) {
    return refuse(Obstacle::NoSuchFeature,
                  fmt::format("{} orders no blocks on the devices of several stages",
                              to_text(plan.order.schedule)));
  }
  if (network.forwards > 1) {
    return refuse(Obstacle::NoSuchFeature,
                  fmt::format("micro-batches pass {} {} times: no order of blocks on the devices "
                              "of several stages is known",
                              network.name, network.forwards));
  }
  const int data = plan.transform_at(0).degrees.data;
  for (int p = 0; p < assignment.stages(); ++p) {
    const PlanDegrees& d = plan.transform_at(p).degrees;
    if (d.data != data) {
      return refuse(
          Obstacle::NoSuchFeature,
          fmt::format("stages of {} and of {} data ranks share no tensor group", data, d.data));
    }
    if (d.stage_ranks() == d.data * d.tensor_out) continue;
    return refuse(
        Obstacle::NoSuchFeature,
        "blocks on the devices of several stages are split over data and one tensor axis");
  }
  return std::nullopt;
}

/// The stages' mesh with the pipeline as part of the tensor group; where stages differ, neighbours.
DeviceMesh mesh_of(const ParallelPlan& plan, const PlanDegrees& degrees,
                   const Framework& framework) {
  const DeviceMesh& first = plan.transforms.front().mesh;
  const bool alike =
      plan.transforms.size() == 1 && first[Axis::Pipeline].size == plan.assignment->stages();
  PlanDegrees alone = degrees;
  alone.pipeline = 1;
  DeviceMesh mesh = make_device_mesh(alone, framework.rank_order);
  mesh.ranks = first.ranks;
  if (!alike) return mesh;
  mesh = first;
  for (std::size_t f = 0; f < kMostFactors; ++f) {
    mesh.roles[static_cast<std::size_t>(factor_axis(f))] = {};
  }
  MeshRole& tensor = mesh.roles[static_cast<std::size_t>(Axis::Out)];
  MeshRole& pipeline = mesh.roles[static_cast<std::size_t>(Axis::Pipeline)];
  tensor = {static_cast<std::uint16_t>(tensor.factors | pipeline.factors),
            tensor.size * pipeline.size};
  pipeline = {};
  return mesh;
}

Transform transform_of(const ParallelPlan& plan, const Framework& framework) {
  const Transform& first = plan.transform_at(0);
  Transform transform = first;
  transform.placements = nullptr;
  PlanDegrees& d = transform.degrees;
  d.tensor_out = plan.devices() / d.data;
  d.sequence_parallel = SequenceParallel::Off;
  d.temporal = Temporal::None;
  d.expert = d.expert_tensor = 1;
  d.pieces = 1;
  transform.mesh = mesh_of(plan, d, framework);
  return transform;
}

void append(std::vector<BlockRun>& runs, std::size_t block) {
  if (!runs.empty() && runs.back().block == block) {
    ++runs.back().count;
  } else {
    runs.push_back({block, 1});
  }
}

/// The same stages without what follows from their blocks.
std::shared_ptr<Assignment> stages_of(const Assignment& whole) {
  auto stages = std::make_shared<Assignment>();
  stages->positions = whole.positions;
  stages->groups = whole.groups;
  stages->chunks = whole.chunks;
  stages->skips = whole.skips;
  return stages;
}

/// Takes selected copies out of the groups.
class GangMaker {
 public:
  GangMaker(const Network& network, std::vector<bool> selected, Gang like)
      : network_(network),
        copies_(block_copies(network)),
        selected_(std::move(selected)),
        like_(std::move(like)) {}

  std::optional<Infeasible> run(Assignment& assignment) {
    std::size_t next = 0;
    for (std::size_t k = 0; k < assignment.groups.size(); ++k) {
      std::vector<BlockRun> rest;
      std::int64_t held = 0;
      for (const BlockRun& run : assignment.groups[k].blocks) held += run.count;
      for (std::int64_t i = 0; i < held; ++i, ++next) {
        if (!selected_[next]) {
          if (behind_ == k + 1) return in_the_middle(next);
          append(rest, copies_[next].block);
          continue;
        }
        take(assignment, next, rest.empty() ? k : k + 1);
        if (!rest.empty()) behind_ = k + 1;
      }
      assignment.groups[k].blocks = std::move(rest);
    }
    return std::nullopt;
  }

 private:
  /// A copy that micro-batches pass in front of group `before`, with those that it follows.
  void take(Assignment& assignment, std::size_t copy, std::size_t before) {
    auto& gangs = assignment.gangs;
    if (gangs.empty() || gangs.back().before != before || last_ + 1 != copy) {
      gangs.push_back(like_);
      gangs.back().before = before;
    }
    append(gangs.back().blocks, copies_[copy].block);
    last_ = copy;
  }

  [[nodiscard]] Infeasible in_the_middle(std::size_t copy) const {
    return refuse(Obstacle::NoSuchFeature,
                  fmt::format("{} lies in the middle of a stage, which would have two parts",
                              plain_block_name(network_.blocks[copies_[copy - 1].block].name)));
  }

  const Network& network_;
  std::vector<BlockCopy> copies_;
  std::vector<bool> selected_;
  Gang like_;
  std::size_t last_ = 0;
  std::size_t behind_ = 0;  ///< one more than the group that a gang stands behind
};

}  // namespace

std::optional<Infeasible> check_shared_devices(const Framework& framework) {
  if (framework.shares_devices) return std::nullopt;
  return Infeasible{.obstacle = Obstacle::FrameworkForbids,
                    .detail = fmt::format("{} runs no blocks on the devices of several stages, and "
                                          "no orders that are found (shared_devices)",
                                          framework.name)};
}

std::vector<bool> selected_copies(std::span<const std::string> blocks, const Network& network) {
  const std::vector<BlockCopy> copies = block_copies(network);
  std::vector<bool> selected(copies.size(), false);
  for (std::size_t c = 0; c < copies.size(); ++c) {
    const Block& block = network.blocks[copies[c].block];
    const std::string name = plain_block_name(block.name);
    selected[c] = std::ranges::any_of(
        blocks, [&](const std::string& selector) { return matches(selector, name); });
  }
  return selected;
}

std::variant<ParallelPlan, Infeasible> with_gangs(ParallelPlan plan,
                                                  std::span<const std::string> blocks,
                                                  const Network& network,
                                                  const Framework& framework) {
  if (plan.assignment->stages() == 1) return plan;
  if (auto bad = check_stages(plan, network)) return *std::move(bad);
  Gang like;
  like.place.transform = static_cast<int>(plan.transforms.size());
  for (int p = 0; p < plan.assignment->stages(); ++p) {
    like.positions.push_back(p);
    const int first = plan.assignment->positions[static_cast<std::size_t>(p)].first;
    like.place.first = p == 0 ? first : std::min(like.place.first, first);
  }
  const auto assignment = stages_of(*plan.assignment);
  GangMaker maker(network, selected_copies(blocks, network), std::move(like));
  if (auto bad = maker.run(*assignment)) return *std::move(bad);
  plan.transforms.push_back(transform_of(plan, framework));
  index_contents(*assignment, network);
  plan.assignment = assignment;
  plan.order.window = true;
  return plan;
}

ParallelPlan without_gangs(ParallelPlan plan, const Network& network) {
  if (plan.assignment->gangs.empty()) return plan;
  const Assignment& before = *plan.assignment;
  const auto assignment = stages_of(before);
  for (auto gang = before.gangs.rbegin(); gang != before.gangs.rend(); ++gang) {
    const bool last = gang->before == assignment->groups.size();
    auto& blocks = assignment->groups[gang->before - (last ? 1 : 0)].blocks;
    blocks.insert(last ? blocks.end() : blocks.begin(), gang->blocks.begin(), gang->blocks.end());
  }
  plan.transforms.resize(static_cast<std::size_t>(before.gangs.front().place.transform));
  index_contents(*assignment, network);
  plan.assignment = assignment;
  plan.order.window = false;
  plan.order.rules.clear();
  return plan;
}

std::vector<std::string> rule_texts(const ParallelPlan& plan, const Network& network) {
  std::vector<std::string> texts;
  if (!plan.order.window) return texts;
  const std::vector<std::string> names = pass_names(*plan.assignment, network);
  const auto name = [&](const StopPass& pass) {
    return names[2 * pass.stop + (pass.backward ? 1 : 0)];
  };
  for (const OrderRule& rule : plan.order.rules) {
    texts.push_back(rule_text(name(rule.first), name(rule.second), rule.later));
  }
  return texts;
}

std::vector<std::string> pass_names(const Assignment& assignment, const Network& network) {
  std::vector<std::string> names;
  std::size_t group = 0;
  for (std::size_t k = 0; k < assignment.stop_count(); ++k) {
    const Gang* gang = assignment.gang_at(k);
    const std::string name =
        gang != nullptr ? "." + plain_block_name(network.blocks[gang->blocks.front().block].name)
                        : fmt::format("{}", group++);
    names.push_back("f" + name);
    names.push_back("b" + name);
  }
  return names;
}

}  // namespace plansearch
