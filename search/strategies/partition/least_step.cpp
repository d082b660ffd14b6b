// SPDX-License-Identifier: Apache-2.0
// Computes: a lower bound of the step of every plan with these blocks in these stages.
// Source: the mean stage works no longer than the busiest. Where stages hold one group each and run
//         whole backward passes, the first micro-batch reaches group k when all before it have run
//         their forward, and after the last backward of group k all before it run theirs:
//         sum of T_i (i < k) + m T_k for m micro-batches.
// Assumes: kernels of a block are never faster than those given; waiting only adds to them.
// Units: seconds.
// Checked by: tests/unit/search/least_step_test.cpp
#include "search/strategies/partition/least_step.hpp"

#include <algorithm>

#include "schedule/table.hpp"

namespace plansearch {
namespace {

Seconds work_of(const OperatorGroup& group, const std::vector<Seconds>& kernels) {
  Seconds work;
  for (const BlockRun& run : group.blocks) {
    work += kernels[run.block] * static_cast<double>(run.count);
  }
  return work;
}

}  // namespace

Seconds least_step(const std::vector<Seconds>& kernels, const ParallelPlan& plan) {
  const Assignment& assignment = *plan.assignment;
  const bool in_turn = assignment.held() == 1 && !splits_backward(plan.order.schedule);
  const auto micro_batches = static_cast<double>(plan.order.micro_batches);
  Seconds before;
  Seconds longest;
  for (const OperatorGroup& group : assignment.groups) {
    const Seconds work = work_of(group, kernels);
    if (in_turn) longest = std::max(longest, before + work * micro_batches);
    before += work;
  }
  const double shared = static_cast<double>(assignment.replicas) * assignment.stages();
  return std::max(longest, before * (micro_batches / shared));
}

}  // namespace plansearch
