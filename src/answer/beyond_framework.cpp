// SPDX-License-Identifier: Apache-2.0
// Computes: plans that the framework does not run and that beat all it runs, near those it does.
// Source: ideas of AxoNN (grids), Tensor3D (pieces), PrimePar and async tensor parallelism (rings),
// the orders of schedule/table.cpp, and Hosoki et al. (passes over the messages of a pipeline).
// Assumes: the framework's own software, as if it ran the plan (usual_framework, NAME+).
// Units: seconds.
// Checked by: tests/unit/question/beyond_framework_test.cpp
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "answer/beyond_plans.hpp"
#include "answer/make_report.hpp"
#include "base/checked.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/stop_token.hpp"
#include "question/degrees.hpp"
#include "question/usual_software.hpp"
#include "schedule/passes/pass.hpp"
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
  explicit NearSearch(const BeyondGoal& goal) : goal_(goal), beyond_(goal.evaluator) {}

  /// Tries every idea on a plan that `what` led to. Only plans faster than what is enough are kept.
  void look_near(const PlanDegrees& plan, const std::string& what) {
    for (const Idea& idea : kIdeas) {
      if (what.find(idea.name) != std::string::npos) continue;
      const std::string both = what + (what.empty() ? "" : " and ") + std::string(idea.name);
      for (const PlanDegrees& near : idea.near(plan, goal_.own, beyond_.problem()))
        price(near, both);
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
    if (!keeps(goal_.wider.request, plan) || beyond_.obstacle(plan)) return;
    if (!known_.insert(plan).second) return;
    const auto excludes = [&](const PlanBound& bound) {
      return bound.step_time > goal_.enough || bound.memory > beyond_.memory_limit();
    };
    PlanBound bound;
    if (ladder_.climb(kMicroBatchRungs, plan, bound, excludes) ||
        ladder_.climb(kPlanRungs, plan, bound, excludes)) {
      return;
    }
    const Estimate estimate = beyond_.simulate(*beyond_.profile(plan), plan, *workspace_);
    if (beyond_.memory_fit(plan, estimate.memory.total()) > goal_.admitted) return;
    if (estimate.step.total() > goal_.enough) return;
    found_.push_back({{plan, estimate, {}}, what});
    const bool first =
        !best_ || estimate.step.total() < found_[*best_].candidate.estimate.step.total();
    if (first) best_ = found_.size() - 1;
  }

  const BeyondGoal& goal_;
  const PlanEvaluator& beyond_;
  decltype(PlanEvaluator::make_workspace()) workspace_ = PlanEvaluator::make_workspace();
  BoundLadder ladder_{beyond_, *workspace_};
  std::vector<NearPlan> found_;
  std::optional<std::size_t> best_;
  std::set<PlanDegrees> known_;
};

constexpr const char* kMessagePasses = "message passes";

/// Where messages of a pipeline wait in lists of instructions (Hosoki et al.) and nothing is said
/// of passes over these.
bool waits_in_lists(const ResolvedQuestion& asked) {
  return asked.files.framework->pipeline_lists == PipelineLists::JustInTime &&
         !asked.request.passes;
}

/// The framework's best plan under all passes, if it takes no longer than that.
std::optional<PlanCandidate> under_passes(const ProblemRequest& request,
                                          const PlanEvaluator& passed, Seconds enough) {
  SearchOptions options;
  options.top = 1;
  options.misses = 0;
  options.front = false;
  const std::string& space = passed.problem().framework->space;
  const auto found = search(passed, space.empty() ? "framework" : space,
                            {request.degrees, request.limits}, options);
  const auto* result = std::get_if<SearchResult>(&found);
  if (result == nullptr || result->ranked.empty()) return std::nullopt;
  const PlanCandidate& best = result->ranked.front();
  if (best.written || best.estimate.step.total() > enough) return std::nullopt;
  if (passed.memory_fit(best.plan, best.estimate.memory.total()) != MemoryFit::Fits)
    return std::nullopt;
  return best;
}

/// The degrees that a command says: those of which it would assume another value.
PinnedDegrees said_degrees(const PlanDegrees& plan, const Problem& problem) {
  PinnedDegrees said;
  const auto say_others = [&](const PlanDegrees& assumed) {
    for (const DegreeRow& row : degree_table()) {
      if (row.get(plan) != row.get(assumed)) said.pin(row.degree, row.get(plan));
    }
  };
  said.pin(Degree::MicroBatch, plan.micro_batch);
  say_others({});
  say_others(plan_from_degrees(said, problem, problem.gpus));
  return said;
}

}  // namespace

bool keeps(const ProblemRequest& request, const PlanDegrees& plan) {
  return std::ranges::all_of(degree_table(), [&](const DegreeRow& row) {
    const int value = row.get(plan);
    return request.degrees.get(row.degree).value_or(value) == value &&
           request.limits.admits(row.degree, value);
  });
}

