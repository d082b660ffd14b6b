// SPDX-License-Identifier: Apache-2.0
#include "question/resolve_plan.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "io/document/file.hpp"
#include "plan/stages/gangs.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/setting_table.hpp"
#include "question/training_task.hpp"

namespace plansearch {
namespace {

/// The value of a setting, in the words of the answer.
const SettingReport* report_of(const ResolvedPlan& given, const SettingRow& row) {
  const auto& settings = given.asked.settings;
  const auto found = std::ranges::find(settings, row.key, &SettingReport::key);
  return found == settings.end() ? nullptr : &*found;
}

enum class Settings { Chosen, All };

/// The resolved question, with the settings that the user chose (or all there are) among those with
/// at least this effect.
ProblemRequest question_of(const ResolvedPlan& given, SettingEffect least, Settings which) {
  const Problem& problem = given.problem;
  const ProblemRequest asked = with_plain_optimizer(given.asked.request);
  ProblemRequest question;
  for (const SettingRow& row : setting_table()) {
    if (row.effect > least) continue;
    const SettingReport* report = row.kind == SettingKind::Name ? nullptr : report_of(given, row);
    auto value = row.get(asked);
    if (report != nullptr && (value || which == Settings::All)) value = report->value;
    if (value) row.set(question, *value);
  }
  question.framework = problem.framework->name;
  question.gpus = given.plan.devices();
  question.batch = problem.global_batch;
  question.seq_len = problem.seq_len;
  question.precision = to_text(problem.precision);
  if (question.lora_rank && !question.lora_targets) {
    question.lora_targets = report_of(given, row_of(Setting::LoraTargets))->value;
  }
  const ProblemFiles& files = given.asked.files;
  question.content_hashes = {{"hardware", hash_text(files.cluster->content_hash)},
                             {"model", hash_text(files.model->content_hash)}};
  return question;
}

std::optional<io::PlacementsDocument> placements_of(const ResolvedPlan& given) {
  const Transform& first = given.plan.transforms.front();
  if (!first.is_placed()) return std::nullopt;
  return io::PlacementsDocument{names_of(*first.placements, *given.problem.network), {}, {}, {}};
}

void add_shared(const ResolvedPlan& given, io::PlanDocument& document) {
  if (!given.shared.empty()) document.shared = io::SharedDocument{given.shared, {}};
  document.window = given.window;
}

/// The plan stage by stage, gangs on the stages beside them.
io::StagesDocument stages_of(const ResolvedPlan& given) {
  const Problem& problem = given.problem;
  io::StagesDocument stages = io::to_stages(without_gangs(given.plan, *problem.network),
                                            *problem.framework, *problem.network);
  if (given.plan.order.window) stages.schedule.reset();
  return stages;
}

void add_plan(const ResolvedPlan& given, io::PlanDocument& document) {
  if (given.degrees) {
    document.question.degrees = to_pinned(*given.degrees);
  } else {
    document.stages = stages_of(given);
  }
  document.placements = placements_of(given);
  add_shared(given, document);
}

}  // namespace

std::string plan_identity(const ResolvedPlan& given) {
  io::PlanDocument document{question_of(given, SettingEffect::Price, Settings::All), {}, {}};
  // The content of a file matters, not its name.
  document.question.hardware = document.question.model = "-";
  add_plan(given, document);
  return hash_text(content_hash(io::to_yaml(document)));
}

void write_plan_files(const ResolvedPlan& given, const PlanFiles& files) {
  io::PlanDocument document{question_of(given, SettingEffect::Room, Settings::Chosen), {}, {}};
  io::PlanDocument spelled = document;
  spelled.placements = placements_of(given);
  add_shared(given, spelled);
  io::PlanDocument primitives = spelled;
  spelled.stages = stages_of(given);
  add_plan(given, document);
  if (!files.primitives.empty()) {
    add_primitives(given, *spelled.stages, primitives);
    io::write_file(files.primitives, io::to_yaml(primitives));
  }
  if (!files.stages.empty()) io::write_file(files.stages, io::to_yaml(spelled));
  if (!files.plan.empty()) io::write_file(files.plan, io::to_yaml(document));
}

}  // namespace plansearch
