// SPDX-License-Identifier: Apache-2.0
#include "answer/search_session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "answer/plan_file.hpp"
#include "answer/plans_outside_framework.hpp"
#include "plansearch/error.hpp"
#include "search/strategies/strategy.hpp"
#include "search/walk/fewest_layers.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kUsualSpace = "framework";

std::string_view space_of(const ProblemRequest& request) {
  return request.space.empty() ? kUsualSpace : std::string_view(request.space);
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

std::variant<SearchResult, Infeasible> SearchSession::run(const PlanEvaluator& evaluator,
                                                          const ProblemRequest& request,
                                                          std::string_view space,
                                                          SearchOptions options,
                                                          const std::string& label) {
  announce_(label);
  auto found = search(evaluator, space, {request.degrees, request.limits},
                      limited(std::move(options), evaluator.problem()));
  announce_("");
  if (const auto* result = std::get_if<SearchResult>(&found)) {
    families_ += result->families;
    if (result->completeness == Completeness::Stopped) stopped_ = true;
  }
  return found;
}

std::variant<SearchReport, Infeasible> SearchSession::report(const ResolvedQuestion& asked,
                                                             const ProblemRequest& request,
                                                             int gpus, const std::string& label,
                                                             NameMisses misses) {
  const PlanEvaluator evaluator(with_gpus(asked, gpus));
  SearchOptions wanted = options_;
  if (misses == NameMisses::No) wanted.misses = 0;
  if (all_ != nullptr) {
    const QuestionReport question = question_report(asked, evaluator.problem());
    wanted.priced = [this, question, &evaluator](std::span<const PlanCandidate> priced) {
      all_->write(question, evaluator, priced);
    };
  }
  auto found = run(evaluator, request, space_of(request), wanted, label);
  if (auto* infeasible = std::get_if<Infeasible>(&found)) return std::move(*infeasible);
  auto& result = std::get<SearchResult>(found);
  if (all_ != nullptr) all_->add(result.counts);
  const bool layers_open = is_open(request, Degree::Recompute) &&
                           is_open(request, Degree::RecomputeLayers) && request.target.empty();
  const bool fewest = layers_open && add_fewest_layers(evaluator, result) > 0;
  SearchReport report = make_report(asked, evaluator, result, options_.top, front_);
  if (fewest) {
    report.counts.left_out.emplace_back(
        "partial recomputation of plans other than those that rank or are on the front");
  }
  if (request.space.empty() && request.target.empty() && is_open(request, Degree::Schedule)) {
    report.beyond = beyond_framework(evaluator, result.ranked);
  }
  return report;
}

std::optional<PlanCandidate> SearchSession::best(const ResolvedQuestion& asked,
                                                 const ProblemRequest& request, int gpus,
                                                 const std::string& label) {
  SearchOptions wanted = options_;
  wanted.top = 1;
  wanted.misses = 0;
  const PlanEvaluator evaluator(with_gpus(asked, gpus));
  // Beside a question about stages, plans of degrees are tried: they take milliseconds.
  const bool usual = request.space.empty() || is_staged(request.space);
  auto found = run(evaluator, request, usual ? kUsualSpace : space_of(request), wanted, label);
  const auto* result = std::get_if<SearchResult>(&found);
  if (result == nullptr || result->ranked.empty()) return std::nullopt;
  PlanCandidate best = result->ranked.front();
  best.estimate = at_factor(best.estimate, evaluator.problem().site.factor);
  return best;
}

}  // namespace plansearch
