// SPDX-License-Identifier: Apache-2.0
// Computes: the plans of a named space, their order and their number.
// Source: ordered factorisations of the GPU count over (dp, pp, tp, cp); Megatron's expert folding.
// Assumes: lists of candidates are ascending and free of duplicates.
// Units: degrees and counts.
// Checked by: tests/unit/search/search_space_test.cpp (formula against walk, perft counts).
#include "plansearch/space.hpp"

#include <algorithm>
#include <utility>

namespace plansearch {
namespace {

struct MicroBatching {
  int size = 1;
  int count = 1;
};

/// The micro-batch sizes that divide the batch of one replica, ascending.
std::vector<MicroBatching> micro_batchings(const SearchSpace& space, int data) {
  std::vector<MicroBatching> found;
  if (space.global_batch % data != 0) return found;
  const std::int64_t per_replica = space.global_batch / data;
  for (const int size : space.micro_batch) {
    if (per_replica % size == 0) found.push_back({size, static_cast<int>(per_replica / size)});
  }
  return found;
}

template <typename Visit>
void for_each_expert(const SearchSpace& space, int ranks, Visit visit) {
  for (const int expert : space.expert) {
    for (const int expert_tensor : space.expert_tensor) {
      if (ranks % (expert * expert_tensor) == 0) visit(expert, expert_tensor);
    }
  }
}

template <typename T>
std::size_t options(const std::vector<T>& values, bool applies) {
  return applies ? values.size() : std::size_t{1};
}

/// The value that stands for "not applicable": the first of the list.
template <typename T>
const T& option(const std::vector<T>& values, std::size_t index, const T& fallback, bool applies) {
  return applies ? values[index] : fallback;
}

bool admits(const std::vector<int>& values, int value) {
  return values.empty() || std::find(values.begin(), values.end(), value) != values.end();
}

bool schedule_fits(ScheduleKind schedule, int chunks) {
  return (schedule == ScheduleKind::Interleaved) == (chunks > 1);
}

/// Without a pipeline, or with one micro-batch, GPipe and 1F1B are one and the same order.
bool tells_orders_apart(const PlanDegrees& plan, const SearchSpace& space) {
  if (plan.pipeline == 1) return false;
  const auto& schedules = space.schedule;
  return plan.micro_batches > 1 ||
         std::find(schedules.begin(), schedules.end(), ScheduleKind::OneFOneB) == schedules.end();
}

}  // namespace

SpaceWalk::SpaceWalk(SearchSpace space) : space_(std::move(space)) {
  for (const int pipeline : space_.pipeline) {
    for (const int tensor : space_.tensor) {
      for (const int context : space_.context) {
        const std::int64_t product = std::int64_t{pipeline} * tensor * context;
        if (space_.gpus % product != 0) continue;
        PlanDegrees plan;
        plan.pipeline = pipeline;
        plan.tensor_out = tensor;
        plan.context = context;
        plan.data = static_cast<int>(space_.gpus / product);
        if (!admits(space_.data, plan.data)) continue;
        triples_.push_back(plan);
      }
    }
  }
}

void SpaceWalk::append_prefixes(const PlanDegrees& triple, std::vector<SpacePrefix>& out) const {
  const bool has_tensor = triple.tensor() > 1;
  const bool has_context = triple.context > 1;
  const bool has_replicas = triple.data * triple.context > 1;
  const std::vector<MicroBatching> batchings = micro_batchings(space_, triple.data);
  for_each_expert(space_, triple.data * triple.context * triple.tensor(), [&](int ep, int etp) {
    for (std::size_t k = 0; k < options(space_.context_kind, has_context); ++k) {
      for (std::size_t s = 0; s < options(space_.sequence_parallel, has_tensor); ++s) {
        for (std::size_t z = 0; z < options(space_.zero, has_replicas); ++z) {
          for (const Recompute recompute : space_.recompute) {
            SpacePrefix prefix{triple};
            PlanDegrees& plan = prefix.plan;
            plan.expert = ep;
            plan.expert_tensor = etp;
            plan.context_kind = option(space_.context_kind, k, ContextKind::Ring, has_context);
            plan.sequence_parallel =
                option(space_.sequence_parallel, s, SequenceParallel::Off, has_tensor);
            plan.zero = option(space_.zero, z, ZeroStage::None, has_replicas);
            plan.recompute = recompute;
            for (const MicroBatching& batching : batchings) {
              plan.micro_batch = batching.size;
              plan.micro_batches = batching.count;
              out.push_back(prefix);
            }
          }
        }
      }
    }
  });
}

void SpaceWalk::append_leaves(const SpacePrefix& prefix, std::vector<PlanDegrees>& out) const {
  for (const int chunks : space_.chunks) {
    if (chunks > 1 && prefix.plan.pipeline == 1) continue;
    for (const ScheduleKind schedule : space_.schedule) {
      if (!schedule_fits(schedule, chunks)) continue;
      if (schedule == ScheduleKind::GPipe && !tells_orders_apart(prefix.plan, space_)) continue;
      PlanDegrees plan = prefix.plan;
      plan.chunks = chunks;
      plan.schedule = schedule;
      out.push_back(plan);
    }
  }
}

std::int64_t SpaceWalk::leaves_below(const SpacePrefix& prefix) const {
  std::int64_t flat = 0;
  std::int64_t interleaved = 0;
  for (const ScheduleKind schedule : space_.schedule) {
    if (schedule == ScheduleKind::Interleaved) {
      interleaved += 1;
    } else if (schedule != ScheduleKind::GPipe || tells_orders_apart(prefix.plan, space_)) {
      flat += 1;
    }
  }
  std::int64_t single = 0;
  std::int64_t many = 0;
  for (const int chunks : space_.chunks) (chunks == 1 ? single : many) += 1;
  return single * flat + (prefix.plan.pipeline > 1 ? many * interleaved : 0);
}

std::int64_t SpaceWalk::leaves_below(const PlanDegrees& triple) const {
  std::int64_t leaves = 0;
  for (const MicroBatching& batching : micro_batchings(space_, triple.data)) {
    SpacePrefix prefix{triple};
    prefix.plan.micro_batches = batching.count;
    leaves += leaves_below(prefix);
  }
  std::int64_t experts = 0;
  for_each_expert(space_, triple.data * triple.context * triple.tensor(),
                  [&](int, int) { ++experts; });
  const auto kinds = options(space_.context_kind, triple.context > 1) *
                     options(space_.sequence_parallel, triple.tensor() > 1) *
                     options(space_.zero, triple.data * triple.context > 1) *
                     space_.recompute.size();
  return leaves * experts * static_cast<std::int64_t>(kinds);
}

std::int64_t SpaceWalk::size() const {
  std::int64_t total = 0;
  for (const PlanDegrees& triple : triples_) total += leaves_below(triple);
  return total;
}

}  // namespace plansearch
