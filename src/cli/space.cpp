// SPDX-License-Identifier: Apache-2.0
#include "cli/space.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/degrees.hpp"
#include "cli/numbers.hpp"
#include "plan/legality.hpp"
#include "plan/recompute.hpp"
#include "plansearch/error.hpp"

namespace plansearch::cli {
namespace {

/// Context parallelism stops where a rank would hold fewer tokens than this.
constexpr std::int64_t kTokensPerContextRank = 256;

/// Where selective recompute drops nothing it is the same as none, and looked at once.
std::vector<Recompute> recompute_levels(const Problem& problem) {
  if (selective_drops(*problem.network, problem.framework->selective)) {
    return {Recompute::None, Recompute::Selective, Recompute::Full};
  }
  return {Recompute::None, Recompute::Full};
}

/// Every degree of freedom of Megatron-style plans, all divisors.
SearchSpace megatron_space(const Problem& problem) {
  const std::int64_t layers = layer_count(*problem.network);
  SearchSpace space;
  space.gpus = problem.gpus;
  space.global_batch = problem.global_batch;
  space.pipeline = divisors(problem.gpus, layers);
  space.tensor = divisors(problem.gpus, std::max<std::int64_t>(1, problem.model->attention.heads));
  space.context =
      divisors(problem.gpus, std::max<std::int64_t>(1, problem.seq_len / kTokensPerContextRank));
  std::erase_if(space.context, [&](int degree) { return problem.seq_len % degree != 0; });
  space.expert = problem.model->moe ? divisors(problem.model->moe->experts) : std::vector<int>{1};
  space.expert_tensor = {1};
  space.micro_batch = divisors(problem.global_batch);
  space.chunks = divisors(layers);
  space.context_kind = {ContextKind::Ring, ContextKind::Ulysses};
  space.sequence_parallel = {SequenceParallel::Off, SequenceParallel::On};
  space.zero = {ZeroStage::None, ZeroStage::Optimizer, ZeroStage::Gradients, ZeroStage::Parameters};
  space.recompute = recompute_levels(problem);
  if (space.recompute.size() < 3) {
    space.left_out.push_back(
        "selective recompute (fused attention leaves it nothing to drop: it equals none)");
  }
  space.schedule = {ScheduleKind::GPipe, ScheduleKind::OneFOneB, ScheduleKind::Interleaved};
  return space;
}

/// Tells which values of a degree of freedom a framework's rules refuse whatever else is chosen.
class FrameworkFilter {
 public:
  explicit FrameworkFilter(const Problem& problem) : problem_(problem) {
    base_.data = 2;
    base_.micro_batches = 64;
  }

  void narrow(SearchSpace& space) {
    keep(space.zero, [](PlanDegrees& plan, ZeroStage value) { plan.zero = value; });
    if (!space.zero.empty()) base_.zero = space.zero.front();
    keep(space.recompute, [](PlanDegrees& plan, Recompute value) { plan.recompute = value; });
    keep(space.pipeline, [](PlanDegrees& plan, int value) { plan.pipeline = value; });
    keep(space.tensor, [](PlanDegrees& plan, int value) {
      plan.tensor_out = value;
      plan.sequence_parallel = value > 1 ? SequenceParallel::On : SequenceParallel::Off;
    });
    keep(space.context_kind, [](PlanDegrees& plan, ContextKind value) {
      plan.context = 2;
      plan.context_kind = value;
    });
    keep_contexts(space);
    keep(space.expert, [](PlanDegrees& plan, int value) {
      plan.expert = value;
      plan.data = 2 * value;
    });
    keep(space.schedule, [](PlanDegrees& plan, ScheduleKind value) {
      plan.schedule = value;
      plan.pipeline = 2;
      plan.chunks = value == ScheduleKind::Interleaved ? 2 : 1;
    });
    if (space.pipeline.size() < 2 || !has(space.schedule, ScheduleKind::Interleaved)) {
      space.chunks = {1};
    }
  }

