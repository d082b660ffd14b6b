// SPDX-License-Identifier: Apache-2.0
// Computes: bound, estimate and simulated evaluation of a plan.
// Source: block profiles (block_profile.cpp) composed into stages, pipeline and step.
// Assumes: plans are legal; the caller passes the profile of the plan's own class.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/plan_evaluator_test.cpp, bound_test.cpp
#include "plansearch/evaluator.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "communication/derive.hpp"
#include "evaluate/class_profile.hpp"
#include "evaluate/interval.hpp"
#include "evaluate/memory_model.hpp"
#include "evaluate/pipeline_layout.hpp"
#include "evaluate/profile_maker.hpp"
#include "evaluate/step_model.hpp"
#include "plan/legality.hpp"

namespace plansearch {

namespace {

/// The first device holds most micro-batches, the last one the loss: the worst needs no less.
Bytes least_memory(const PlanView& view, EvaluationWorkspace& workspace) {
  const int last = view.layout.stages - 1;
  const Bytes first = device_memory(view, 0, workspace).memory.total();
  return last == 0 ? first : std::max(first, device_memory(view, last, workspace).memory.total());
}

/// A number of its own for every evaluator of the process.
std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

struct PlanEvaluator::Implementation {
  explicit Implementation(const Problem& asked)
      : problem(asked),
        constants(framework_constants(*asked.framework)),
        precision(asked.framework->precision.at(asked.precision)),
        errors(error_model(problem)),
        layouts(problem),
        profiles(pricing_context(problem, constants, precision)) {}

  std::uint64_t id = next_id();
  Problem problem;
  FrameworkConstants constants;
  PrecisionPolicy precision;
  ErrorModel errors;
  LayoutCache layouts;
  ProfileMaker profiles;

  [[nodiscard]] DeviceMesh mesh(const PlanDegrees& plan) const {
    return make_device_mesh(plan, problem.framework->rank_order);
  }

  /// Adam keeps two moments, the others fewer.
  [[nodiscard]] double moments() const {
    return optimizer_moments(problem.model->training.optimizer);
  }

  /// Mesh, states and layout of a plan: those of the plan before where its degrees are the same.
  const PlanGround& ground(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
    PlanDegrees degrees = plan;
    degrees.micro_batch = degrees.micro_batches = 1;
    degrees.recompute = Recompute::None;
    degrees.schedule = kDefaultSchedule;
    PlanGround& known = workspace.ground;
    if (known.evaluator == id && known.degrees == degrees) return known;
    known.mesh = mesh(plan);
    known.statics =
        static_policy(tensor_policies(plan, known.mesh, *problem.framework, problem.precision),
                      known.mesh, moments());
    known.layout = &layouts.get(plan);
    known.degrees = degrees;
    known.evaluator = id;
    return known;
  }

  template <typename Visit>
  auto with_view(const ClassProfile& profile, const PlanDegrees& plan,
                 EvaluationWorkspace& workspace, Visit visit) const {
    const PlanGround& g = ground(plan, workspace);
    const PlanView view{problem, constants, precision, profile, *g.layout, plan, g.mesh, g.statics};
    return visit(view);
  }