std::string predict_command(ProblemRequest request, const Problem& problem,
                            const PlanDegrees& plan) {
  std::string text = "plansearch predict";
  request.nodes.reset();
  request.gpus = problem.gpus;
  for (const SettingRow& row : setting_table()) {
    if (const auto value = row.get(request)) text += fmt::format(" {} {}", flag_of(row), *value);
  }
  const PinnedDegrees said = said_degrees(plan, problem);
  for (const DegreeRow& row : degree_table()) {
    const auto value = said.get(row.degree);
    if (value) text += fmt::format(" {} {}", flag_of(row.key), value_text(row.degree, *value));
  }
  return text;
}

BeyondReport told(const BeyondGoal& goal, const ProblemRequest& request,
                  const PlanEvaluator& evaluator, const PlanDegrees& degrees,
                  const PlanCandidate& found, const std::string& what, std::string runs_in,
                  const std::string& options) {
  constexpr double kTenth = 1.2815515655446004;  // deviations of a normal distribution
  const double deviation = kTenth * evaluator.problem().framework->constants.paired_sigma;
  PlanReport priced = found.written ? report_plan(evaluator, *found.written, found.estimate)
                                    : report_plan(evaluator, degrees, found.estimate);
  const double ratio = priced.estimate.step.total() / goal.shown;
  return {what,
          1.0 - ratio,
          1.0 - ratio * std::exp(deviation),
          1.0 - ratio * std::exp(-deviation),
          std::move(runs_in),
          predict_command(request, evaluator.problem(), degrees) + options,
          std::move(priced)};
}

namespace {

/// Adds the framework's best plan under passes.
void add_passes(ProblemRequest request, Problem problem, const BeyondGoal& goal,
                BeyondSearch& search) {
  search.tried += fmt::format(", {}", kMessagePasses);
  problem.passes = all_passes();
  request.passes = "all";
  const PlanEvaluator passed(std::move(problem));
  const auto best = under_passes(request, passed, goal.enough);
  if (!best) return;
  search.plans.push_back(
      told(goal, request, passed, best->plan, *best, kMessagePasses,
           fmt::format("none; without its passes: {}", passed.problem().framework->name)));
}

/// Looks near plans and near the best of those found, as far as the counted work allows. `other`:
/// whether there is a plan to show besides.
void look_near_all(std::span<const PlanCandidate> ranked, bool other, NearSearch& near) {
  try {
    for (const PlanCandidate& candidate : ranked) near.look_near(candidate.plan, "");
    if (const NearPlan* best = near.best()) {
      const NearPlan start = *best;
      near.look_near(start.candidate.plan, start.what);
    }
  } catch (const Stopped& stopped) {
    if (stopped.reason != StopReason::WorkLimit || (!other && near.best() == nullptr)) throw;
  }
}

}  // namespace

BeyondSearch beyond_framework(const ResolvedQuestion& asked, const PlanEvaluator& evaluator,
                              const SearchResult& result, Seconds shown, Beyond how_far) {
  BeyondSearch search;
  if (result.ranked.empty() || how_far == Beyond::None) return search;
  const std::span<const PlanCandidate> ranked = result.ranked;
  for (const Idea& idea : kIdeas) {
    search.tried += fmt::format("{}{}", search.tried.empty() ? "" : ", ", idea.name);
  }
  const Framework& own = *evaluator.problem().framework;
  ResolvedQuestion wider = asked_wider(asked);
  wider.problem.gpus = evaluator.problem().gpus;
  const PlanEvaluator beyond(wider.problem);
  const Seconds enough =
      ranked.front().estimate.step.total() / tied_ratio(own.constants.paired_sigma);
  const BeyondGoal goal{wider, beyond, own, result.admitted, enough, shown};
  if (waits_in_lists(asked)) add_passes(asked.request, evaluator.problem(), goal, search);
  NearSearch near(goal);
  const std::size_t looked = std::min<std::size_t>(how_far == Beyond::All ? 16 : 4, ranked.size());
  look_near_all(ranked.first(looked), !search.plans.empty(), near);
  std::set<std::string> ideas;
  for (const NearPlan& plan : near.found()) {
    if (ideas.size() == kIdeas.size()) break;
    if (!ideas.insert(plan.what).second) continue;
    const PlanCandidate& found = plan.candidate;
    search.plans.push_back(told(goal, wider.request, beyond, found.plan, found, plan.what,
                                runners_of(beyond.problem(), found, &goal.own)));
    if (how_far != Beyond::All) break;
  }
  if (!ranked.front().written) {
    constexpr std::int64_t kSteps = 16'000'000;  // 80 ms
    constexpr std::int64_t kStepsOfFamily = 4'000;
    ConstraintSearch under =
        under_constraints(goal, ranked.front().plan, kSteps + kStepsOfFamily * result.families);
    if (under.tried) search.tried += ", constraints";
    std::ranges::move(under.found, std::back_inserter(search.plans));
  }
  std::ranges::stable_sort(search.plans, std::greater{}, &BeyondReport::gain);
  if (how_far != Beyond::All && search.plans.size() > 1) search.plans.resize(1);
  return search;
}

}  // namespace plansearch
