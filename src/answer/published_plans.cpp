// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "answer/search_answer.hpp"
#include "base/names.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/setting_table.hpp"
#include "report/plan_cells.hpp"

namespace plansearch {
namespace {

bool is_about(const Recipe& recipe, const ResolvedQuestion& asked, int gpus) {
  const auto same = [](const std::string& a, const std::string& b) {
    return canonical_name(a) == canonical_name(b);
  };
  return recipe.question.gpus == gpus && recipe.question.seq_len == asked.problem.seq_len &&
         same(recipe.question.model, asked.problem.model->name) &&
         same(recipe.question.hardware, asked.problem.cluster->name);
}

/// The question of the answer about the plan of the recipe.
ProblemRequest question_of(const Recipe& recipe, const ProblemRequest& request,
                           const SearchReport& report) {
  ProblemRequest question = request;
  question.nodes.reset();
  question.gpus = report.question.gpus;
  question.batch = report.question.global_batch;
  question.seq_len = report.question.seq_len;
  question.precision = report.question.precision;
  question.degrees = {};
  question.limits = {};
  question.space.clear();
  question.target.clear();
  return completed(std::move(question), recipe.question);
}

PublishedReport priced(const Recipe& recipe, const ProblemRequest& request,
                       const SearchReport& report) {
  PublishedReport published{.name = recipe.name,
                            .publisher = recipe.publisher,
                            .source = recipe.source,
                            .date = recipe.date,
                            .words = {},
                            .reason = {},
                            .step = {},
                            .memory = {},
                            .measured = recipe.step_time};
  try {
    const ResolvedPlan given = resolve_plan({question_of(recipe, request, report), {}});
    const PlanEvaluator evaluator(given.problem);
    const SearchReport price = make_prediction(given.asked, evaluator, given.plan);
    const PlanReport& plan = price.plans.front();
    published.words = short_plan(plan.plan);
    if (given.asked.problem.framework->name != report.question.framework) {
      published.words += fmt::format(" ({})", given.asked.problem.framework->name);
    }
    published.step = plan.estimate.step.total();
    published.memory = plan.estimate.memory.total();
    published.fits = price.misses.empty();
  } catch (const InputError& error) {
    published.reason = error.what();
  }
  return published;
}

void set_beside(const std::vector<PlanReport>& plans, PublishedReport& published) {
  if (plans.empty() || !published.reason.empty()) return;
  const auto slower = std::find_if(plans.begin(), plans.end(), [&](const PlanReport& plan) {
    return plan.estimate.step.total() >= published.step;
  });
  const bool ranks = published.fits && slower != plans.end();
  published.rank = ranks ? static_cast<std::size_t>(slower - plans.begin()) + 1 : 0;
  published.over_first = published.step / plans.front().estimate.step.total() - 1.0;
}

}  // namespace

std::vector<PublishedReport> published_plans(const std::vector<Recipe>& recipes,
                                             const ResolvedQuestion& asked,
                                             const SearchReport& report) {
  std::vector<PublishedReport> all;
  for (const Recipe& recipe : recipes) {
    if (!is_about(recipe, asked, report.question.gpus)) continue;
    all.push_back(priced(recipe, asked.request, report));
    set_beside(report.plans, all.back());
  }
  const auto order = [](const PublishedReport& p) {
    return std::tuple(!p.reason.empty(), !p.fits, p.step);
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return all;
}

}  // namespace plansearch
