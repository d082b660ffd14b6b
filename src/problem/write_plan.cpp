// SPDX-License-Identifier: Apache-2.0
#include "problem/write_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.hpp"
#include "io/file.hpp"
#include "io/plan_document.hpp"

namespace plansearch {
namespace {

/// A setting that somebody chose; defaults are left open.
std::optional<std::string> chosen(const GivenPlan& given, std::string_view key) {
  for (const SettingReport& setting : given.asked.settings) {
    const bool asked = setting.origin == "flag" || setting.origin == "plan";
    if (setting.key == key && asked) return setting.value;
  }
  return std::nullopt;
}

io::PlanDocument question_of(const GivenPlan& given, const std::string& hardware,
                             const std::string& model) {
  const Problem& problem = given.problem;
  const ProblemFiles& files = given.asked.files;
  io::PlanDocument document;
  document.hardware = {hardware, hash_text(files.cluster->content_hash)};
  document.model = {model, hash_text(files.model->content_hash)};
  document.framework = {problem.framework->name, std::nullopt};
  document.gpus = given.plan.devices();
  document.global_batch = problem.global_batch;
  document.seq_len = problem.seq_len;
  document.precision = problem.precision;
  document.optimizer = chosen(given, "optimizer");
  document.attention = chosen(given, "attention");
  document.rank_order = chosen(given, "rank_order");
  if (chosen(given, "lora_rank")) {
    document.lora_rank = problem.model->training.lora->rank;
    document.lora_targets =
        fmt::format("{}", fmt::join(problem.model->training.lora->targets, ","));
  }
  return document;
}

std::optional<io::PlacementsDocument> placements_of(const GivenPlan& given) {
  const auto& placements = given.plan.transforms.front().placements;
  if (!placements) return std::nullopt;
  return io::PlacementsDocument{names_of(*placements, *given.problem.network), {}, {}, {}};
}

void add_plan(const GivenPlan& given, io::PlanDocument& document) {
  const Problem& problem = given.problem;
  if (given.degrees) {
    document.degrees = io::to_document(*given.degrees).degrees;
  } else {
    document.stages = io::to_stages(given.plan, *problem.framework, *problem.network);
  }
  document.placements = placements_of(given);
}

}  // namespace

std::string plan_identity(const GivenPlan& given) {
  io::PlanDocument document = question_of(given, {}, {});
  add_plan(given, document);
  return hash_text(content_hash(io::to_yaml(document)));
}

void write_plan_files(const ProblemRequest& asked, const GivenPlan& given, const std::string& plan,
                      const std::string& stages) {
  const Problem& problem = given.problem;
  io::PlanDocument document = question_of(given, asked.hardware, asked.model);
  io::PlanDocument spelled = document;
  spelled.stages = io::to_stages(given.plan, *problem.framework, *problem.network);
  spelled.placements = placements_of(given);
  add_plan(given, document);
  if (!stages.empty()) io::write_file(stages, io::to_yaml(spelled));
  if (!plan.empty()) io::write_file(plan, io::to_yaml(document));
}

}  // namespace plansearch
