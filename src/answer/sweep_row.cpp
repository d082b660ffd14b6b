// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "answer/make_report.hpp"
#include "answer/search_session.hpp"
#include "answer/sweep.hpp"
#include "answer/unstated.hpp"
#include "plansearch/error.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/stop_token.hpp"
#include "question/degrees.hpp"
#include "question/resolve_plan.hpp"
#include "report/plan_fields.hpp"
#include "report/training.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

struct Answered {
  std::string outcome = "refused";
  std::string reason;
  std::optional<QuestionReport> question;
  std::optional<PlanReport> plan;
};

ResolvedPlan resolved(const PlanRequest& asked, QuestionFiles& files) {
  if (asked.transform || asked.assign) return resolve_plan(asked);
  check_degrees(asked.request.degrees);
  return resolve_plan(asked, files.of(asked.request));
}

Answered predicted(const PlanRequest& asked, QuestionFiles& files) {
  const ResolvedPlan given = resolved(asked, files);
  Answered answer;
  if (given.inexpressible) {
    answer.reason = *given.inexpressible;
    return answer;
  }
  SearchReport report = predict_as_asked(given, files.priors());
  answer.question = report.question;
  answer.plan = std::move(report.plans.front());
  answer.outcome = report.misses.empty() ? "plan" : "does not fit";
  return answer;
}

Answered searched(const ProblemRequest& request, QuestionFiles& files) {
  check_degrees(request.degrees, request.limits);
  const ResolvedQuestion asked = resolve_question(request, files.of(request));
  if (!asked.gpus) throw InputError({}, "no number of GPUs", "give gpus or nodes");
  SearchOptions options;
  options.top = 1;
  SearchSession session(options, [](const std::string&) {});
  auto found = session.report(asked, *asked.gpus, "", SideQuestions::None);
  if (session.stopped()) throw Stopped(StopReason::Signal);  // half an answer is none
  Answered answer;
  answer.question = question_report(asked, with_gpus(asked, *asked.gpus));
  answer.outcome = "no plan";
  if (const auto* none = std::get_if<Infeasible>(&found)) {
    answer.reason = none->detail;
    return answer;
  }
  auto& report = std::get<SearchReport>(found);
  answer.question = report.question;
  if (report.plans.empty()) {
    answer.reason = "no plan fits";
    return answer;
  }
  answer.outcome = "plan";
  answer.plan = std::move(report.plans.front());
  return answer;
}

/// Values of the command line hold where the file leaves something open.
ProblemRequest with_common(const ProblemRequest& own, const ProblemRequest& common) {
  ProblemRequest asked = completed(own, common);
  if (asked.space.empty()) asked.space = common.space;
  if (!asked.gpus && !asked.nodes) asked.nodes = common.nodes;
  if (own.framework.empty() && asked.target.empty()) {
    asked.target = common.target;
    if (!asked.target.empty()) asked.framework.clear();
  }
  return asked;
}

Answered answer_of(const io::TableQuestion& question, const ProblemRequest& common,
                   QuestionFiles& files) {
  try {
    const ProblemRequest asked = with_common(question.request, common);
    return question.predict ? predicted(complete_from_plan(asked, question.plan), files)
                            : searched(asked, files);
  } catch (const InputError& error) {
    Answered answer;
    answer.reason = error.what();
    if (!error.hint().empty()) answer.reason += "; " + error.hint();
    return answer;
  }
}

/// The same keys for every question, so that rows are lines of one table.
Json values_of(const Answered& answer) {
  const QuestionReport question = answer.question.value_or(QuestionReport{});
  Json values = plan_row(question, answer.plan.value_or(PlanReport{}), RowKind::Collected);
  values.update(identity_json(question));  // a row without a plan has its own GPUs and batch
  Json row = Json::object();
  for (const auto& [key, value] : values.items()) {
    if (!key.starts_with("training_") && !key.starts_with("lora_")) row[key] = value;
  }
  const Json identity = identity_json(QuestionReport{});
  for (auto& [key, value] : row.items()) {
    const bool known =
        identity.contains(key) ? answer.question.has_value() : answer.plan.has_value();
    if (!known) value = nullptr;
  }
  const auto cost = answer.plan ? training_cost(question, *answer.plan) : std::nullopt;
  const Json training = object_of(training_columns(), cost.value_or(TrainingCost{}));
  for (const auto& [key, value] : training.items())
    row["training_" + key] = cost ? value : Json(nullptr);
  return row;
}

}  // namespace

QuestionFiles::QuestionFiles() : priors_(switch_priors(shipped_data())) {}

ProblemFiles QuestionFiles::of(const ProblemRequest& request) {
  constexpr std::size_t kMost = 256;  // beyond it they are read again
  const std::vector<std::string> key{request.hardware, request.model, request.framework,
                                     request.target, request.set.value_or("")};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  const ProblemFiles files = read_problem_files(request);
  const std::lock_guard lock(mutex_);
  if (known_.size() == kMost) known_.clear();
  known_.emplace(key, files);
  return files;
}

Json answer_row(const io::TableQuestion& question, const ProblemRequest& common, std::size_t number,
                QuestionFiles& files) {
  const Answered answer = answer_of(question, common, files);
  Json row{{"question", number},
           {"asked", question.text},
           {"outcome", answer.outcome},
           {"reason", answer.reason.empty() ? Json(nullptr) : Json(answer.reason)}};
  row.update(values_of(answer));
  return row;
}

}  // namespace plansearch
