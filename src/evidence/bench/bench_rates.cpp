// SPDX-License-Identifier: Apache-2.0
#include "evidence/bench/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <unordered_set>
#include <utility>

#include "evaluate/step/bound_ladder.hpp"
#include "evidence/reproduce/alpa/alpa_planner.hpp"
#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"
#include "schedule/order/order_check.hpp"
#include "schedule/program/lowering.hpp"
#include "schedule/simulation/simulator.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

constexpr double kSeconds = 0.3;  ///< per rate
/// A search visits neighbours one after the other, and they share work: so does the sample.
constexpr std::size_t kRun = 256;
constexpr std::size_t kRuns = 24;

double seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Rate rate(std::string what, std::size_t done, Clocks taken) {
  const auto count = static_cast<double>(done);
  return {
      {}, std::move(what), count / std::max(1e-9, taken.cpu), count / std::max(1e-9, taken.wall)};
}

/// Calls `pass`, which handles `items` things, again and again.
template <typename Pass>
Rate repeat(std::string what, std::size_t items, Pass pass) {
  const Clocks start = thread_clocks();
  std::size_t done = 0;
  while (items > 0 && (thread_clocks() - start).cpu < kSeconds) {
    check_stop();
    pass();
    done += items;
  }
  return rate(std::move(what), done, thread_clocks() - start);
}

/// A legal plan with its profile at hand, so that only pricing is timed.
struct Priced {
  PlanDegrees plan;
  std::shared_ptr<const ClassProfile> profile;
};

class Sample {
 public:
  Sample(const Problem& problem, const SearchSpace& space) : evaluator_(problem) {
    for (const PlanDegrees& plan : legal_plans(space)) plans_.push_back({plan, nullptr});
    std::unordered_set<const ClassProfile*> seen;
    for (Priced& priced : plans_) {
      check_stop();
      priced.profile = evaluator_.profile(priced.plan);
      if (seen.insert(priced.profile.get()).second) classes_.push_back(priced.plan);
      const Estimate estimate = evaluator_.estimate(*priced.profile, priced.plan, *workspace_);
      if (estimate.memory.total() <= evaluator_.memory_limit()) fitting_.push_back(priced);
    }
  }

  [[nodiscard]] std::vector<Rate> rates() const {
    std::vector<Rate> rates;
    rates.push_back(over("legality checks", plans_,
                         [&](const Priced& p) { return evaluator_.obstacle(p.plan) ? 1.0 : 0.0; }));
    rates.push_back(fresh_memory());
    rates.push_back(fresh_classes());
    rates.push_back(over("known class profiles", plans_, [&](const Priced& p) {
      return evaluator_.profile(p.plan) == p.profile ? 0.0 : 1.0;
    }));
    BoundLadder ladder(evaluator_, *workspace_);
    const auto bound = [&](const Priced& p) {
      return ladder.bound(*p.profile, p.plan).step_time.value();
    };
    rates.push_back(over("bounds", plans_, bound));
    rates.push_back(over("bounds of plans that fit", fitting_, bound));
    rates.push_back(over("estimates of plans that fit", fitting_, [&](const Priced& p) {
      return evaluator_.estimate(*p.profile, p.plan, *workspace_).step.compute.value();
    }));
    rates.push_back(over("simulated evaluations of plans that fit", fitting_, [&](const Priced& p) {
      return evaluator_.simulate(*p.profile, p.plan, *workspace_).step.compute.value();
    }));
    return rates;
  }

 private:
  /// Runs of consecutive prefixes at equal distances, those that fail on legality left out.
  [[nodiscard]] std::vector<PlanDegrees> legal_plans(const SearchSpace& space) const {
    const SpaceWalk walk(space);
    const std::size_t level = walk.level_above(kBatchDegrees);
    std::vector<PlanDegrees> prefixes;
    walk.for_each_plan(0, level, PlanDegrees{},
                       [&](const PlanDegrees& plan) { prefixes.push_back(plan); });
    const std::size_t stride = std::max(kRun, prefixes.size() / kRuns);
    std::vector<PlanDegrees> leaves;
    for (std::size_t first = 0; first < prefixes.size(); first += stride) {
      const std::size_t end = std::min(first + kRun, prefixes.size());
      for (std::size_t i = first; i < end; ++i) {
        walk.for_each_plan(level, walk.depth(), prefixes[i],
                           [&](const PlanDegrees& plan) { leaves.push_back(plan); });
      }
    }
    // Degrees that a search decides last are the framework's own here.
    std::erase_if(leaves, [](const PlanDegrees& p) { return p.modules == kFewestModules; });
    for (PlanDegrees& plan : leaves) plan.dispatcher = kOwnDispatcher;
    std::erase_if(leaves, [&](const PlanDegrees& p) { return evaluator_.obstacle(p).has_value(); });
    return leaves;
  }

  /// First questions of a search, about plans of classes never seen before.
  [[nodiscard]] Rate fresh_memory() const {
    return repeat("fresh memory bounds", classes_.size(), [&] {
      const PlanEvaluator fresh(evaluator_.problem());
      for (const PlanDegrees& plan : classes_) {
        sink_ = sink_ + BoundLadder(fresh, *workspace_).bound(Rung::EndStages, plan).memory.value();
      }
    });
  }

  [[nodiscard]] Rate fresh_classes() const {
    return repeat("fresh class profiles", classes_.size(), [&] {
      const PlanEvaluator fresh(evaluator_.problem());
      for (const PlanDegrees& plan : classes_) sink_ = sink_ + (fresh.profile(plan) ? 0.0 : 1.0);
    });
  }

