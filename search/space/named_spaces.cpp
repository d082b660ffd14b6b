// SPDX-License-Identifier: Apache-2.0
// Computes: the spaces people ask for by name, with pinned degrees.
// Source: one row a space; docs/output.md lists them. Limits take values out of dimensions.
// Assumes: a pinned degree was found possible for the network before (question/degrees.cpp).
// Units: degrees.
// Checked by: tests/unit/search/named_spaces_test.cpp
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "plan/legality/legality.hpp"
#include "plan/primitives/offload.hpp"
#include "plan/primitives/recompute.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "schedule/table.hpp"
#include "search/space/degrees_of_freedom.hpp"

namespace plansearch {
namespace {

/// Megatron-style plans: all degrees but the grid's, all divisors, whatever the framework's rules.
SearchSpace degrees(const Problem& problem) {
  SearchSpace space = all_degrees(problem);
  space.name = "degrees";
  keep_what_divides(problem, space);
  return space;
}

/// Programs keep on the host what they are told to; where none is asked, the search tells.
void find_offload(const Problem& problem, SearchSpace& space) {
  if (problem.framework->has_program) return;
  std::vector<int>& values = space.dimension(Degree::Offload).values;
  for (const HostBits tensors : host_choices(*problem.framework)) values.push_back(tensors);
}

/// Orders, modules, dispatchers and rings under products, as far as the framework runs them.
void take_what_is_listed(const Problem& problem, SearchSpace& space) {
  space.dimension(Degree::Schedule).values = order_values(*problem.framework, *problem.network);
  find_modules_and_dispatcher(problem, space);
  find_offload(problem, space);
  if (!runs_steps(problem.framework->operator_steps, OperatorSteps::Rings)) return;
  space.dimension(Degree::Temporal).values = {static_cast<int>(Temporal::None),
                                              static_cast<int>(Temporal::Ring)};
}

/// All plans that the framework of the problem runs.
SearchSpace framework(const Problem& problem) {
  SearchSpace space = all_degrees(problem);
  take_what_is_listed(problem, space);
  keep_what_runs(problem, space);
  space.name = problem.framework->name;
  return space;
}

/// Replication and sharding over data only: what needs no change to the network's code.
SearchSpace data(const Problem& problem) {
  SearchSpace space = framework(problem);
  space.name.clear();
  for (const Degree degree :
       {Degree::Pipeline, Degree::TensorOut, Degree::Context, Degree::Expert, Degree::Chunks}) {
    space.dimension(degree).values = {1};
  }
  space.dimension(Degree::Schedule).values = {static_cast<int>(kDefaultSchedule)};
  space.dimension(Degree::Temporal).values = {static_cast<int>(Temporal::None)};
  return space;
}

/// All plans that the framework runs, with all grids of tensor axes.
SearchSpace four_dimensions(const Problem& problem) {
  SearchSpace space = all_degrees(problem);
  take_what_is_listed(problem, space);
  if (tensor_share(*problem.network) >= kLeastTensorShare) {
    space.dimension(Degree::TensorIn).values = divisors(problem.gpus);
    space.dimension(Degree::TensorDepth).values = divisors(problem.gpus);
  }
  space.dimension(Degree::Pieces).values = {1, 2};  // what programs run
  keep_what_runs(problem, space);
  const auto runs = [&](Degree degree) { return space.dimension(degree).values.size() > 1; };
  if (problem.gpus > 1 && !runs(Degree::TensorIn) && !runs(Degree::TensorDepth)) {
    space.left_out.push_back(
        fmt::format("grids of tensor axes ({} runs none)", problem.framework->name));
  }
  return space;
}

/// Tensor axes in, out and depth times data.
SearchSpace grids(const Problem& problem) {
  SearchSpace space = four_dimensions(problem);
  space.name = "grids";
  for (const Degree degree :
       {Degree::Pipeline, Degree::Context, Degree::Expert, Degree::ExpertTensor, Degree::Chunks}) {
    space.dimension(degree).values = {1};
  }
  space.dimension(Degree::Schedule).values = {static_cast<int>(kDefaultSchedule)};
  return space;
}

/// Only orders that take the chunks asked for; where the space has none, one that some framework
/// would run: its list then says no.
void keep_orders_of(const Problem& problem, int chunks, SearchSpace& space) {
  std::vector<int>& orders = space.dimension(Degree::Schedule).values;
  std::erase_if(orders, [&](int order) {
    return !schedule_row(static_cast<ScheduleId>(order)).chunks.contains(chunks);
  });
  constexpr int kSeveralStages = 2;  // one has no chunks
  if (orders.empty()) {
    orders = {static_cast<int>(
        default_schedule(*problem.framework, *problem.network, kSeveralStages, chunks))};
  }
}

/// Degrees that spaces leave at one value unless they are asked for.
constexpr DegreeSet kOnRequest{Degree::TensorIn,       Degree::TensorDepth, Degree::ExpertTensor,
                               Degree::ShardGroup,     Degree::Temporal,    Degree::Pieces,
                               Degree::RecomputeLayers};

/// Possible values of a degree that was asked for by its ends alone.
std::vector<int> possible_values(const Problem& problem, Degree degree) {
  if (degree != Degree::RecomputeLayers) return divisors(problem.gpus);
  std::vector<int> values(static_cast<std::size_t>(layer_count(*problem.network)));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

/// Removes values that the limits do not admit. Listed values outside the space stay if nothing
/// else is left, so that the search can report what is wrong with them.
void limit(const Problem& problem, Degree degree, const DegreeLimits& limits,
           SpaceDimension& dimension) {
  const std::vector<int>& listed = limits.listed(degree);
  std::vector<int> values = dimension.values;
  if (kOnRequest.contains(degree)) {
    if (listed.empty()) {
      values = possible_values(problem, degree);
      values.insert(values.begin(), dimension.values.begin(), dimension.values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
    } else {
      values = listed;
    }
  }
  const auto refused = [&](int value) { return !limits.admits(degree, value); };
  std::erase_if(values, refused);
  if (values.empty()) {
    values = listed;
    std::erase_if(values, refused);
  }
  dimension.values = std::move(values);
}

/// Leaves selective recompute out where its modules are the framework's own and drop nothing.
void leave_empty_selective_out(const Problem& problem, SearchSpace& space,
                               const PinnedDegrees& pinned, const DegreeLimits& limits) {
  const bool own = space.dimension(Degree::RecomputeModules).values == std::vector<int>{0};
  const bool asked = pinned.has(Degree::Recompute) || limits.has(Degree::Recompute);
  if (!own || asked || selective_drops(*problem.network, problem.framework->selective)) return;
  std::erase(space.dimension(Degree::Recompute).values, static_cast<int>(Recompute::Selective));
}

/// Modules that the user names make room for a level of recomputation that drops something.
void take_named_modules(SearchSpace& space, const PinnedDegrees& pinned) {
  std::vector<int>& levels = space.dimension(Degree::Recompute).values;
  const auto selective = static_cast<int>(Recompute::Selective);
  if (pinned.get(Degree::RecomputeModules).value_or(0) == 0) return;
  if (std::ranges::find(levels, selective) != levels.end()) return;
  levels.insert(std::ranges::upper_bound(levels, selective), selective);
  space.left_out.clear();
  if (pinned.get(Degree::RecomputeModules) != kFewestModules) return;
  space.left_out.push_back("modules to recompute other than the cheapest that have room");
}

/// The fewest modules are none where a plan has room without: one plan in place of two.
void find_fewest_once(SearchSpace& space) {
  const std::vector<int>& modules = space.dimension(Degree::RecomputeModules).values;
  std::vector<int>& levels = space.dimension(Degree::Recompute).values;
  const auto holds = [](const std::vector<int>& values, int value) {
    return std::ranges::find(values, value) != values.end();
  };
  if (!holds(modules, kFewestModules)) return;
  if (!holds(levels, static_cast<int>(Recompute::Selective))) return;
  std::erase(levels, static_cast<int>(Recompute::None));
}

void pin(const Problem& problem, SearchSpace& space, const PinnedDegrees& pinned,
         const DegreeLimits& limits) {
  take_named_modules(space, pinned);
  for (const DegreeRow& row : degree_table()) {
    if (const auto value = pinned.get(row.degree)) space.dimension(row.degree).values = {*value};
    if (limits.has(row.degree)) limit(problem, row.degree, limits, space.dimension(row.degree));
  }
  if (pinned.has(Degree::Recompute)) space.left_out.clear();
  find_fewest_once(space);
  leave_empty_selective_out(problem, space, pinned, limits);
  const std::vector<int>& chunks = space.dimension(Degree::Chunks).values;
  if (chunks.size() == 1 && chunks.front() > 1) keep_orders_of(problem, chunks.front(), space);
}

std::string asked_text(const PinnedDegrees& pinned, const DegreeLimits& limits) {
  const std::string pins = to_text(pinned);
  const std::string bounds = to_text(limits);
  return fmt::format("{}{}{}", pins, pins.empty() || bounds.empty() ? "" : ", ", bounds);
}

/// Why nothing multiplies to the GPUs: how far every degree goes.
std::string no_mesh_text(const Problem& problem, const SearchSpace& space) {
  const auto most = [&](Degree degree) {
    const std::vector<int>& values = space.dimension(degree).values;
    return values.empty() ? 1 : *std::ranges::max_element(values);
  };
  return fmt::format(
      "no dp x pp x cp x tp is {} GPUs: dp divides the batch of {}, tp goes up to {}, pp to {}, cp "
      "to {}",
      problem.gpus, problem.global_batch, most(Degree::TensorOut), most(Degree::Pipeline),
      most(Degree::Context));
}

/// Whether a plan is found below a partial one within so many steps.
bool reaches_plan(const SpaceWalk& walk, std::size_t level, const PlanDegrees& plan, int& steps) {
  if (level == walk.depth()) return true;
  bool found = false;
  walk.for_each_value(level, plan, [&](const PlanDegrees& next) {
    found = found || (steps-- > 0 && reaches_plan(walk, level + 1, next, steps));
  });
  return found;
}

}  // namespace

const std::vector<NamedSpace>& named_spaces() {
  static const std::vector<NamedSpace> kSpaces{
      {"framework", "what the framework runs", framework},
      {"degrees", "every degree of Megatron-style plans, whatever the framework's rules", degrees},
      {"megatron", "earlier name of degrees", degrees},
      {"data", "data parallelism and ZeRO only", data},
      {"grids", "grids of tensor axes in x out x depth, times data, as the framework can", grids},
      {"axonn", "earlier name of grids", grids},
      {"4d", "the same with pipelines, context, experts, ZeRO and schedules, as the framework can",
       four_dimensions},
      {"layers", "equal stages but for the layers of the first and the last, as the framework can"},
      {"operators", "operators of layers cut one by one over the tensor group, as is fastest"},
      {"primepar", "operators cut by PrimePar's sequences of dimensions and squares of devices"},
      {"temporal", "the same, squares also over sequences of the batch; or rings under products"},
      {"full", "4d, layers and temporal in one ranking, as far as the framework runs them"},
      {"uneven", "stages that differ in layers, devices, degrees and recomputation"},
  };
  return kSpaces;
}

bool is_staged(std::string_view space) {
  const auto& spaces = named_spaces();
  return std::ranges::any_of(
      spaces, [&](const NamedSpace& row) { return row.name == space && row.build == nullptr; });
}

std::variant<SearchSpace, Infeasible> make_space(std::string_view name, const Problem& problem,
                                                 const PinnedDegrees& pinned,
                                                 const DegreeLimits& limits) {
  const auto& spaces = named_spaces();
  const auto row = std::ranges::find_if(spaces, [&](const NamedSpace& space) {
    return space.name == name && space.build != nullptr;
  });
  if (row == spaces.end()) throw InputError({}, fmt::format("unknown space '{}'", name));
  SearchSpace space = row->build(problem);
  if (space.name.empty()) space.name = row->name;
  pin(problem, space, pinned, limits);
  look_at_equal_orders_once(space);
  const SpaceWalk walk(space);
  int steps = 1000;  // most spaces show a plan at once; to count all takes longer
  if (!reaches_plan(walk, 0, PlanDegrees{}, steps) && SpaceCounter(walk).all() == 0) {
    const std::string asked = asked_text(pinned, limits);
    return Infeasible{.obstacle = Obstacle::DegreesDoNotMultiply,
                      .detail = asked.empty()
                                    ? no_mesh_text(problem, space)
                                    : fmt::format("no plan for {} GPUs and batch {} has {}",
                                                  problem.gpus, problem.global_batch, asked)};
  }
  return space;
}

}  // namespace plansearch
