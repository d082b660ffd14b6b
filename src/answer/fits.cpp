// SPDX-License-Identifier: Apache-2.0
#include "answer/fits.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "answer/compare_questions.hpp"
#include "answer/make_report.hpp"
#include "answer/search_answer.hpp"
#include "answer/sweep.hpp"
#include "base/ranges.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/degrees.hpp"
#include "question/resolve_plan.hpp"
#include "report/plan_cells.hpp"

namespace plansearch {
namespace {

/// A machine of every kind of card that ships: the one that the name of the card leads to, else the first.
std::vector<std::string> machine_of_every_card() {
  std::map<std::string, std::string> machines;
  for (const ShippedFile& file : shipped_data().clusters()) {
    const std::string card = shipped_data().cluster(file.name).accelerator.name;
    const bool first = machines.emplace(card, file.name).second;
    if (!first && contains(file.aliases, card)) machines[card] = file.name;
  }
  std::vector<std::string> names;
  for (const auto& [card, machine] : machines) names.push_back(machine);
  return names;
}

CardRow card_row(const ResolvedQuestion& asked, SearchSession& session) {
  const Problem& problem = asked.problem;
  const Accelerator& card = problem.cluster->accelerator;
  CardRow row{.accelerator = card.name, .hardware = problem.cluster->name, .capacity = card.memory};
  const auto least = least_gpus(asked, 0, session);
  if (!least) {
    row.why_none = "no plan fits";
    return row;
  }
  const Estimate& estimate = least->best.estimate;
  row.gpus = least->gpus;
  row.plan = short_plan(PlanSummary(least->best.plan));
  row.memory = estimate.memory.total();
  row.risk = least->best.memory_risk;
  row.rate = static_cast<double>(problem.global_batch * problem.seq_len) /
             (estimate.step.total().value() * least->gpus);
  return row;
}

/// The plan that exceeds memory least, with its price.
void price_misfit(const ResolvedQuestion& asked, SearchReport& report) {
  ProblemRequest request = asked.request;
  request.nodes.reset();
  request.gpus = report.question.gpus;
  request.degrees = pinned_to(report.misses.front().plan.degrees, request.degrees);
  report.plans = make_prediction(resolve_plan({request, {}})).plans;
}

SearchReport report_on(const ResolvedQuestion& asked, SearchSession& session) {
  int gpus = asked.gpus.value_or(0);
  if (gpus == 0) {
    const auto least = least_gpus(asked, 0, session);
    gpus = least ? least->gpus : ladder_sizes(asked).back();
  }
  SearchReport report = report_or_refuse(asked, gpus, "searching", SideQuestions::All, session);
  if (report.plans.empty() && !session.stopped()) {
    report.remedies = find_remedies(asked, gpus, OtherSizes::Yes, session);
  }
  return report;
}

}  // namespace

FitsReport does_it_fit(const ProblemRequest& request, Misfits misfits, Cards cards,
                       SearchSession& session) {
  FitsReport report{.model = request.model, .method = request.task.value_or("pretrain")};
  std::vector<ProblemRequest> machines;
  if (!request.hardware.empty()) machines = machine_questions(request);
  if (machines.size() == 1) {
    const ResolvedQuestion asked = load_problem(machines.front());
    report.answer = report_on(asked, session);
    report.priced = report.answer->plans.empty() && !report.answer->misses.empty() &&
                    misfits == Misfits::Priced;
    if (report.priced) price_misfit(asked, *report.answer);
    report.model = report.answer->question.model;
    if (cards == Cards::Left) return report;
  }
  std::vector<std::string> names;
  for (const ProblemRequest& one : machines) names.push_back(one.hardware);
  if (names.size() < 2) names = machine_of_every_card();
  QuestionFiles read;
  ProblemRequest question = request;
  question.gpus.reset();
  question.nodes.reset();
  for (const std::string& name : names) {
    if (session.stopped()) break;
    question.hardware = name;
    const ProblemFiles files = read.of(question);
    report.model = files.model->description.name;
    try {
      report.cards.push_back(card_row(resolve_question(question, files), session));
    } catch (const InputError& refusal) {
      report.cards.push_back({.accelerator = files.cluster->accelerator.name,
                              .hardware = files.cluster->name,
                              .capacity = files.cluster->accelerator.memory,
                              .why_none = refusal.what()});
    }
  }
  std::ranges::stable_sort(report.cards, {}, [](const CardRow& row) {
    return std::tuple(!row.gpus, row.gpus.value_or(0), row.capacity);
  });
  return report;
}

}  // namespace plansearch