  template <typename Price>
  [[nodiscard]] Rate over(std::string what, const std::vector<Priced>& plans, Price price) const {
    return repeat(std::move(what), plans.size(), [&] {
      for (const Priced& plan : plans) sink_ = sink_ + price(plan);
    });
  }

  PlanEvaluator evaluator_;
  EvaluationWorkspacePtr workspace_ = PlanEvaluator::make_workspace();
  std::vector<Priced> plans_;
  std::vector<Priced> fitting_;
  std::vector<PlanDegrees> classes_;    ///< one plan of each
  mutable volatile double sink_ = 0.0;  ///< results are used: nothing can be optimised away
};

/// Stages as long as their layers over a little less than their devices, each a bit off.
StageTable stage_table(int layers, int devices, int configurations) {
  std::vector<int> meshes;
  for (int size = 1; size <= devices; size *= 2) meshes.push_back(size);
  StageTable table(layers, meshes, configurations);
  std::mt19937 random(1);
  for (int first = 0; first < layers; ++first) {
    for (int last = first; last < layers; ++last) {
      for (int mesh = 0; mesh < static_cast<int>(meshes.size()); ++mesh) {
        const double share =
            (last - first + 1) / std::pow(meshes[static_cast<std::size_t>(mesh)], 0.9);
        for (int c = 0; c < configurations; ++c) {
          const double off = static_cast<double>(random()) / 4294967296.0;
          table.cost(first, last, mesh, c) = share * (1.0 + 0.2 * off);
          table.successors(first, last, mesh, c) = static_cast<int>(8.0 / share * (0.5 + off)) - 1;
        }
      }
    }
  }
  return table;
}

}  // namespace

Clocks thread_clocks() {
  return {seconds(CLOCK_THREAD_CPUTIME_ID), seconds(CLOCK_MONOTONIC)};
}

Clocks process_clocks() {
  return {seconds(CLOCK_PROCESS_CPUTIME_ID), seconds(CLOCK_MONOTONIC)};
}

Clocks operator-(Clocks end, Clocks start) {
  return {end.cpu - start.cpu, end.wall - start.wall};
}

std::vector<Rate> measure_rates(const std::string& name, const Problem& problem,
                                const SearchSpace& space) {
  std::vector<Rate> rates = Sample(problem, space).rates();
  for (Rate& rate : rates) rate.problem = name;
  return rates;
}

std::vector<Rate> measure_stage_programs() {
  constexpr int kConfigurations = 5;
  constexpr int kMicroBatches = 512;
  std::vector<Rate> rates;
  for (const auto& [layers, devices] : {std::pair{16, 64}, {96, 1024}}) {
    const StageTable table = stage_table(layers, devices, kConfigurations);
    const int gpus = devices;
    volatile double sink = 0.0;
    rates.push_back(repeat("stage programs of 5 configurations and 512 micro-batches", 1,
                           [&] { sink = best_stages(table, gpus, kMicroBatches)->total; }));
    rates.back().problem = fmt::format("{} layers, {} GPUs", layers, devices);
  }
  return rates;
}

std::vector<Rate> measure_orders() {
  const PipelineShape shape{*find_schedule("zb-h1"), 64, 512};
  const PipelineDurations durations = uniform_durations(shape, {10, 11, 1, 9});
  const auto table = duration_table(durations.view(), WeightGradients::Separate);
  const auto checked = [&] {
    const ComputeOrder order = order_of(shape);
    PLANSEARCH_CHECK(!check_order(order));
    auto graph = build_task_graph(lower(order));
    PLANSEARCH_CHECK(std::holds_alternative<TaskGraph>(graph));
    return std::get<TaskGraph>(std::move(graph));
  };
  TaskSimulator tasks;
  volatile Ticks sink = 0;
  const auto run = [&](const TaskGraph& graph) {
    tasks.run(graph, table);
    sink = tasks.makespan();
  };
  std::vector<Rate> rates;
  rates.push_back(
      repeat("orders made, checked, lowered and simulated", 1, [&] { run(checked()); }));
  const TaskGraph known = checked();
  rates.push_back(repeat("known task graphs simulated", 1, [&] { run(known); }));
  PipelineSimulator simulator;
  rates.push_back(repeat("known orders simulated, every piece", 1, [&] {
    sink = simulator.run(shape, durations.view(), SteadyState::SimulateAll).makespan;
  }));
  for (Rate& rate : rates) rate.problem = "zb-h1, 64 stages x 512 micro-batches";
  return rates;
}

/// Every stage and boundary with a time of its own, and no steady state taken for granted.
Rate measure_simulator() {
  constexpr int kStages = 16;
  const PipelineShape shape{kDefaultSchedule, kStages, 64};
  PipelineDurations durations;
  for (int k = 0; k < kStages; ++k) {
    durations.forward.push_back(10'000'000 + 1'000 * k);
    durations.backward.push_back(20'000'000 + 3'000 * (k * 7 % kStages));
  }
  durations.activation_transfer.assign(kStages - 1, 100'000);
  durations.gradient_transfer.assign(kStages - 1, 100'000);
  PipelineSimulator simulator;
  volatile Ticks sink = 0;
  return repeat("pipelines of 16 stages x 64 micro-batches, every piece simulated", 1, [&] {
    sink = simulator.run(shape, durations.view(), SteadyState::SimulateAll).makespan;
  });
}

}  // namespace plansearch
