// SPDX-License-Identifier: Apache-2.0
#include "cli/degrees.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "cli/numbers.hpp"
#include "plan/legality.hpp"
#include "plan/pipeline_shape.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"

namespace plansearch::cli {
namespace {

/// A degree whose legality can be judged by itself.
struct Pinned {
  const char* flag;
  std::optional<int> value;
  std::function<void(PlanDegrees&, int)> set;
};

/// What stands in the way when only this degree is above one. Whatever concerns the rest of the
/// plan (number of GPUs, batch) is not looked at.
std::optional<Infeasible> obstacle_alone(const Pinned& degree, int value, const Problem& problem) {
  PlanDegrees plan;
  degree.set(plan, value);
  plan.micro_batches = plan.pipeline;
  const auto infeasible =
      check_legality(plan, *problem.network, *problem.framework, plan.devices());
  if (!infeasible) return std::nullopt;
  switch (infeasible->obstacle) {
    case Obstacle::DegreesDoNotMultiply:
    case Obstacle::BatchNotDivisible:
    case Obstacle::ScheduleNeedsMicroBatches:
    case Obstacle::FrameworkForbids:
    case Obstacle::OutOfMemory:
      return std::nullopt;
    default:
      return infeasible;
  }
}

std::string legal_values(const Pinned& degree, const Problem& problem) {
  constexpr int kTried = 1024;
  constexpr std::size_t kShown = 12;
  std::vector<int> legal;
  for (int value = 1; value <= kTried && legal.size() <= kShown; ++value) {
    if (!obstacle_alone(degree, value, problem)) legal.push_back(value);
  }
  const bool more = legal.size() > kShown;
  if (more) legal.pop_back();
  return fmt::format("legal values: {}{}", fmt::join(legal, ", "), more ? ", ..." : "");
}

std::vector<Pinned> pinned_degrees(const DegreeOptions& d) {
  return {
      {"--tp", d.tp, [](PlanDegrees& plan, int value) { plan.tensor_out = value; }},
      {"--tp-x", d.tp_x, [](PlanDegrees& plan, int value) { plan.tensor_in = value; }},
      {"--tp-y", d.tp_y, [](PlanDegrees& plan, int value) { plan.tensor_out = value; }},
      {"--tp-z", d.tp_z, [](PlanDegrees& plan, int value) { plan.tensor_depth = value; }},
      {"--pp", d.pp, [](PlanDegrees& plan, int value) { plan.pipeline = value; }},
      {"--cp", d.cp,
       [kind = context_kind_of(d)](PlanDegrees& plan, int value) {
         plan.context = value;
         plan.context_kind = kind.value_or(ContextKind::Ring);
       }},
      {"--ep", d.ep,
       [](PlanDegrees& plan, int value) {
         plan.expert = value;
         plan.data = value;
       }},
  };
}

void require_range(const char* flag, std::optional<int> value, int low, int high) {
  if (!value || (*value >= low && *value <= high)) return;
  if (high == std::numeric_limits<int>::max()) {
    throw InputError({}, fmt::format("{} {}: must be at least {}", flag, *value, low),
                     "degrees count from 1");
  }
  throw InputError({}, fmt::format("{} {}: must be from {} to {}", flag, *value, low, high));
}

/// None where the framework can do without; the one that always shards (FSDP) shards all it can.
ZeroStage default_zero(PlanDegrees plan, const Problem& problem) {
  for (const ZeroStage stage :
       {ZeroStage::None, ZeroStage::Parameters, ZeroStage::Gradients, ZeroStage::Optimizer}) {
    plan.zero = stage;
    if (!check_legality(plan, *problem.network, *problem.framework, problem.gpus)) return stage;
  }
  return ZeroStage::None;
}

/// Data-parallel degree from the flag, or what the GPUs leave.
int data_degree(const DegreeOptions& d, const PlanDegrees& plan, std::optional<int> gpus) {
  const std::int64_t others = std::int64_t{plan.pipeline} * plan.context * plan.tensor_in *
                              plan.tensor_out * plan.tensor_depth;
  const std::int64_t product = others * d.dp.value_or(1);
  if (product > std::numeric_limits<int>::max()) {
    throw InputError({}, fmt::format("the degrees multiply to {}", product));
  }
  if (!gpus) return d.dp.value_or(1);
  if (d.dp ? product != *gpus : *gpus % others != 0) {
    throw InputError(
        {},
        fmt::format("{} GPUs: pp {} x cp {} x tp {}{} is {}", *gpus, plan.pipeline, plan.context,
                    plan.tensor(), d.dp ? fmt::format(" x dp {}", *d.dp) : "", product),
        d.dp ? "dp x pp x cp x tp must be the number of GPUs"
             : "pp x cp x tp must divide the number of GPUs");
  }
  return static_cast<int>(*gpus / others);
}

void set_micro_batches(PlanDegrees& plan, std::int64_t batch) {
  const std::int64_t replicas = std::int64_t{plan.data} * plan.tensor_depth;
  if (batch % replicas != 0) {
    throw InputError(
        {}, fmt::format("batch {} does not divide over dp {}", batch, replicas),
        fmt::format("make --batch a multiple of {}; legal values of --dp for batch {}: {}",
                    replicas, batch, fmt::join(divisors(batch, kShownDivisors), ", ")));
  }
  const std::int64_t local = batch / replicas;
  if (local % plan.micro_batch != 0) {
    throw InputError(
        {}, fmt::format("--micro-batch {}: each replica has {} sequences", plan.micro_batch, local),
        fmt::format("legal values: {}", fmt::join(divisors(local, kShownDivisors), ", ")));
  }
  plan.micro_batches = static_cast<int>(local / plan.micro_batch);
}

}  // namespace

std::optional<Recompute> recompute_of(const DegreeOptions& degrees) {
  if (!degrees.recompute) return std::nullopt;
  if (*degrees.recompute == "full") return Recompute::Full;
  return *degrees.recompute == "selective" ? Recompute::Selective : Recompute::None;
}

std::optional<ScheduleId> schedule_of(const DegreeOptions& degrees) {
  return degrees.schedule ? find_schedule(*degrees.schedule) : std::nullopt;
}

std::optional<ContextKind> context_kind_of(const DegreeOptions& degrees) {
  if (!degrees.cp_kind) return std::nullopt;
  return *degrees.cp_kind == "ulysses" ? ContextKind::Ulysses : ContextKind::Ring;
}

std::optional<ZeroStage> zero_of(const DegreeOptions& degrees) {
  if (!degrees.zero) return std::nullopt;
  return static_cast<ZeroStage>(*degrees.zero);
}

std::optional<SequenceParallel> sequence_parallel_of(const DegreeOptions& degrees) {
  if (!degrees.sp) return std::nullopt;
  return *degrees.sp == 0 ? SequenceParallel::Off : SequenceParallel::On;
}

std::optional<int> tensor_out_of(const DegreeOptions& degrees) {
  return degrees.tp ? degrees.tp : degrees.tp_y;
}

void check_degrees(const DegreeOptions& d) {
  if (d.tp && (d.tp_x || d.tp_y || d.tp_z)) {
    throw InputError(
        {}, "--tp together with --tp-x, --tp-y or --tp-z",
        "--tp N is --tp-y N; give the axes one by one or their Megatron form, not both");
  }
  constexpr int kMost = std::numeric_limits<int>::max();
  for (const auto& [flag, value] : {std::pair{"--dp", d.dp},
                                    {"--pp", d.pp},
                                    {"--vpp", d.vpp},
                                    {"--tp", d.tp},
                                    {"--tp-x", d.tp_x},
                                    {"--tp-y", d.tp_y},
                                    {"--tp-z", d.tp_z},
                                    {"--cp", d.cp},
                                    {"--ep", d.ep},
                                    {"--etp", d.etp},
                                    {"--micro-batch", d.micro_batch},
                                    {"--shard-group", d.shard_group}}) {
    require_range(flag, value, 1, kMost);
  }
  require_range("--zero", d.zero, 0, 3);
  require_range("--sp", d.sp, 0, 1);
  const auto schedule = schedule_of(d);
  if (schedule && d.vpp && !schedule_row(*schedule).chunks.contains(*d.vpp)) {
    const ChunkRange& chunks = schedule_row(*schedule).chunks;
    const ShapeFault fault{ShapeField::Chunks, *d.vpp, {chunks.fewest, 1, chunks.most}};
    throw InputError({}, fmt::format("--schedule {} with --vpp {}", *d.schedule, *d.vpp),
                     to_text(*schedule, fault));
  }
}

void check_degrees_fit(const DegreeOptions& degrees, const Problem& problem) {
  for (const Pinned& degree : pinned_degrees(degrees)) {
    if (!degree.value || *degree.value == 1) continue;
    if (const auto infeasible = obstacle_alone(degree, *degree.value, problem)) {
      const std::string reason = infeasible->detail.substr(0, infeasible->detail.find("; legal"));
      throw InputError({}, fmt::format("{} {}: {}", degree.flag, *degree.value, reason),
                       legal_values(degree, problem));
    }
  }
}

PlanDegrees plan_from_degrees(const DegreeOptions& d, const Problem& problem,
                              std::optional<int> gpus) {
  PlanDegrees plan;
  plan.pipeline = d.pp.value_or(1);
  plan.tensor_out = tensor_out_of(d).value_or(1);
  plan.tensor_in = d.tp_x.value_or(1);
  plan.tensor_depth = d.tp_z.value_or(1);
  plan.context = d.cp.value_or(1);
  plan.context_kind = context_kind_of(d).value_or(ContextKind::Ring);
  plan.expert = d.ep.value_or(1);
  plan.expert_tensor = d.etp.value_or(1);
  plan.shard_group = d.shard_group.value_or(0);
  plan.micro_batch = d.micro_batch.value_or(1);
  plan.recompute = recompute_of(d).value_or(Recompute::None);
  // Without tensor ranks there is nothing to spread the tokens over.
  const auto asked_sp = sequence_parallel_of(d).value_or(SequenceParallel::Off);
  plan.sequence_parallel = plan.tensor() > 1 ? asked_sp : SequenceParallel::Off;
  const auto schedule = schedule_of(d);
  plan.chunks = d.vpp.value_or(schedule ? schedule_row(*schedule).chunks.fewest : 1);
  plan.schedule = schedule.value_or(default_schedule(*problem.framework, plan.pipeline, plan.chunks));
  plan.data = data_degree(d, plan, gpus);
  set_micro_batches(plan, problem.global_batch);
  Problem sized = problem;
  sized.gpus = plan.devices();
  plan.zero = d.zero ? *zero_of(d) : default_zero(plan, sized);
  return plan;
}

namespace {

std::vector<PinnedDegree> searched_degrees(const DegreeOptions& d) {
  std::vector<PinnedDegree> pinned;
  const auto pin = [&](Degree degree, const auto& value) {
    if (value) pinned.push_back({degree, static_cast<int>(*value)});
  };
  pin(Degree::Data, d.dp);
  pin(Degree::Pipeline, d.pp);
  pin(Degree::Chunks, d.vpp);
  pin(Degree::TensorIn, d.tp_x);
  pin(Degree::TensorOut, tensor_out_of(d));
  pin(Degree::TensorDepth, d.tp_z);
  pin(Degree::Context, d.cp);
  pin(Degree::ContextKind, context_kind_of(d));
  pin(Degree::Expert, d.ep);
  pin(Degree::ExpertTensor, d.etp);
  pin(Degree::Zero, zero_of(d));
  pin(Degree::ShardGroup, d.shard_group);
  pin(Degree::SequenceParallel, sequence_parallel_of(d));
  pin(Degree::MicroBatch, d.micro_batch);
  pin(Degree::Recompute, recompute_of(d));
  pin(Degree::Schedule, schedule_of(d));
  return pinned;
}

}  // namespace

SearchSpace build_space(const Problem& problem, const Options& options) {
  return make_space(options.space.empty() ? "framework" : options.space, problem,
                    searched_degrees(options.degrees));
}

DegreeOptions pinned_to(const PlanDegrees& plan, DegreeOptions degrees) {
  degrees.pp = plan.pipeline;
  degrees.vpp = plan.chunks;
  degrees.cp = plan.context;
  degrees.ep = plan.expert;
  degrees.etp = plan.expert_tensor;
  degrees.micro_batch = plan.micro_batch;
  degrees.zero = static_cast<int>(plan.zero);
  degrees.sp = plan.sequence_parallel == SequenceParallel::On ? 1 : 0;
  degrees.recompute = std::string(to_text(plan.recompute));
  degrees.schedule = std::string(to_text(plan.schedule));
  if (!degrees.tp_x && !degrees.tp_y && !degrees.tp_z) degrees.tp = plan.tensor_out;
  return degrees;
}

}  // namespace plansearch::cli
