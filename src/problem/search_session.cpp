// SPDX-License-Identifier: Apache-2.0
#include "problem/search_session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "plansearch/error.hpp"
#include "problem/beyond.hpp"
#include "problem/make_report.hpp"
#include "problem/plan_file.hpp"
#include "search/fewest_layers.hpp"
#include "search/planner/staged_spaces.hpp"
#include "search/strategy.hpp"

namespace plansearch {
namespace {

std::variant<SearchSpace, Infeasible> space_of(const Problem& problem,
                                               const ProblemRequest& request) {
  // What is tried beside a question about stages are plans of degrees.
  const bool usual = request.space.empty() || is_staged(request.space);
  return make_space(usual ? "framework" : request.space, problem, request.degrees, request.limits);
}

bool is_open(const ProblemRequest& request, Degree degree) {
  return !request.degrees.has(degree) && !request.limits.has(degree);
}

}  // namespace

void refuse_question(const Infeasible& infeasible, const std::vector<std::string>& near) {
  std::string hint =
      "dp x pp x cp x tp is the number of GPUs, and dp x micro-batch divides the batch";
  if (!near.empty()) hint = fmt::format("{}", fmt::join(near, "; "));
  throw InputError({}, infeasible.detail, hint);
}

SearchSession::SearchSession(SearchOptions options,
                             std::function<void(const std::string&)> announce)
    : options_(std::move(options)), announce_(std::move(announce)) {}

SearchOptions SearchSession::limited(SearchOptions options, const Problem& problem) const {
  if (options.progress) {
    options.progress = [told = options.progress, factor = problem.site.factor](auto done) {
      if (done.best) done.best = *done.best * factor;
      told(done);
    };
  }
  return with_time_left(std::move(options), started_);
}

SearchResult SearchSession::run(const PlanEvaluator& evaluator, const SearchSpace& space,
                                SearchOptions options, const std::string& label) {
  announce_(label);
  SearchResult result = search(evaluator, space, limited(std::move(options), evaluator.problem()));
  announce_("");
  families_ += result.families;
  if (result.completeness == Completeness::Stopped) stopped_ = true;
  return result;
}

std::variant<SearchReport, Infeasible> SearchSession::report(const SettledProblem& asked,
                                                             const ProblemRequest& request,
                                                             int gpus, const std::string& label,
                                                             NameMisses misses) {
  const Problem problem = with_gpus(asked, gpus);
  if (is_staged(request.space)) return uneven_report(asked, problem, request, label);
  auto space = space_of(problem, request);
  if (auto* infeasible = std::get_if<Infeasible>(&space)) return std::move(*infeasible);
  SearchOptions wanted = options_;
  if (misses == NameMisses::No) wanted.misses = 0;
  const PlanEvaluator evaluator(problem);
  const SearchSpace& plans = std::get<SearchSpace>(space);
  if (all_ != nullptr) {
    const QuestionReport question = question_report(asked, problem);
    wanted.priced = [this, question, &evaluator](std::span<const PlanCandidate> priced) {
      all_->write(question, evaluator, priced);
    };
  }
  SearchResult result = run(evaluator, plans, wanted, label);
  if (all_ != nullptr) all_->add(result.counts);
  const bool layers_open = is_open(request, Degree::Recompute) &&
                           is_open(request, Degree::RecomputeLayers) && request.target.empty();
  const bool looked = layers_open && add_fewest_layers(evaluator, result) > 0;
  SearchReport report = make_report(asked, evaluator, plans, result, options_.top);
  if (looked) {
    report.counts.left_out.emplace_back(
        "recomputation of some layers, but of as few as have room where plans that rank or are on "
        "the front recompute all");
  }
  if (request.space.empty() && request.target.empty() && is_open(request, Degree::Schedule)) {
    report.beyond = beyond_framework(evaluator, result.ranked);
  }
  return report;
}

SearchReport SearchSession::uneven_report(const SettledProblem& asked, const Problem& problem,
                                          const ProblemRequest& request, const std::string& label) {
  if (!asked.gpus) {
    throw InputError({}, fmt::format("space {} is for one size of the machine", request.space),
                     "give --gpus N or --nodes N");
  }
  if (all_ != nullptr) {
    throw InputError({}, fmt::format("space {} is not walked plan by plan", request.space),
                     "leave --all out");
  }
  const PlanEvaluator evaluator(problem);
  announce_(label);
  const UnevenResult result = staged_search(request.space)(
      evaluator, {request.degrees, request.limits}, limited(options_, problem));
  announce_("");
  if (result.completeness == Completeness::Stopped) stopped_ = true;
  return make_report(asked, evaluator, request.space, result);
}

std::optional<PlanCandidate> SearchSession::best(const SettledProblem& asked,
                                                 const ProblemRequest& request, int gpus,
                                                 const std::string& label) {
  const Problem problem = with_gpus(asked, gpus);
  const auto space = space_of(problem, request);
  if (std::holds_alternative<Infeasible>(space)) return std::nullopt;
  SearchOptions wanted = options_;
  wanted.top = 1;
  wanted.misses = 0;
  const PlanEvaluator evaluator(problem);
  SearchResult result = run(evaluator, std::get<SearchSpace>(space), wanted, label);
  if (result.ranked.empty()) return std::nullopt;
  PlanCandidate best = std::move(result.ranked.front());
  best.estimate = at_factor(best.estimate, problem.site.factor);
  return best;
}

}  // namespace plansearch
