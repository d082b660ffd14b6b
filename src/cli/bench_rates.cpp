// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_rates.hpp"

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>

#include "schedule/simulator.hpp"

namespace plansearch::cli {
namespace {

constexpr std::size_t kSample = 4000;
constexpr double kSeconds = 0.3;  ///< per rate

/// Processor time of this thread: other work on the machine does not count.
double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// A legal plan with its profile at hand, so that only pricing is timed.
struct Priced {
  PlanDegrees plan;
  std::shared_ptr<const ClassProfile> profile;
};

/// Plans spread over the whole space, those that fail on legality left out.
std::vector<PlanDegrees> legal_plans(const PlanEvaluator& evaluator, const SearchSpace& space) {
  const SpaceWalk walk(space);
  std::vector<SpacePrefix> prefixes;
  for (const PlanDegrees& triple : walk.triples()) walk.append_prefixes(triple, prefixes);
  const std::size_t stride = std::max<std::size_t>(1, prefixes.size() / kSample);
  std::vector<PlanDegrees> leaves;
  for (std::size_t i = 0; i < prefixes.size(); i += stride) {
    walk.append_leaves(prefixes[i], leaves);
  }
  std::erase_if(leaves,
                [&](const PlanDegrees& plan) { return evaluator.obstacle(plan).has_value(); });
  return leaves;
}

/// Calls `price` for every item, again and again.
template <typename Item, typename Price>
Rate measure(std::string what, const std::vector<Item>& items, Price price) {
  const double start = cpu_seconds();
  std::size_t done = 0;
  while (cpu_seconds() - start < kSeconds && !items.empty()) {
    for (const Item& item : items) price(item);
    done += items.size();
  }
  return {std::move(what), static_cast<double>(done) / std::max(1e-9, cpu_seconds() - start)};
}

/// Every stage and boundary with a time of its own, and no steady state taken for granted.
Rate measure_simulator() {
  constexpr int kStages = 16;
  const PipelineShape shape{ScheduleKind::OneFOneB, kStages, 64};
  PipelineDurations durations;
  for (int k = 0; k < kStages; ++k) {
    durations.forward.push_back(10'000'000 + 1'000 * k);
    durations.backward.push_back(20'000'000 + 3'000 * (k * 7 % kStages));
  }
  durations.activation_transfer.assign(kStages - 1, 100'000);
  durations.gradient_transfer.assign(kStages - 1, 100'000);
  PipelineSimulator simulator;
  Ticks sink = 0;
  return measure("pipelines of 16 stages x 64 micro-batches, every piece simulated",
                 std::vector<int>(100), [&](int) {
                   sink +=
                       simulator.run(shape, durations.view(), SteadyState::SimulateAll).makespan;
                 });
}

}  // namespace

std::vector<Rate> measure_rates(const PlanEvaluator& evaluator, const SearchSpace& space) {
  const auto workspace = PlanEvaluator::make_workspace();
  const std::vector<PlanDegrees> plans = legal_plans(evaluator, space);
  std::vector<Priced> priced;
  std::vector<Rate> rates;
  double sink = 0.0;
  rates.push_back(measure("legality checks", plans, [&](const PlanDegrees& plan) {
    sink += evaluator.obstacle(plan) ? 1.0 : 0.0;
  }));
  const double start = cpu_seconds();
  for (const PlanDegrees& plan : plans) priced.push_back({plan, evaluator.profile(plan)});
  rates.push_back({"class profiles, known ones included",
                   static_cast<double>(plans.size()) / std::max(1e-9, cpu_seconds() - start)});
  rates.push_back(measure("bounds", priced, [&](const Priced& p) {
    sink += evaluator.bound(*p.profile, p.plan, *workspace).step_time.value();
  }));
  rates.push_back(measure("estimates", priced, [&](const Priced& p) {
    sink += evaluator.estimate(*p.profile, p.plan, *workspace).step.compute.value();
  }));
  rates.push_back(measure("simulated evaluations", priced, [&](const Priced& p) {
    sink += evaluator.simulate(*p.profile, p.plan, *workspace).step.compute.value();
  }));
  rates.push_back(measure_simulator());
  if (sink < 0.0) rates.clear();  // the results are used: nothing can be optimised away
  return rates;
}

}  // namespace plansearch::cli