 private:
  template <typename T>
  static bool has(const std::vector<T>& values, T value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  }

  [[nodiscard]] bool forbidden(const PlanDegrees& plan) const {
    const auto infeasible =
        check_legality(plan, *problem_.network, *problem_.framework, plan.devices());
    return infeasible && (infeasible->obstacle == Obstacle::FrameworkForbids ||
                          infeasible->obstacle == Obstacle::NoSuchFeature);
  }

  /// Removes forbidden values; when that would leave none, the search itself says why.
  template <typename T, typename Set>
  void keep(std::vector<T>& values, Set set) const {
    std::vector<T> kept;
    for (const T& value : values) {
      PlanDegrees plan = base_;
      set(plan, value);
      if (!forbidden(plan)) kept.push_back(value);
    }
    if (!kept.empty()) values = std::move(kept);
  }

  void keep_contexts(SearchSpace& space) const {
    keep(space.context, [&](PlanDegrees& plan, int value) {
      plan.context = value;
      plan.context_kind = space.context_kind.front();
    });
  }

  const Problem& problem_;
  PlanDegrees base_;
};

/// Replication and sharding over data only: what needs no change to the network's code.
void reduce_to_data(SearchSpace& space) {
  space.pipeline = {1};
  space.tensor = {1};
  space.context = {1};
  space.expert = {1};
  space.chunks = {1};
  space.schedule = {ScheduleKind::OneFOneB};
}

template <typename T>
void pin(std::vector<T>& values, const std::optional<T>& value) {
  if (value) values = {*value};
}

void pin_degrees(SearchSpace& space, const DegreeOptions& d) {
  if (d.tp_x.value_or(1) > 1 || d.tp_z.value_or(1) > 1) {
    throw InputError({}, "no space of the search varies --tp-x or --tp-z",
                     "plansearch predict prices one such plan");
  }
  if (d.shard_group) {
    throw InputError({}, "no space of the search varies --shard-group",
                     "plansearch predict prices one such plan");
  }
  pin(space.data, d.dp);
  pin(space.pipeline, d.pp);
  pin(space.tensor, tensor_out_of(d));
  pin(space.context, d.cp);
  pin(space.expert, d.ep);
  pin(space.expert_tensor, d.etp);
  pin(space.micro_batch, d.micro_batch);
  pin(space.chunks, d.vpp);
  pin(space.context_kind, context_kind_of(d));
  pin(space.sequence_parallel, sequence_parallel_of(d));
  pin(space.zero, zero_of(d));
  pin(space.recompute, recompute_of(d));
  pin(space.schedule, schedule_of(d));
  if (d.vpp && *d.vpp > 1) space.schedule = {ScheduleKind::Interleaved};
  if (schedule_of(d) == ScheduleKind::Interleaved) std::erase(space.chunks, 1);
  if (d.recompute) space.left_out.clear();
}

std::string pinned_text(const DegreeOptions& d) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : {std::pair{"dp", d.dp},
                                    {"pp", d.pp},
                                    {"tp", tensor_out_of(d)},
                                    {"cp", d.cp},
                                    {"ep", d.ep},
                                    {"micro-batch", d.micro_batch}}) {
    if (value) parts.push_back(fmt::format("{} {}", name, *value));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

SearchSpace build_space(const Problem& problem, const Options& options) {
  SearchSpace space = megatron_space(problem);
  space.name = options.space.empty() || options.space == "framework" ? problem.framework->name
                                                                     : options.space;
  if (options.space != "megatron") FrameworkFilter(problem).narrow(space);
  if (options.space == "data") reduce_to_data(space);
  pin_degrees(space, options.degrees);
  if (SpaceWalk(space).size() == 0) {
    throw InputError({},
                     fmt::format("no plan for {} GPUs and batch {} has {}", problem.gpus,
                                 problem.global_batch, pinned_text(options.degrees)),
                     "dp x pp x cp x tp is the number of GPUs, and dp x micro-batch divides the "
                     "batch");
  }
  return space;
}

}  // namespace plansearch::cli
