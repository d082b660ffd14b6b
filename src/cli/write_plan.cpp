// SPDX-License-Identifier: Apache-2.0
#include "cli/write_plan.hpp"

#include "base/hash.hpp"
#include "io/file.hpp"
#include "io/plan_document.hpp"

namespace plansearch::cli {
namespace {

/// A setting that somebody chose; defaults are left open.
std::optional<std::string> chosen(const GivenPlan& given, std::string_view key) {
  for (const SettingReport& setting : given.inputs.settings) {
    const bool asked = setting.origin == "flag" || setting.origin == "plan";
    if (setting.key == key && asked) return setting.value;
  }
  return std::nullopt;
}

io::PlanDocument question_of(const Options& asked, const GivenPlan& given) {
  const Problem& problem = given.problem;
  const ProblemFiles& files = given.inputs.files;
  io::PlanDocument document;
  document.hardware = {asked.hardware, hash_text(files.cluster->content_hash)};
  document.model = {asked.model, hash_text(files.model->content_hash)};
  document.framework = {problem.framework->name, std::nullopt};
  document.gpus = given.plan.devices();
  document.global_batch = problem.global_batch;
  document.seq_len = problem.seq_len;
  document.precision = problem.precision;
  document.optimizer = chosen(given, "optimizer");
  document.attention = chosen(given, "attention");
  document.rank_order = chosen(given, "rank_order");
  return document;
}

}  // namespace

void write_plan_files(const Options& asked, const GivenPlan& given) {
  const Problem& problem = given.problem;
  io::PlanDocument document = question_of(asked, given);
  io::PlanDocument spelled = document;
  spelled.stages = io::to_stages(given.plan, *problem.framework, *problem.network);
  if (given.degrees) document.degrees = io::to_document(*given.degrees).degrees;
  if (!asked.write_stages.empty()) io::write_file(asked.write_stages, io::to_yaml(spelled));
  if (asked.write_plan.empty()) return;
  io::write_file(asked.write_plan, io::to_yaml(given.degrees ? document : spelled));
}

}  // namespace plansearch::cli