  [[nodiscard]] Estimate evaluate(const ClassProfile& profile, const PlanDegrees& plan,
                                  MakespanMethod method, EvaluationWorkspace& workspace) const {
    return with_view(profile, plan, workspace, [&](const PlanView& view) {
      Estimate estimate;
      estimate.step = step_time(view, method, workspace);
      const DeviceMemory worst = worst_device_memory(view, workspace);
      estimate.memory = worst.memory;
      estimate.worst_memory_stage = worst.device;
      const RelativeInterval interval = relative_interval(errors, estimate.step, plan.devices());
      estimate.relative_p10 = interval.p10;
      estimate.relative_p90 = interval.p90;
      return estimate;
    });
  }
};

void EvaluationWorkspaceDeleter::operator()(EvaluationWorkspace* workspace) const {
  delete workspace;
}

EvaluationWorkspacePtr PlanEvaluator::make_workspace() {
  return EvaluationWorkspacePtr(new EvaluationWorkspace);
}

PlanEvaluator::PlanEvaluator(Problem problem)
    : problem_(std::move(problem)),
      implementation_(std::make_unique<const Implementation>(problem_)) {}

PlanEvaluator::~PlanEvaluator() = default;

std::optional<Infeasible> PlanEvaluator::legality(const PlanDegrees& plan) const {
  return check_legality(plan, *problem_.network, *problem_.framework, problem_.gpus);
}

std::optional<Obstacle> PlanEvaluator::obstacle(const PlanDegrees& plan) const {
  return find_obstacle(plan, *problem_.network, *problem_.framework, problem_.gpus);
}

std::shared_ptr<const ClassProfile> PlanEvaluator::profile(const PlanDegrees& plan) const {
  const DeviceMesh mesh = implementation_->mesh(plan);
  return implementation_->profiles.profile(plan, mesh);
}

PlanBound PlanEvaluator::bound(const ClassProfile& profile, const PlanDegrees& plan,
                               EvaluationWorkspace& workspace) const {
  return implementation_->with_view(profile, plan, workspace, [&](const PlanView& view) {
    PlanBound bound;
    bound.step_time = step_time_bound(view, workspace);
    bound.memory = least_memory(view, workspace);
    return bound;
  });
}

Bytes PlanEvaluator::memory_bound(const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
  const DeviceMesh& mesh = implementation_->ground(plan, workspace).mesh;
  implementation_->profiles.fill_memory(plan, mesh, workspace.memory_only);
  return implementation_->with_view(
      workspace.memory_only, plan, workspace,
      [&](const PlanView& view) { return least_memory(view, workspace); });
}

Estimate PlanEvaluator::estimate(const ClassProfile& profile, const PlanDegrees& plan,
                                 EvaluationWorkspace& workspace) const {
  return implementation_->evaluate(profile, plan, MakespanMethod::ClosedForm, workspace);
}

Estimate PlanEvaluator::simulate(const ClassProfile& profile, const PlanDegrees& plan,
                                 EvaluationWorkspace& workspace) const {
  return implementation_->evaluate(profile, plan, MakespanMethod::Simulation, workspace);
}

DeviceMemory PlanEvaluator::stage_memory(const ClassProfile& profile, const PlanDegrees& plan,
                                         int stage, EvaluationWorkspace& workspace) const {
  return implementation_->with_view(profile, plan, workspace, [&](const PlanView& view) {
    return device_memory(view, stage, workspace);
  });
}

Bytes PlanEvaluator::memory_limit() const {
  return problem_.cluster->accelerator.memory - problem_.memory_reserve;
}

FlopRate PlanEvaluator::matmul_peak() const {
  return problem_.cluster->accelerator
      .peak[static_cast<std::size_t>(implementation_->precision.matmul)]
      .value();
}

namespace {

/// In-pass communication of every block on the first device, per step.
void append_pass_lines(const ProfileMaker& profiles, const PlanView& view,
                       std::vector<PricedCommunication>& lines) {
  for_each_chunk(view.layout, 0, [&](std::size_t content) {
    const auto& copies = view.layout.contents[content];
    for (std::size_t b = 0; b < copies.size(); ++b) {
      if (copies[b] <= 0.0) continue;
      const double repeats = copies[b] * view.plan.micro_batches;
      for (const PricedCommunication& pass : profiles.passes(view.profile, b)) {
        PricedCommunication& line = lines.emplace_back(pass);
        line.what = subject_name(view.problem.network->blocks[b], pass.communication);
        line.count *= repeats;
        line.exposed *= repeats;
      }
    }
  });
}

void append_step_line(const PlanView& view, const PricedCommunication& collective,
                      std::vector<PricedCommunication>& lines) {
  PricedCommunication& line = lines.emplace_back(collective);
  line.what = collective.communication.axes.contains(Axis::Pipeline)
                  ? "gradient of shared parameters"
                  : subject_name(view.problem.network->blocks.front(), collective.communication);
}

bool same_message(const PricedCommunication& a, const PricedCommunication& b) {
  const Communication& x = a.communication;
  const Communication& y = b.communication;
  return a.what == b.what && x.kind == y.kind && x.axes == y.axes && x.group_size == y.group_size &&
         a.bytes == b.bytes && a.time == b.time;
}

/// One line for what several chunks of a device send alike.
std::vector<PricedCommunication> merged(const std::vector<PricedCommunication>& lines) {
  std::vector<PricedCommunication> kept;
  for (const PricedCommunication& line : lines) {
    const auto known = std::find_if(kept.begin(), kept.end(), [&](const PricedCommunication& k) {
      return same_message(k, line);
    });
    if (known == kept.end()) {
      kept.push_back(line);
    } else {
      known->count += line.count;
      known->exposed += line.exposed;
    }
  }
  return kept;
}

void append_boundary_line(const PlanView& view, Seconds exposed,
                          std::vector<PricedCommunication>& lines) {
  if (view.layout.virtual_stages() == 1) return;
  const BoundaryTransfer transfer = boundary_transfer(view);
  PricedCommunication line;
  line.what = "stage boundary";
  line.communication.kind = CommunicationKind::SendReceive;
  line.communication.axes = {Axis::Pipeline};
  line.communication.group_size = 2;
  line.bytes = transfer.bytes;
  line.wire_bytes = transfer.bytes;
  line.count = 2.0 * view.plan.micro_batches * view.layout.chunks;
  line.time = transfer.time;
  line.exposed = exposed;
  lines.push_back(std::move(line));
}

}  // namespace

std::vector<PricedCommunication> PlanEvaluator::communication(
    const ClassProfile& profile, const PlanDegrees& plan, EvaluationWorkspace& workspace) const {
  return implementation_->with_view(profile, plan, workspace, [&](const PlanView& view) {
    std::vector<PricedCommunication> lines;
    append_pass_lines(implementation_->profiles, view, lines);
    const StepTimeBreakdown step = step_time(view, MakespanMethod::Simulation, workspace);
    const std::vector<PricedCommunication> collectives = step_collectives(view, workspace);
    Seconds boundary = step.exposed[static_cast<std::size_t>(Purpose::Pipeline)];
    for (const PricedCommunication& c : collectives) {
      if (purpose_of(c.communication) == Purpose::Pipeline) boundary -= c.exposed;
    }
    append_boundary_line(view, std::max(boundary, Seconds(0)), lines);
    for (const PricedCommunication& c : collectives) append_step_line(view, c, lines);
    return merged(lines);
  });
}

}  // namespace plansearch
