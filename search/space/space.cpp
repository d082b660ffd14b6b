// SPDX-License-Identifier: Apache-2.0
// Computes: the plans of a space, their order and their number.
// Source: a space is the product of its dimensions less what constraints forbid; counting keeps one
//         sum for everything that is equal for later dimensions.
// Assumes: predicates read only the degrees that they list.
// Units: degrees and counts.
// Checked by: tests/unit/search/search_space_test.cpp (formula against walk, perft counts).
#include "plansearch/space.hpp"

#include <algorithm>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

bool intersects(DegreeSet a, DegreeSet b) {
  for (std::size_t i = 0; i < kDegreeCount; ++i) {
    const auto degree = static_cast<Degree>(i);
    if (a.contains(degree) && b.contains(degree)) return true;
  }
  return false;
}

}  // namespace

const SpaceDimension& SearchSpace::dimension(Degree degree) const {
  const auto found = std::ranges::find(dimensions, degree, &SpaceDimension::degree);
  PLANSEARCH_CHECK(found != dimensions.end());
  return *found;
}

SpaceDimension& SearchSpace::dimension(Degree degree) {
  return const_cast<SpaceDimension&>(std::as_const(*this).dimension(degree));
}

std::vector<SpaceConstraint> mesh_constraints(int gpus, std::int64_t global_batch) {
  const auto replicas = [](const PlanDegrees& plan) {
    return std::int64_t{1} * plan.data * plan.tensor_depth * plan.micro_batch;
  };
  return {
      {{kMeshDegrees, [gpus](const PlanDegrees& plan) { return gpus % plan.devices() == 0; }},
       Asked::Throughout},
      {{kMeshDegrees, [gpus](const PlanDegrees& plan) { return gpus == plan.devices(); }}},
      {{kBatchDegrees, [global_batch, replicas](
                           const PlanDegrees& plan) { return global_batch % replicas(plan) == 0; }},
       Asked::Throughout}};
}

SpaceWalk::SpaceWalk(SearchSpace space)
    : space_(std::move(space)), asked_(depth()), read_from_(depth() + 1) {
  for (const SpaceConstraint& constraint : space_.constraints) {
    const std::size_t known = level_above(constraint.admits.reads);
    for (std::size_t level = 0; level < depth(); ++level) {
      const bool last = level + 1 == known;
      const bool early = constraint.asked == Asked::Throughout &&
                         constraint.admits.reads.contains(space_.dimensions[level].degree);
      if (last || early) asked_[level].push_back(constraint.admits);
    }
  }
  batching_level_ = level_above(kBatchDegrees);
  for (std::size_t level = depth(); level-- > 0;) {
    DegreeSet reads = read_from_[level + 1] | space_.dimensions[level].applies.reads;
    for (const PlanPredicate& predicate : asked_[level]) reads = reads | predicate.reads;
    read_from_[level] = reads;
  }
}

std::size_t SpaceWalk::level_of(Degree degree) const {
  return static_cast<std::size_t>(&space_.dimension(degree) - space_.dimensions.data());
}

std::size_t SpaceWalk::level_above(DegreeSet degrees) const {
  std::size_t level = 0;
  for (std::size_t k = 0; k < depth(); ++k) {
    if (degrees.contains(space_.dimensions[k].degree)) level = k + 1;
  }
  return level;
}

bool SpaceWalk::decide(std::size_t level, PlanDegrees& plan, int value) const {
  set_degree(plan, space_.dimensions[level].degree, value);
  if (level + 1 == batching_level_) {
    const std::int64_t parts = std::int64_t{1} * plan.data * plan.tensor_depth * plan.micro_batch;
    plan.micro_batches = static_cast<int>(space_.global_batch / parts);
  }
  return std::ranges::all_of(asked_[level],
                             [&](const PlanPredicate& admits) { return admits(plan); });
}

SpaceCounter::SpaceCounter(const SpaceWalk& walk) : walk_(walk), levels_(walk.depth()) {
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    Level& own = levels_[level];
    const DegreeSet read = walk.read_from(level);
    for (const DegreeRow& row : degree_table()) {
      if (read.contains(row.degree)) own.read.push_back(&row);
    }
    own.reads_batch = intersects(read, kBatchDegrees);
    own.matters = walk.read_from(level + 1).contains(walk.space().dimensions[level].degree);
  }
}

std::int64_t SpaceCounter::below(std::size_t level, const PlanDegrees& plan) {
  if (level == walk_.depth()) return 1;
  Level& own = levels_[level];
  PlanDegrees key;
  for (const DegreeRow* row : own.read) row->set(key, row->get(plan));
  if (own.reads_batch) key.micro_batches = plan.micro_batches;
  const auto known = own.known.find(key);
  if (known != own.known.end()) return known->second;
  const bool matters = own.matters;
  std::int64_t values = 0;
  std::int64_t total = 0;
  walk_.for_each_value(level, plan, [&](const PlanDegrees& next) {
    ++values;
    if (matters) total += below(level + 1, next);
    // Later choices do not depend on the value: one of them stands for all.
    if (!matters && values == 1) total = below(level + 1, next);
  });
  if (!matters) total *= values;
  own.known.emplace(key, total);
  return total;
}

/// Kinds have few values: plans that differ in them alone may share a bucket.
std::size_t SpaceCounter::Hash::operator()(const PlanDegrees& plan) const noexcept {
  std::uint64_t sum = 0;
  std::uint64_t factor = 0x9E3779B97F4A7C15ULL;
  for (const int degree : {plan.data, plan.pipeline, plan.chunks, plan.tensor_in, plan.tensor_out,
                           plan.tensor_depth, plan.context, plan.expert, plan.expert_tensor,
                           plan.shard_group, plan.micro_batch, plan.micro_batches}) {
    sum += static_cast<std::uint64_t>(degree) * factor;
    factor += 0xD6E8FEB86659FD92ULL;
  }
  return static_cast<std::size_t>(sum ^ sum >> 32U);
}

}  // namespace plansearch
