// SPDX-License-Identifier: Apache-2.0
// The communication-timing pass on fixed plans of GPT-2 XL. Its authors publish one figure, of the
// pass and a plan made with it, on a cluster that is not named: it is printed, nothing is fitted to
// it. The bands are the closed forms of equal stages, 2 points to both sides.

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "evidence/reproduce/gpt_question.hpp"
#include "evidence/reproduce/reproduce.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/plan_report.hpp"
#include "schedule/passes/pass.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

constexpr double kPoints = 2.0;

struct Machine {
  const char* name;
  const char* links;
  bool slow;  ///< stages talk over a network
};
constexpr std::array<Machine, 3> kPassMachines{{{"aws-p3-16xlarge", "25 Gb/s for eight GPUs", true},
                                                {"dgx-1-v100", "InfiniBand", true},
                                                {"gb200-nvl72", "NVLink", false}}};

void add(const Machine& machine, const PassGain& gain, Figures& figures) {
  const std::vector<std::string> words{
      fmt::format("{} ({}), {} stages", machine.name, machine.links, gain.stages)};
  figures.add("message over forward", gain.transfer_share, words);
  for (const auto& [id, share] :
       {std::pair{"equal stages", gain.equal_gain}, {"own stages", gain.gain}}) {
    ReproducedRow& row = figures.add(id, 100.0 * share, words);
    if (gain.transfer_share > 1.0) continue;
    row.low = 100.0 * gain.closed_form - kPoints;
    row.high = 100.0 * gain.closed_form + kPoints;
  }
  figures.add(machine.slow ? "whole step" : "whole step, NVLink", 100.0 * gain.step_gain(), words);
  figures.add("free messages, equal stages", 100.0 * gain.free_gain, words);
  figures.add("free messages, own stages", 100.0 * gain.free_own_gain, words);
}

constexpr int kGpus = 64;
constexpr int kBatch = 1024;

Problem question(const std::string& machine, PassSet passes, const ShippedData& data) {
  Problem problem = gpt2_xl(machine, data);
  problem.passes = passes;
  return problem;
}

PlanDegrees plan_of(int stages) {
  PlanDegrees plan;
  plan.pipeline = stages;
  plan.data = kGpus / stages;
  plan.micro_batches = kBatch / plan.data;
  plan.recompute = Recompute::Full;
  plan.zero = ZeroStage::Optimizer;
  return plan;
}

PipelineDurations durations_of(const std::vector<StageReport>& stages, double transfers) {
  PipelineDurations times;
  for (const StageReport& stage : stages) {
    times.forward.push_back(to_ticks(stage.forward));
    times.backward.push_back(to_ticks(stage.backward));
    times.activation_transfer.push_back(to_ticks(transfers * stage.edge_time));
  }
  times.activation_transfer.pop_back();
  times.gradient_transfer = times.activation_transfer;
  return times;
}

/// The pipeline alone, before and after all passes.
struct Makespans {
  double before = 0.0;
  double after = 0.0;
  [[nodiscard]] double gain() const { return 1.0 - after / before; }
};

Makespans makespans(const PipelineShape& shape, const PipelineDurations& times) {
  const auto order = std::get<ComputeOrder>(make_order(shape));
  const Program lists = lower(order, {.sends = SendPolicy::JustInTime});
  const auto durations = duration_table(times.view(), order.weight_gradients);
  const auto run = [&](PassSet passes) {
    const auto passed = apply_passes(lists, passes, durations);
    PLANSEARCH_CHECK(std::holds_alternative<PassedProgram>(passed));
    return static_cast<double>(std::get<PassedProgram>(passed).simulated.makespan());
  };
  return {run(0), run(all_passes())};
}

/// Equal stages: blocking lists add c (4 m + k) to the pipeline of free messages, 2 c m with two
/// stages; asynchronous sends 2 c ((p - 1) m / p + p - 2). p divides m.
Makespans closed_form(const PipelineShape& shape, double free, double transfer) {
  const double p = shape.stages, m = shape.micro_batches;
  const double blocking = shape.stages == 2 ? 2.0 * m : 4.0 * m + (shape.stages == 4 ? 3.0 : 19.0);
  return {free + transfer * blocking, free + 2.0 * transfer * ((p - 1.0) * m / p + p - 2.0)};
}

double mean(const std::vector<Ticks>& ticks) {
  return static_cast<double>(std::accumulate(ticks.begin(), ticks.end(), Ticks{0})) /
         static_cast<double>(ticks.size());
}

PassGain gain_of(const std::string& machine, int stages, const ShippedData& data) {
  const PlanEvaluator lists(question(machine, 0, data));
  const PlanEvaluator passed(question(machine, all_passes(), data));
  const PlanDegrees degrees = plan_of(stages);
  const auto expanded = lists.expand(degrees);
  PLANSEARCH_CHECK(std::holds_alternative<ParallelPlan>(expanded));
  const auto& plan = std::get<ParallelPlan>(expanded);
  const std::vector<StageReport> reports = plan_details(lists, plan).stages;
  const PipelineShape shape{
      .schedule = degrees.schedule, .stages = stages, .micro_batches = degrees.micro_batches};
  const PipelineDurations times = durations_of(reports, 1.0);
  const double transfer = mean(times.activation_transfer);
  const auto rounded = [](double ticks) { return static_cast<Ticks>(std::llround(ticks)); };
  UniformTimes equal{rounded(mean(times.forward)), rounded(mean(times.backward)), rounded(transfer),
                     0};
  const Makespans equal_gain = makespans(shape, uniform_durations(shape, equal));
  equal.transfer = 0;
  const Makespans free = makespans(shape, uniform_durations(shape, equal));
  PassGain gain;
  gain.hardware = machine;
  gain.stages = stages;
  gain.micro_batches = degrees.micro_batches;
  gain.transfer_share = transfer / mean(times.forward);
  gain.gain = makespans(shape, times).gain();
  gain.closed_form = closed_form(shape, free.before, transfer).gain();
  gain.equal_gain = equal_gain.gain();
  gain.free_gain = free.gain();
  gain.free_own_gain = makespans(shape, durations_of(reports, 0.0)).gain();
  gain.step_before = estimate_of(lists, plan).step.total();
  gain.step_after = estimate_of(passed, plan).step.total();
  return gain;
}

}  // namespace

void add_hosoki_pass(const StudyContext& context, Figures& figures) {
  figures.add("pass", std::nullopt);
  for (const Machine& machine : kPassMachines) {
    for (const PassGain& gain : pass_gains({machine.name}, context.data)) {
      add(machine, gain, figures);
    }
  }
}

std::vector<PassGain> pass_gains(const std::vector<std::string>& machines,
                                 const ShippedData& data) {
  std::vector<PassGain> gains;
  for (const std::string& machine : machines) {
    for (const int stages : {2, 4, 8}) gains.push_back(gain_of(machine, stages, data));
  }
  return gains;
}

}  // namespace plansearch
