// SPDX-License-Identifier: Apache-2.0
// Computes: plans that the framework does not run and that beat all it runs, near those it does.
// Source: ideas of AxoNN (grids), Tensor3D (pieces), PrimePar and async tensor parallelism (rings),
// and the orders of schedule/table.cpp.
// Assumes: the framework's own software, as if it ran the plan (usual_framework, NAME+).
// Units: seconds.
// Checked by: tests/unit/question/beyond_framework_test.cpp
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "answer/make_report.hpp"
#include "base/checked.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/stop_token.hpp"
#include "question/usual_software.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Plans near one of the framework by an idea that it does not run. `own`: the framework.
struct Idea {
  std::string_view name;
  std::vector<PlanDegrees> (*near)(const PlanDegrees& plan, const Framework& own,
                                   const Problem& problem);
};

/// The same plan under every order that is not listed. Orders made for the case are left out: to
/// make one takes as long as a whole search.
std::vector<PlanDegrees> other_orders(const PlanDegrees& plan, const Framework& own,
                                      const Problem& problem) {
  std::vector<PlanDegrees> plans;
  if (plan.pipeline == 1) return plans;
  const std::vector<ScheduleId> listed = schedules_of(own);
  for (const ScheduleId id : all_schedules()) {
    const Schedule& row = schedule_row(id);
    if (!suits(id, *problem.network)) continue;
    if (row.tuned || std::ranges::find(listed, id) != listed.end()) continue;
    PlanDegrees other = plan;
    other.schedule = id;
    if (!row.chunks.contains(other.chunks)) other.chunks = row.chunks.fewest;
    const PipelineShape shape = pipeline_shape(other, *problem.framework, *problem.network);
    if (fault_of(shape)) continue;
    plans.push_back(other);
  }
  return plans;
}

/// The devices of all replicas of a stage as data x depth x in x out, with the stages of the plan
/// and without stages, in micro-batches of up to eight sequences.
std::vector<PlanDegrees> grids(const PlanDegrees& plan, const Framework& /*own*/,
                               const Problem& problem) {
  std::vector<PlanDegrees> plans;
  if (plan.expert_ranks() > 1) return plans;  // experts lie over the same devices
  for (const int pipeline : {plan.pipeline, 1}) {
    if (pipeline == 1 && plan.pipeline == 1 && !plans.empty()) break;
    PlanDegrees grid = plan;
    grid.pipeline = pipeline;
    if (pipeline == 1) grid.chunks = 1;
    if (pipeline == 1) grid.schedule = kDefaultSchedule;
    const int ranks = problem.gpus / pipeline / plan.context;
    for (const int depth : divisors(ranks)) {
      for (const int in : divisors(ranks / depth)) {
        for (const int out : divisors(ranks / depth / in)) {
          if (depth == 1 && in == 1) continue;
          grid.tensor_depth = depth;
          grid.tensor_in = in;
          grid.tensor_out = out;
          grid.data = ranks / depth / in / out;
          const std::int64_t replicas = std::int64_t{1} * grid.data * depth;
          for (grid.micro_batch = 1; grid.micro_batch <= 8; grid.micro_batch *= 2) {
            if (problem.global_batch % (replicas * grid.micro_batch) != 0) break;
            grid.micro_batches =
                static_cast<int>(problem.global_batch / replicas / grid.micro_batch);
            plans.push_back(grid);
          }
        }
      }
    }
  }
  return plans;
}

std::vector<PlanDegrees> pieces(const PlanDegrees& plan, const Framework& /*own*/,
                                const Problem& /*problem*/) {
  PlanDegrees halves = plan;
  halves.pieces = 2;
  return {halves};
}

std::vector<PlanDegrees> rings(const PlanDegrees& plan, const Framework& /*own*/,
                               const Problem& /*problem*/) {
  PlanDegrees stepped = plan;
  stepped.temporal = Temporal::Ring;
  return {stepped};
}

constexpr std::array kIdeas{
    Idea{"pipeline orders", other_orders},
    Idea{"tensor grids", grids},
    Idea{"micro-batch pieces", pieces},
    Idea{"ring products", rings},
};

/// Whether the plan has the degrees that the question decides.
bool keeps(const ProblemRequest& request, const PlanDegrees& plan) {
  return std::ranges::all_of(degree_table(), [&](const DegreeRow& row) {
    const int value = row.get(plan);
    return request.degrees.get(row.degree).value_or(value) == value &&
           request.limits.admits(row.degree, value);
  });
}

/// The question, asked of its framework as if that ran everything.
ResolvedQuestion asked_wider(const ResolvedQuestion& asked) {
  ProblemRequest request = asked.request;
  const Chosen<std::string> named = framework_name(request);
  const bool open = named.origin() == "default";
  request.framework = (open ? asked.files.framework->name : named.value()) + kWiderSuffix;
  request.target.clear();
  const ShippedData data = shipped_data().changed(request.set.value_or(""));
  ProblemFiles files = asked.files;
  files.framework =
      std::make_shared<const Framework>(widened(*asked.files.framework, data.framework("any")));
  return resolve_question(request, files);
}

struct NearPlan {
  PlanCandidate candidate;
  std::string what;  ///< the ideas
};

