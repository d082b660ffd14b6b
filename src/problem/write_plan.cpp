// SPDX-License-Identifier: Apache-2.0
#include "problem/write_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.hpp"
#include "io/file.hpp"
#include "io/plan_document.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/setting_table.hpp"

namespace plansearch {
namespace {

/// What the question came to, and the settings that somebody chose among those with at least this
/// effect.
ProblemRequest question_of(const GivenPlan& given, SettingEffect least) {
  const Problem& problem = given.problem;
  ProblemRequest question;
  for (const SettingRow& row : setting_table()) {
    const auto value = row.get(given.asked.request);
    if (value && row.effect <= least) row.set(question, *value);
  }
  question.framework = problem.framework->name;
  question.gpus = given.plan.devices();
  question.batch = problem.global_batch;
  question.seq_len = problem.seq_len;
  question.precision = to_text(problem.precision);
  if (const auto& lora = problem.model->training.lora; lora && question.lora_rank) {
    question.lora_targets = fmt::format("{}", fmt::join(lora->targets, ","));
  }
  const ProblemFiles& files = given.asked.files;
  question.content_hashes = {{"hardware", hash_text(files.cluster->content_hash)},
                             {"model", hash_text(files.model->content_hash)}};
  return question;
}

std::optional<io::PlacementsDocument> placements_of(const GivenPlan& given) {
  const auto& placements = given.plan.transforms.front().placements;
  if (!placements) return std::nullopt;
  return io::PlacementsDocument{names_of(*placements, *given.problem.network), {}, {}, {}};
}

void add_plan(const GivenPlan& given, io::PlanDocument& document) {
  const Problem& problem = given.problem;
  if (given.degrees) {
    document.question.degrees = to_pinned(*given.degrees);
  } else {
    document.stages = io::to_stages(given.plan, *problem.framework, *problem.network);
  }
  document.placements = placements_of(given);
}

}  // namespace

std::string plan_identity(const GivenPlan& given) {
  io::PlanDocument document{question_of(given, SettingEffect::Price), {}, {}};
  // The content of a file matters, not its name.
  document.question.hardware = document.question.model = "-";
  add_plan(given, document);
  return hash_text(content_hash(io::to_yaml(document)));
}

void write_plan_files(const GivenPlan& given, const std::string& plan, const std::string& stages) {
  const Problem& problem = given.problem;
  io::PlanDocument document{question_of(given, SettingEffect::Room), {}, {}};
  io::PlanDocument spelled = document;
  spelled.stages = io::to_stages(given.plan, *problem.framework, *problem.network);
  spelled.placements = placements_of(given);
  add_plan(given, document);
  if (!stages.empty()) io::write_file(stages, io::to_yaml(spelled));
  if (!plan.empty()) io::write_file(plan, io::to_yaml(document));
}

}  // namespace plansearch
