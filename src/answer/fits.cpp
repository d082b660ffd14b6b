// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include "answer/compare_questions.hpp"
#include "answer/make_report.hpp"
#include "answer/search_answer.hpp"
#include "answer/sweep.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/stop_token.hpp"
#include "question/degrees.hpp"
#include "question/resolve_plan.hpp"
#include "question/training_task.hpp"
#include "report/plan_cells.hpp"

namespace plansearch {
namespace {

/// As people name it: adapters beside weights in four bits have a word of their own.
std::string method_of(const ProblemRequest& request) {
  const bool quantized = request.task == "lora" && request.base_precision == "nf4";
  return quantized ? "qlora" : request.task.value_or("pretrain");
}

void fill(const ResolvedQuestion& asked, const std::optional<LeastSize>& least, CardRow& row) {
  if (!least) {
    row.why_none = "no plan fits";
    return;
  }
  const Estimate& estimate = least->best.estimate;
  row.gpus = least->gpus;
  row.plan = short_plan(PlanSummary(least->best.plan));
  row.memory = estimate.memory.total();
  row.risk = least->best.memory_risk;
  row.rate = static_cast<double>(asked.problem.global_batch * asked.problem.seq_len) /
             (estimate.step.total().value() * least->gpus);
}

/// At the size that is asked for, else at `least`, the smallest on which it fits.
SearchReport report_on(const ResolvedQuestion& asked, const std::optional<LeastSize>& least,
                       SearchSession& session) {
  const int gpus = asked.gpus.value_or(least ? least->gpus : ladder_sizes(asked).back());
  SearchReport report = report_or_refuse(asked, gpus, "searching", SideQuestions::All, session);
  if (report.plans.empty() && !session.stopped()) {
    report.remedies = find_remedies(asked, gpus, OtherSizes::Yes, session);
  } else if (!asked.gpus && gpus > 1 && is_tuning(asked.request) &&
             !session.stopped()) {  // who tunes may have one
    for (const std::string& remedy : find_remedies(asked, 1, OtherSizes::No, session)) {
      report.remedies.push_back("on one GPU " + remedy);
    }
  }
  return report;
}

/// The plan that exceeds memory least, with its price.
std::vector<PlanReport> priced_misfit(const ResolvedQuestion& asked, const SearchReport& report) {
  ProblemRequest request = asked.request;
  request.nodes.reset();
  request.gpus = report.question.gpus;
  request.degrees = pinned_to(report.misses.front().plan.degrees, request.degrees);
  return make_prediction(resolve_plan({request, {}})).plans;
}

}  // namespace

FitsReport does_it_fit(const ProblemRequest& request, const FitsQuestion& how,
                       SearchSession& session) {
  FitsReport report{.model = request.model, .method = method_of(request)};
  std::vector<std::string> names;
  if (!request.hardware.empty()) {
    for (const ProblemRequest& one : machine_questions(request)) names.push_back(one.hardware);
  }
  std::string sized;  // the machine of which the smallest size is known
  std::optional<LeastSize> least;
  if (names.size() == 1) {
    const ResolvedQuestion asked = load_problem(machine_questions(request).front());
    if (!asked.gpus) {
      sized = asked.problem.cluster->name;
      least = least_gpus(asked, 0, session);
    }
    report.answer = report_on(asked, least, session);
    report.model = report.answer->question.model;
    report.priced = how.anyway && !report.fits() && !report.answer->misses.empty();
    if (report.priced) report.answer->plans = priced_misfit(asked, *report.answer);
    if (how.no_cards) return report;
  }
  if (names.size() < 2) {
    names.clear();
    for (const auto& [card, machine] : machine_of_every_card()) names.push_back(machine.name);
  }
  QuestionFiles read;
  ProblemRequest question = request;
  question.gpus.reset();
  question.nodes.reset();
  for (const std::string& name : names) {
    if (session.stopped()) break;
    question.hardware = name;
    const ProblemFiles files = read.of(question);
    const Accelerator& card = files.cluster->accelerator;
    report.model = files.model->description.name;
    CardRow& row = report.cards.emplace_back(CardRow{card.name, files.cluster->name, card.memory});
    try {
      const ResolvedQuestion asked = resolve_question(question, files);
      fill(asked, row.hardware == sized ? least : least_gpus(asked, 0, session), row);
    } catch (const InputError& refusal) {
      row.why_none = refusal.what();
    } catch (const Stopped&) {  // cards that were searched are an answer
      report.cards.pop_back();
      session.note_stop();
      break;
    }
  }
  std::ranges::stable_sort(report.cards, {}, [](const CardRow& row) {
    return std::tuple(!row.gpus, row.gpus.value_or(0), row.capacity);
  });
  return report;
}

}  // namespace plansearch
