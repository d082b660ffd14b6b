// SPDX-License-Identifier: Apache-2.0
#include "answer/export_question.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "answer/make_report.hpp"
#include "answer/write_execution_traces.hpp"
#include "base/names.hpp"
#include "base/ranges.hpp"
#include "exporters/export_plan.hpp"
#include "plan/stages/expand.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/training_task.hpp"

namespace plansearch {
namespace {

using exporters::Exporter;
using exporters::ExportRequest;
using exporters::Refusal;
using exporters::Targets;

const Exporter& exporter_of(const Targets& targets, const std::string& target) {
  if (const Exporter* found = targets.find(target)) return *found;
  throw InputError({}, fmt::format("--to {}: no such target", target),
                   fmt::format("one of {}", fmt::join(targets.names(), ", ")));
}

void check_launcher(const Exporter& exporter, const ExportOptions& options) {
  if (exporter.traces && !options.launcher.empty())
    throw InputError({}, fmt::format("--to {} starts nothing", exporter.name),
                     "leave out --launch");
  const auto belongs = [&](const char* option, const char* launcher, bool said) {
    if (said && options.launcher != launcher)
      throw InputError({}, fmt::format("{} belongs to --launch {}", option, launcher),
                       fmt::format("add --launch {}, or leave it out", launcher));
  };
  belongs("--sbatch", "slurm", !options.sbatch.empty());
  belongs("--image", "kubernetes", !options.image.empty());
}

std::string setting(const ResolvedQuestion& asked, std::string_view key) {
  for (const SettingReport& setting : asked.settings) {
    if (setting.key == key) return setting.value;
  }
  return {};
}

/// The settings that the user chose, and the adapters of the model file, which are as little the
/// target's own.
ProblemRequest chosen_settings(const ResolvedPlan& given) {
  ProblemRequest chosen = with_plain_optimizer(given.asked.request);
  if (chosen.task == "lora") chosen.task = "sft";  // adapters are said by themselves
  if (const auto& tokens = given.asked.tokens) chosen.tokens = fmt::format("{:.0f}", *tokens);
  if (const auto& lora = given.problem.model->training.lora) {
    chosen.lora_rank = lora->rank;
    chosen.lora_targets = setting(given.asked, "lora_targets");
  }
  return chosen;
}

exporters::Prediction predict(const ResolvedPlan& given) {
  const PlanEvaluator evaluator(given.problem);
  const SearchReport report = make_prediction(given.asked, evaluator, given.plan);
  if (report.plans.empty()) return {};
  const PlanReport& plan = report.plans.front();
  return {plan.estimate.step.total(), plan.p10, plan.p90, plan.estimate.memory.total(),
          report.misses.empty()};
}

/// The stages the target makes of these degrees by itself.
std::vector<exporters::StageContent> own_stages(const ExportRequest& h, const Framework& target) {
  if (!h.differ.empty()) return {};
  const auto plan = expand(h.degrees, *h.problem.network, target);
  const auto* made = std::get_if<ParallelPlan>(&plan);
  if (made == nullptr) return {};
  const auto found = exporters::plan_stages(*made, *h.problem.network, target);
  const auto* stages = std::get_if<exporters::PlanStages>(&found);
  return stages == nullptr ? std::vector<exporters::StageContent>{} : stages->stages;
}

/// The rule of the target's framework that the plan breaks; its table says more about rings.
std::optional<std::string> broken_rule(const ResolvedPlan& given, Framework target) {
  const Problem& problem = given.problem;
  target.operator_steps = problem.framework->operator_steps;
  const auto bad = check_plan(given.plan, *problem.network, target, problem.gpus,
                              problem.global_batch, problem.precision);
  return bad ? std::optional(bad->detail) : std::nullopt;
}

std::string text_of(const Refusal& refusal) {
  return refusal.accepted.empty() ? refusal.what
                                  : fmt::format("{} (takes {})", refusal.what, refusal.accepted);
}

/// The other targets that can express the plan.
std::vector<std::string> alternatives(const Targets& targets, const Exporter& refused,
                                      ExportRequest request, const ResolvedPlan& given) {
  std::vector<std::string> names;
  for (const Exporter* exporter : targets.all()) {
    if (exporter->name == refused.name || exporter->traces) continue;
    if (!exporter->framework.empty()) {
      const Framework rules = shipped_data().framework(exporter->framework);
      if (broken_rule(given, rules)) continue;
      request.own_stages = own_stages(request, rules);
    }
    if (exporters::refusals(*exporter, request).empty()) names.push_back(exporter->name);
  }
  return names;
}

/// Where no files ship, those that C++ knows by name.
Targets known_targets() {
  try {
    return Targets(shipped_data().directory());
  } catch (const InputError&) {
    return Targets({});
  }
}

/// Whether another plan of the same question would do.
enum class Remedy { OtherPlan, OtherTarget };

/// The word of --target that finds plans for it; empty where none does.
std::string searched_as(const Exporter& exporter) {
  try {
    static_cast<void>(shipped_data().framework(exporter.name));
    return exporter.name;
  } catch (const InputError&) {
    return {};
  }
}

RefusedPlan refuse(const Exporter& exporter, const std::vector<std::string>& reasons,
                   const std::vector<std::string>& others, Remedy remedy = Remedy::OtherPlan) {
  std::vector<std::string> hints;
  if (remedy == Remedy::OtherPlan) {
    const std::string framework = searched_as(exporter);
    hints.push_back(
        framework.empty()
            ? std::string("change the plan")
            : fmt::format("plansearch --target {} finds plans that it runs", framework));
  }
  if (!others.empty()) {
    hints.push_back(fmt::format("--to {} can express this one", fmt::join(others, " or --to ")));
  }
  if (hints.empty()) hints.emplace_back("no plan of this question can be handed to it");
  const InputError error(
      {}, fmt::format("{} cannot express this plan: {}", exporter.name, fmt::join(reasons, "; ")),
      fmt::format("{}", fmt::join(hints, "; ")));
  return {error.formatted()};
}

}  // namespace

std::vector<std::string> exporter_names() {
  return known_targets().names();
}

std::string exporter_called(const std::string& word) {
  const Targets targets = known_targets();
  const Exporter* found = contains(targets.names(), word) ? nullptr : targets.called(word);
  return found == nullptr ? word : found->name;
}

std::vector<std::string> import_names() {
  std::vector<std::string> names = known_targets().readable_names();
  names.insert(names.end(), {"nemo", "primus", "gpt-neox", "hf"});
  return names;
}

std::vector<std::string> launcher_names() {
  return exporters::launcher_names();
}

namespace {

/// A plan as a target would be asked for it: the request without its prediction, or what refuses it.
struct AskedTarget {
  std::optional<ExportRequest> request;
  std::vector<std::string> reasons{};
  Remedy remedy = Remedy::OtherPlan;
};

/// `rules`: of the framework whose plans the target takes; absent: it names none.
AskedTarget ask_target(const Exporter& exporter, const std::optional<Framework>& rules,
                       const ResolvedPlan& given, const ExportOptions& options = {},
                       const std::string& version = {}) {
  if (given.plan.transforms.front().is_placed()) {
    return {{}, {"operators are placed one by one (placements)"}};
  }
  if (given.plan.order.window) return {{}, {"its order is found for the plan, and no schedule"}};
  const auto found =
      exporters::plan_stages(given.plan, *given.problem.network, *given.problem.framework);
  if (const auto* elsewhere = std::get_if<std::string>(&found)) return {{}, {*elsewhere}};
  const auto& stages = std::get<exporters::PlanStages>(found);
  AskedTarget asked;
  ExportRequest& request = asked.request.emplace(
      ExportRequest{given.problem,
                    stages.degrees,
                    stages.stages,
                    {},
                    setting(given.asked, "optimizer"),
                    setting(given.asked, "attention"),
                    chosen_settings(given),
                    {},
                    {},
                    version,
                    {options.sbatch, options.image, options.checkpoints, options.save_every},
                    stages.positions,
                    stages.differ,
                    stages.difference});
  std::optional<std::string> rule;
  if (rules) {
    rule = broken_rule(given, *rules);
    if (!rule) request.own_stages = own_stages(request, *rules);
  }
  for (const Refusal& refusal : exporters::refusals(exporter, request)) {
    asked.reasons.push_back(text_of(refusal));
    if (refusal.of_question) asked.remedy = Remedy::OtherTarget;
  }
  if (rule) asked.reasons.push_back(std::move(*rule));
  if (exporter.traces && !given.plan.assignment->direct.empty())
    asked.reasons.emplace_back("tensors pass over stages on their way to another one");
  return asked;
}

std::optional<Framework> rules_of(const Exporter& exporter) {
  if (exporter.framework.empty()) return std::nullopt;
  return shipped_data().framework(exporter.framework);
}

/// The target of a framework; a variant's is that of its base (torchtitan-async-tp is torchtitan).
const Exporter* target_of(const Targets& targets, const std::string& framework) {
  if (const Exporter* own = targets.find(framework)) return own;
  for (const Exporter* exporter : targets.all()) {
    if (!exporter->framework.empty() && framework.starts_with(exporter->framework)) return exporter;
  }
  return nullptr;
}

}  // namespace

std::variant<ExportResult, RefusedPlan> export_question(const ResolvedPlan& given,
                                                        const ExportOptions& options,
                                                        const std::string& version) {
  const Targets targets(shipped_data().directory());
  const Exporter& exporter = exporter_of(targets, options.target);
  check_launcher(exporter, options);
  AskedTarget asked = ask_target(exporter, rules_of(exporter), given, options, version);
  if (!asked.request) return refuse(exporter, asked.reasons, {});
  if (!asked.reasons.empty()) {
    return refuse(exporter, asked.reasons, alternatives(targets, exporter, *asked.request, given),
                  asked.remedy);
  }
  if (exporter.traces)
    return write_execution_traces(given.problem, given.plan, options.out, version);
  asked.request->prediction = predict(given);
  asked.request->identity = plan_identity(given);
  exporters::Exported exported =
      exporters::export_plan(exporter, *asked.request, exporters::find_launcher(options.launcher));
  return ExportResult{std::move(exported.text), std::move(exported.notes)};
}

TargetFilter::TargetFilter(const std::string& target, const std::string& framework)
    : targets_(std::make_shared<const Targets>(shipped_data().directory())),
      target_(target.empty() ? nullptr : targets_->called(canonical_name(target))) {
  if (target_ == nullptr) target_ = target_of(*targets_, target.empty() ? framework : target);
  const bool named = !target.empty() && canonical_name(target) != canonical_name(framework);
  if (target_ != nullptr) rules_ = rules_of(*target_);
  if (target_ != nullptr || !named) return;
  throw InputError({}, fmt::format("--target {}: no program of that name takes plans", target),
                   fmt::format("one of: {}", fmt::join(exporter_names(), ", ")));
}

std::string TargetFilter::name() const {
  return target_ == nullptr ? std::string() : target_->name;
}

DegreeLimits TargetFilter::within(DegreeLimits limits, const PinnedDegrees& pinned) const {
  if (target_ == nullptr || target_->traces) return limits;
  for (const DegreeRow& row : degree_table()) {
    const exporters::Setting setting = exporters::setting_of(row.degree);
    if (pinned.has(row.degree) || limits.has(row.degree)) continue;
    const exporters::Accepts* accepts = exporters::find_accepts(*target_, setting);
    if (accepts != nullptr && accepts->values.empty()) continue;
    // A degree that decides nothing in a plan has its neutral value.
    std::vector<int> values;
    if (accepts == nullptr || row.degree != Degree::Recompute)
      values.push_back(degree_value(PlanDegrees{}, row.degree));
    for (const std::string& word :
         accepts != nullptr ? accepts->values : std::vector<std::string>{}) {
      if (const auto value = parse_value(row.degree, word)) values.push_back(*value);
    }
    std::ranges::sort(values);
    const auto same = std::ranges::unique(values);
    values.erase(same.begin(), same.end());
    limits.allow(row.degree, std::move(values));
  }
  return limits;
}

std::optional<std::string> TargetFilter::refused(const ResolvedQuestion& asked) const {
  if (target_ == nullptr || target_->traces) return std::nullopt;
  const PinnedDegrees& pinned = asked.request.degrees;
  const PlanDegrees degrees = with_pinned({}, pinned);  // open ones decide nothing
  for (const DegreeRow& row : degree_table()) {
    const exporters::Setting setting = exporters::setting_of(row.degree);
    if (!pinned.has(row.degree) || !exporters::matters(row.degree, degrees, *asked.problem.model)) {
      continue;
    }
    const exporters::Accepts* accepts = exporters::find_accepts(*target_, setting);
    const std::string value = value_text(row.degree, row.get(degrees));
    const std::vector<std::string> takes =
        accepts == nullptr ? std::vector{exporters::neutral_value(setting)} : accepts->values;
    if (takes.empty() || contains(takes, value)) continue;
    return text_of({fmt::format("{} {}", exporters::name_of(setting), value),
                    fmt::format("{}", fmt::join(takes, ", "))});
  }
  return std::nullopt;
}

TargetFilter::Reasons TargetFilter::reasons(const ResolvedPlan& given) const {
  if (target_ == nullptr) return {};
  AskedTarget asked = ask_target(*target_, rules_, given);
  return {std::move(asked.reasons), asked.remedy == Remedy::OtherTarget};
}

std::optional<std::string> command_to_run(const ResolvedQuestion& asked, const PricedPlan& first,
                                          const std::string& version) {
  const Targets targets(shipped_data().directory());
  const Exporter* target = target_of(targets, asked.problem.framework->name);
  if (target == nullptr || first.plan.transforms.empty()) return std::nullopt;
  ResolvedPlan given{asked, first.problem, first.plan, {}, {}, {}, {}};
  const auto exported = export_question(given, {target->name, {}}, version);
  if (!std::holds_alternative<ExportResult>(exported)) return std::nullopt;
  return fmt::format(
      "plan 1 runs by plansearch export ANSWER.json#1 --to {} --launch slurm; ANSWER.json is this "
      "answer (--format json --out ANSWER.json)",
      target->name);
}

}  // namespace plansearch
