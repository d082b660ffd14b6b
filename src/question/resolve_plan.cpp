// SPDX-License-Identifier: Apache-2.0
#include "question/resolve_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/legality/legality.hpp"
#include "plan/stages/expand.hpp"
#include "plansearch/degree_table.hpp"
#include "question/degrees.hpp"
#include "question/gpu_count.hpp"

namespace plansearch {

namespace {

/// The change that would make a plan legal, where the obstacle itself does not say.
std::string remedy_for(const Infeasible& infeasible) {
  if (std::string legal = legal_values_text(infeasible); !legal.empty()) return legal;
  switch (infeasible.obstacle) {
    case Obstacle::FrameworkForbids:
    case Obstacle::NoSuchFeature:
      return "change the degrees, or price it as another framework: plansearch list frameworks";
    case Obstacle::ScheduleNeedsMicroBatches:
      return "change --batch, --dp or --micro-batch, or use --schedule 1f1b";
    default:
      return "leave a degree out and plansearch search finds what fits";
  }
}

/// Refuses the plan, or notes that the target cannot express it.
void judge(const PlanFault& fault, const std::string& target, ResolvedPlan& given) {
  const Infeasible& why = fault.why;
  const InputError error(fault.where, fmt::format("{}: {}", to_text(why.obstacle), why.detail),
                         remedy_for(why));
  const bool about_framework =
      why.obstacle == Obstacle::FrameworkForbids || why.obstacle == Obstacle::NoSuchFeature;
  if (fault.of_plan || target.empty() || !about_framework) throw InputError(error);
  given.inexpressible = error.formatted();
}

/// One plan has one value of everything.
void refuse_several(const ProblemRequest& request) {
  std::string what;
  for (const DegreeRow& row : degree_table()) {
    if (!request.limits.has(row.degree)) continue;
    what = fmt::format("{} {}", flag_of(key_of(row.degree, {})), request.limits.text(row.degree));
  }
  if (!request.gpu_list.empty()) what = "a list of --gpus";
  if (!request.node_list.empty()) what = "a list of --nodes";
  if (!request.batch_list.empty()) what = "a list of --batch";
  if (!request.seq_len_list.empty()) what = "a list of --seq-len";
  if (what.empty()) return;
  throw InputError({}, fmt::format("{}: one plan has one value", what),
                   "give one, or search among them: plansearch search with the same flags");
}

/// Makes the plan of its degrees.
std::optional<Infeasible> expand_degrees(const PlanDegrees& degrees, bool placed,
                                         ResolvedPlan& given) {
  const Problem& problem = given.problem;
  if (!placed) {
    given.degrees = degrees;
    std::optional<Infeasible> bad;
    if (degrees.temporal == Temporal::Ring) {
      bad = steps_fault(*problem.framework, OperatorSteps::Rings);
    }
    if (!bad) {
      bad = check_legality(degrees, *problem.network, *problem.framework, problem.gpus,
                           problem.precision);
    }
    if (bad) return bad;
  }
  auto plan = expand(degrees, *problem.network, *problem.framework);
  if (auto* bad = std::get_if<Infeasible>(&plan)) return std::move(*bad);
  given.plan = std::get<ParallelPlan>(std::move(plan));
  return std::nullopt;
}

/// Places operators, shares devices, and checks the whole of a plan that is not of degrees alone.
std::optional<PlanFault> complete_plan(const PlanRequest& asked,
                                       const std::optional<PlacedOperators>& operators,
                                       ResolvedPlan& given) {
  const bool shares = asked.shared || asked.window;
  if (!operators && !asked.stages && !shares) return std::nullopt;
  if (operators) {
    if (auto fault = place_operators(*operators, given)) return fault;
  }
  if (shares) {
    if (auto fault = share_devices(asked, given)) return fault;
  }
  const Problem& problem = given.problem;
  auto bad = check_plan(given.plan, *problem.network, *problem.framework, problem.gpus,
                        problem.global_batch, problem.precision);
  if (!bad) return std::nullopt;
  if (asked.stages) return PlanFault{*bad, place_of(*bad, *asked.stages)};
  if (operators) return PlanFault{*bad, operators->where};
  return PlanFault{*bad,
                   asked.shared ? asked.shared->places.front().where : asked.window->place.where};
}

/// A target runs what follows from roles alone, and the steps and pieces that its framework lists.
void refuse_single_operators(const PlacedOperators& operators, ResolvedPlan& given) {
  const Placements& placements = operators.placements;
  const bool listed = placements.over_squares() || placements.over_rings() ||
                      (placements.in_pieces() && placements.by_role());
  if (listed) return;
  given.inexpressible =
      InputError(operators.where,
                 fmt::format("{} cuts operators by the role of their dimensions, not one by one",
                             given.problem.framework->name),
                 "leave placements out for plans that it runs")
          .formatted();
}

ResolvedPlan settled_plan(const PlanRequest& asked, const ProblemFiles& files) {
  ResolvedPlan given{resolve_question(asked.request, files), {}, {}, {}, {}, {}, {}};
  const bool squares = !asked.request.square.empty();
  const bool rings =
      asked.request.degrees.get(Degree::Temporal) == static_cast<int>(Temporal::Ring);
  if ((squares && (asked.stages || asked.placements)) || (rings && asked.placements)) {
    throw InputError({}, "--temporal beside a plan that says how its operators are cut",
                     "leave one of them out; placements: takes square: for single operators");
  }
  const bool placed = squares || asked.placements;
  Problem& problem = given.asked.problem;
  const PlanDegrees degrees = degrees_of(asked, placed, given.asked);
  if (!asked.stages) check_devices(given.asked, degrees.devices(), {});
  std::optional<PlacedOperators> operators;
  if (placed) operators = placed_operators(asked, degrees, problem);
  if (asked.stages) {
    given.plan = spelled_plan(*asked.stages, problem, placed);
    check_devices(given.asked, given.plan.devices(), asked.stages->place.where);
  }
  given.problem = with_gpus(given.asked, asked.stages ? given.plan.devices() : degrees.devices());
  std::optional<PlanFault> fault;
  if (!asked.stages) {
    if (auto bad = expand_degrees(degrees, placed, given)) fault = {*std::move(bad), {}};
  }
  if (!fault) fault = complete_plan(asked, operators, given);
  if (fault) judge(*fault, asked.request.target, given);
  if (!fault && operators && !asked.request.target.empty()) {
    refuse_single_operators(*operators, given);
  }
  return given;
}

/// A size that decides which plans a network has.
struct Size {
  const char* name;
  std::int64_t (*of)(const ModelDescription& model);
};
constexpr Size kSizes[] = {
    {"layers", [](const ModelDescription& m) { return m.layers; }},
    {"hidden", [](const ModelDescription& m) { return m.hidden; }},
    {"heads", [](const ModelDescription& m) { return m.attention.heads; }},
    {"kv_heads", [](const ModelDescription& m) { return m.attention.kv_heads; }},
    {"ffn", [](const ModelDescription& m) { return m.mlp.width; }},
    {"vocab", [](const ModelDescription& m) { return m.embedding.vocab; }},
    {"experts", [](const ModelDescription& m) { return m.moe ? m.moe->experts : 0; }},
    {"max_positions", [](const ModelDescription& m) { return m.max_positions.value_or(0); }}};

/// Nothing where its file has gone: the plan says enough of its own.
std::shared_ptr<const ShippedModel> model_named(ProblemRequest request, const std::string& name) {
  request.model = name;
  try {
    return read_problem_files(request).model;
  } catch (const InputError&) {
    return nullptr;
  }
}

/// Both models and the sizes in which they differ, in a sentence; empty where the plan names no
/// other model, or one that is not there any more.
std::string other_model(const PlanRequest& asked, const ProblemFiles& files) {
  if (asked.written_for.empty() || asked.written_for == asked.request.model) return {};
  const auto before = model_named(asked.request, asked.written_for);
  if (before == nullptr || before->content_hash == files.model->content_hash) return {};
  const ModelDescription& was = before->description;
  const ModelDescription& is = files.model->description;
  std::vector<std::string> differences;
  for (const Size& size : kSizes) {
    if (size.of(was) == size.of(is)) continue;
    differences.push_back(fmt::format("{} {} instead of {}", size.name, size.of(is), size.of(was)));
  }
  return fmt::format("the plan was written for {}, and this is {}{}", was.name, is.name,
                     differences.empty() ? "" : fmt::format(" ({})", fmt::join(differences, ", ")));
}

constexpr DegreeSet kTensor{Degree::TensorIn, Degree::TensorOut, Degree::TensorDepth};
/// A framework has values of its own for them.
constexpr DegreeSet kOfFramework{Degree::Zero, Degree::SequenceParallel, Degree::ContextKind,
                                 Degree::Recompute, Degree::Schedule};
/// Degrees of all stages together.
constexpr DegreeSet kOfPipeline{Degree::Pipeline, Degree::Chunks, Degree::MicroBatch,
                                Degree::Schedule};

/// Whether a value is worth a word in this plan.
bool is_told(Degree degree, const PlanDegrees& plan) {
  switch (degree) {
    case Degree::Data:
    case Degree::Pipeline:
    case Degree::TensorOut:
    case Degree::Zero:
    case Degree::MicroBatch:
    case Degree::Recompute:
      return true;
    case Degree::Schedule:
      return plan.pipeline > 1;
    case Degree::SequenceParallel:
      return plan.tensor() > 1;
    case Degree::ContextKind:
      return plan.context > 1;
    default:
      return degree_value(plan, degree) != degree_value(PlanDegrees{}, degree);
  }
}

bool is_open(Degree degree, const PinnedDegrees& said) {
  if (!kTensor.contains(degree)) return !said.has(degree);
  return !said.has(Degree::TensorIn) && !said.has(Degree::TensorOut) &&
         !said.has(Degree::TensorDepth);
}

std::string_view origin_of(Degree degree, bool by_stage) {
  if (degree == Degree::Data && !by_stage) return "gpus";
  return kOfFramework.contains(degree) ? "framework" : "default";
}

/// One value, or that of every stage.
std::string value_of(Degree degree, const ParallelPlan& plan) {
  std::vector<std::string> values;
  for (int p = 0; p < plan.assignment->stages(); ++p) {
    const PlanDegrees& degrees = plan.transform_at(p).degrees;
    values.push_back(std::string(value_text(degree, degree_value(degrees, degree))));
  }
  const bool alike =
      std::ranges::all_of(values, [&](const std::string& text) { return text == values.front(); });
  return alike ? values.front() : fmt::format("{}", fmt::join(values, "/"));
}

bool is_left_open(Degree degree, const PlanRequest& asked) {
  if (!asked.stages) return is_open(degree, asked.request.degrees);
  if (degree == Degree::Schedule) return !asked.stages->schedule;
  if (kOfPipeline.contains(degree)) return false;
  const auto& stages = asked.stages->stages;
  return std::ranges::any_of(
      stages, [&](const io::StageEntry& stage) { return is_open(degree, stage.degrees); });
}

bool places_all(const PlacementNames& names) {
  return names.operators.empty() || std::ranges::any_of(names.operators, [](const auto& entry) {
           return entry.operators == std::vector<std::string>{"others"};
         });
}

}  // namespace

ResolvedPlan resolve_plan(const PlanRequest& asked) {
  if (asked.transform || asked.assign) {
    const ResolvedQuestion question = load_problem(asked.request);
    return resolve_plan(without_primitives(asked, *question.problem.network));
  }
  refuse_several(asked.request);
  check_degrees(asked.request.degrees);
  return resolve_plan(asked, read_problem_files(asked.request));
}

ResolvedPlan resolve_plan(const PlanRequest& asked, const ProblemFiles& files) {
  const std::string other = other_model(asked, files);
  try {
    ResolvedPlan given = settled_plan(asked, files);
    if (!other.empty()) given.asked.notes.push_back("note: " + other);
    note_filled(asked, given);
    return given;
  } catch (const InputError& error) {
    if (other.empty()) throw;
    const std::string own = "leave --model out; plansearch search finds plans of this model";
    throw InputError(error.where(), fmt::format("{}; {}", error.what(), other),
                     error.hint().empty() ? own : error.hint() + "; or " + own);
  }
}

void note_filled(const PlanRequest& asked, ResolvedPlan& given) {
  const bool by_file = !asked.request.from_plan.empty() || asked.stages || asked.placements ||
                       asked.shared || asked.window;
  if (!by_file || given.inexpressible) return;
  const PlanDegrees& first = given.plan.transform_at(0).degrees;
  const auto note = [&](std::string_view key, std::string value, std::string_view origin) {
    given.asked.settings.push_back({std::string(key), std::move(value), std::string(origin)});
  };
  for (const DegreeRow& row : degree_table()) {
    if (given.plan.order.window && row.degree == Degree::Schedule) continue;
    if (!is_left_open(row.degree, asked) || !is_told(row.degree, first)) continue;
    note(key_of(row.degree, {}), value_of(row.degree, given.plan),
         origin_of(row.degree, asked.stages.has_value()));
  }
  if (given.plan.order.window && !asked.window) note("order", "shortest window", "default");
  if (asked.placements && !places_all(asked.placements->names)) {
    note("other_operators", "by role", "default");
  }
}

}  // namespace plansearch