/// Plans beyond the framework, the fastest first.
class NearSearch {
 public:
  NearSearch(const ResolvedQuestion& wider, const PlanEvaluator& beyond, const Framework& own,
             Seconds enough)
      : wider_(wider), beyond_(beyond), own_(own), enough_(enough) {}

  /// Tries every idea on a plan that `what` led to. Only plans faster than what is enough are kept.
  void look_near(const PlanDegrees& plan, const std::string& what) {
    for (const Idea& idea : kIdeas) {
      if (what.find(idea.name) != std::string::npos) continue;
      const std::string both = what + (what.empty() ? "" : " and ") + std::string(idea.name);
      for (const PlanDegrees& near : idea.near(plan, own_, beyond_.problem())) price(near, both);
    }
  }

  [[nodiscard]] std::vector<NearPlan> found() {
    std::ranges::stable_sort(found_, {},
                             [](const NearPlan& f) { return f.candidate.estimate.step.total(); });
    return std::move(found_);
  }
  [[nodiscard]] const NearPlan* best() const { return best_ ? &found_[*best_] : nullptr; }

 private:
  void price(const PlanDegrees& plan, const std::string& what) {
    check_work();
    if (!keeps(wider_.request, plan) || beyond_.obstacle(plan)) return;
    if (!known_.insert(plan).second) return;
    const auto excludes = [&](const PlanBound& bound) {
      return bound.step_time > enough_ || bound.memory > beyond_.memory_limit();
    };
    PlanBound bound;
    if (ladder_.climb(kMicroBatchRungs, plan, bound, excludes) ||
        ladder_.climb(kPlanRungs, plan, bound, excludes)) {
      return;
    }
    const Estimate estimate = beyond_.simulate(*beyond_.profile(plan), plan, *workspace_);
    if (beyond_.memory_fit(estimate.memory.total()) != MemoryFit::Fits) return;
    if (estimate.step.total() > enough_) return;
    found_.push_back({{plan, estimate, {}}, what});
    const bool first =
        !best_ || estimate.step.total() < found_[*best_].candidate.estimate.step.total();
    if (first) best_ = found_.size() - 1;
  }

  const ResolvedQuestion& wider_;
  const PlanEvaluator& beyond_;
  const Framework& own_;
  Seconds enough_;
  decltype(PlanEvaluator::make_workspace()) workspace_ = PlanEvaluator::make_workspace();
  BoundLadder ladder_{beyond_, *workspace_};
  std::vector<NearPlan> found_;
  std::optional<std::size_t> best_;
  std::set<PlanDegrees> known_;
};

}  // namespace

std::string predict_command(const ResolvedQuestion& asked, int gpus, const PlanDegrees& plan) {
  std::string text = "plansearch predict";
  ProblemRequest request = asked.request;
  request.nodes.reset();
  request.gpus = gpus;
  for (const SettingRow& row : setting_table()) {
    if (const auto value = row.get(request)) text += fmt::format(" {} {}", flag_of(row), *value);
  }
  const PlanDegrees neutral;
  for (const DegreeRow& row : degree_table()) {
    const bool shaped = row.degree == Degree::MicroBatch || row.get(plan) != row.get(neutral);
    if (!shaped) continue;
    text += fmt::format(" {} {}", flag_of(row.key), value_text(row.degree, row.get(plan)));
  }
  return text;
}

BeyondSearch beyond_framework(const ResolvedQuestion& asked, const PlanEvaluator& evaluator,
                              std::span<const PlanCandidate> ranked, Seconds shown,
                              Beyond how_far) {
  BeyondSearch search;
  if (ranked.empty() || how_far == Beyond::None) return search;
  for (const Idea& idea : kIdeas) {
    search.tried += fmt::format("{}{}", search.tried.empty() ? "" : ", ", idea.name);
  }
  ResolvedQuestion wider = asked_wider(asked);
  wider.problem.gpus = evaluator.problem().gpus;
  const PlanEvaluator beyond(wider.problem);
  const double sigma = wider.problem.framework->constants.paired_sigma;
  const Seconds first = ranked.front().estimate.step.total();
  NearSearch near(wider, beyond, *evaluator.problem().framework, first / tied_ratio(sigma));
  const std::size_t looked = std::min<std::size_t>(how_far == Beyond::All ? 16 : 4, ranked.size());
  for (const PlanCandidate& candidate : ranked.first(looked)) near.look_near(candidate.plan, "");
  if (const NearPlan* best = near.best()) {
    const NearPlan start = *best;
    near.look_near(start.candidate.plan, start.what);
  }
  const std::size_t most = how_far == Beyond::All ? kIdeas.size() : 1;
  std::set<std::string> ideas;
  for (const NearPlan& plan : near.found()) {
    if (search.plans.size() == most) break;
    if (!ideas.insert(plan.what).second) continue;
    constexpr double kTenth = 1.2815515655446004;  // deviations of a normal distribution
    PlanReport priced = report_plan(beyond, plan.candidate.plan, plan.candidate.estimate);
    const double ratio = priced.estimate.step.total() / shown;
    search.plans.push_back(
        {plan.what, 1.0 - ratio, 1.0 - ratio * std::exp(kTenth * sigma),
         1.0 - ratio * std::exp(-kTenth * sigma),
         runners_of(wider.problem, plan.candidate, evaluator.problem().framework.get()),
         predict_command(wider, wider.problem.gpus, plan.candidate.plan), std::move(priced)});
  }
  return search;
}

}  // namespace plansearch
