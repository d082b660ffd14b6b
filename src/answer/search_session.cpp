// SPDX-License-Identifier: Apache-2.0
#include "answer/search_session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/names.hpp"
#include "base/parallel.hpp"
#include "base/ranges.hpp"
#include "evaluate/answer/site_population.hpp"
#include "evaluate/block/profile_maker.hpp"
#include "plansearch/error.hpp"
#include "plansearch/plan_report.hpp"
#include "plansearch/stop_token.hpp"
#include "question/degrees.hpp"
#include "report/columns.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "search/strategies/strategy.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kUsualSpace = "framework";

std::string_view space_of(const ProblemRequest& request, const Framework& framework) {
  if (!request.space.empty()) return request.space;
  return framework.space.empty() ? kUsualSpace : std::string_view(framework.space);
}

bool is_open(const ProblemRequest& request, Degree degree) {
  return !request.degrees.has(degree) && !request.limits.has(degree);
}

Format format_by_ending(const std::filesystem::path& path) {
  if (path.extension() == ".csv") return Format::Csv;
  if (path.extension() == ".jsonl") return Format::JsonLines;
  throw InputError({path.string(), 0, 0}, "every plan goes to a .csv or a .jsonl file",
                   "end the name in .csv or .jsonl");
}

}  // namespace

SearchSession::SearchSession(SearchOptions options,
                             std::function<void(const std::string&)> announce)
    : options_(std::move(options)), announce_(std::move(announce)) {}

PlanEvaluator SearchSession::evaluator_of(const ResolvedQuestion& asked, int gpus) {
  const Problem problem = with_gpus(asked, gpus);
  if (!profiles_ || !profiles_->serves(problem)) {
    profiles_ = std::make_shared<const ProfileMaker>(problem);
  }
  return PlanEvaluator(problem, profiles_);
}

void SearchSession::ask_aside(std::vector<std::string>& findings, std::string_view what,
                              const std::function<void()>& question) {
  constexpr std::int64_t kMostSteps = 200'000'000;  // some two seconds of one core
  const StopToken token({.work = kMostSteps}, stop_token());
  try {
    const StopScope scope(&token);
    question();
    return;
  } catch (const Stopped&) {
    findings.push_back(fmt::format("there was no time to try all {}", what));
  }
  if (stop_reason() != StopReason::None) stopped_ = true;
}

const TargetFilter& SearchSession::filter_of(const ResolvedQuestion& asked) {
  const std::string& framework = asked.problem.framework->name;
  const std::string key = asked.request.target + " " + framework;
  const auto found = filters_.find(key);
  if (found != filters_.end()) return found->second;
  return filters_.try_emplace(key, asked.request.target, framework).first->second;
}

SearchRequest SearchSession::request_of(const ResolvedQuestion& asked) {
  SearchRequest made{asked.request.degrees, asked.request.limits};
  if (!asked.request.target.empty()) {
    made.limits = filter_of(asked).within(std::move(made.limits), made.pinned);
  }
  made.placements = asked.placements;
  made.shared_blocks = asked.shared_blocks;
  made.square = square_side(asked.request.square);
  return made;
}

std::optional<Infeasible> SearchSession::keep_expressible(const ResolvedQuestion& asked,
                                                          const PlanEvaluator& evaluator,
                                                          SearchResult& result, bool& of_question) {
  if (asked.request.target.empty() || result.ranked.empty()) return std::nullopt;
  const TargetFilter& filter = filter_of(asked);
  std::vector<std::string> first;  // reasons
  const auto refused = [&](const PlanCandidate& candidate) {
    TargetFilter::Reasons reasons = filter.reasons(
        {asked, evaluator.problem(), whole_plan(evaluator, candidate), candidate.plan, {}, {}, {}});
    if (first.empty()) first = reasons.words;
    of_question = of_question || reasons.of_question;
    return !reasons.words.empty();
  };
  const std::size_t found = std::erase_if(result.ranked, refused);
  if (!result.ranked.empty() || found == 0) return std::nullopt;
  Infeasible none;
  none.detail = fmt::format("{} can express {}: {}", filter.name(),
                            of_question ? "no plan of this question" : "none of the best plans",
                            fmt::join(first, "; "));
  return none;
}

std::variant<SearchResult, Infeasible> SearchSession::expressible(const ResolvedQuestion& asked,
                                                                  const PlanEvaluator& evaluator,
                                                                  std::string_view space,
                                                                  SearchOptions options,
                                                                  const std::string& label) {
  if (!asked.request.target.empty()) {
    const TargetFilter& filter = filter_of(asked);
    if (const auto refused = filter.refused(asked)) {
      Infeasible none;
      none.detail =
          fmt::format("{} can express no plan of this question: {}", filter.name(), *refused);
      return none;
    }
  }
  for (;;) {
    auto found = run(evaluator, request_of(asked), space, options, label);
    auto* result = std::get_if<SearchResult>(&found);
    bool of_question = false;
    auto* refused = std::get_if<Infeasible>(&found);
    if (refused != nullptr && !asked.request.target.empty() &&
        refused->obstacle == Obstacle::DegreesDoNotMultiply) {  // named by what the user asked for
      const std::string degrees = to_text(asked.request.degrees);
      refused->detail =
          fmt::format("no plan that {} takes has {} GPUs and batch {}{}{}", filter_of(asked).name(),
                      evaluator.problem().gpus, evaluator.problem().global_batch,
                      degrees.empty() ? "" : " and ", degrees);
    }
    auto none =
        result == nullptr ? std::nullopt : keep_expressible(asked, evaluator, *result, of_question);
    if (!none) return found;
    constexpr std::size_t kMost = 200;  // plans, before the target is said to take none
    if (of_question || options.top >= kMost || stop_reason() != StopReason::None)
      return *std::move(none);
    options.top = kMost;
  }
}

std::variant<SearchResult, Infeasible> SearchSession::exportable(
    const ResolvedQuestion& asked, const PlanEvaluator& evaluator, std::string_view space,
    const SearchOptions& options, const std::string& label, ByFiles& said) {
  auto found = expressible(asked, evaluator, space, options, label);
  const auto* result = std::get_if<SearchResult>(&found);
  const std::string target = canonical_name(asked.request.framework);
  if (result == nullptr || result->ranked.empty() || target.empty() ||
      !asked.request.target.empty() || asked.decides_plans() || is_staged(space)) {
    return found;
  }
  if (targets_.empty()) targets_ = exporter_names();
  if (!contains(targets_, target)) return found;
  ResolvedQuestion narrowed = asked;
  narrowed.request.target = target;
  const PlanCandidate& first = result->ranked.front();
  const TargetFilter::Reasons refused = filter_of(narrowed).reasons(
      {asked, evaluator.problem(), whole_plan(evaluator, first), first.plan, {}, {}, {}});
  if (refused.words.empty()) return found;
  const std::string words = fmt::format("{}", fmt::join(refused.words, "; "));
  if (!refused.of_question) {
    auto kept = expressible(narrowed, evaluator, space, options, label);
    const auto* plans = std::get_if<SearchResult>(&kept);
    if (plans != nullptr && !plans->ranked.empty() && plans->admitted == result->admitted) {
      const double less =
          1.0 - first.estimate.step.total() / plans->ranked.front().estimate.step.total();
      said = {
          fmt::format("plans that a file of {} can say; the fastest of all, {:.0f} % less, has {}",
                      target, 100.0 * less, words),
          true};
      return kept;
    }
  }
  said.words = fmt::format("no file of {} can say plan 1: {}", target, words);
  return found;
}

std::variant<SearchResult, Infeasible> SearchSession::run(const PlanEvaluator& evaluator,
                                                          const SearchRequest& request,
                                                          std::string_view space,
                                                          SearchOptions options,
                                                          const std::string& label) {
  if (options.progress) {  // in steps at the site of the question
    options.progress = [told = options.progress, factor = evaluator.problem().site.factor](auto d) {
      if (d.best) d.best = *d.best * factor;
      told(d);
    };
  }
  announce_(label);
  auto found = search(evaluator, space, request, options);
  announce_("");
  return found;
}

std::variant<SearchReport, Infeasible> SearchSession::report(const ResolvedQuestion& asked,
                                                             int gpus, const std::string& label,
                                                             SideQuestions beside) {
  const ProblemRequest& request = asked.request;
  if (!asked.decides_plans()) check_degrees_fit(request, asked.problem);
  const PlanEvaluator evaluator = evaluator_of(asked, gpus);
  SearchOptions wanted = options_;
  if (beside != SideQuestions::All) wanted.misses = 0;
  const bool layers_open = is_open(request, Degree::Recompute) &&
                           is_open(request, Degree::RecomputeLayers) && request.target.empty() &&
                           !asked.decides_plans();
  wanted.front = front_ == FrontShown::Yes || all_ != nullptr;
  wanted.recomputing = layers_open;
  if (all_ != nullptr) {
    const QuestionReport question = question_report(asked, evaluator.problem());
    wanted.priced = [this, question, &evaluator](std::span<const PlanCandidate> priced) {
      all_->write(question, evaluator, priced);
    };
  }
  const std::string_view space = space_of(request, *evaluator.problem().framework);
  ByFiles said;
  auto found = exportable(asked, evaluator, space, wanted, label, said);
  if (auto* infeasible = std::get_if<Infeasible>(&found)) return std::move(*infeasible);
  auto& result = std::get<SearchResult>(found);
  if (result.completeness == Completeness::Stopped) stopped_ = true;
  if (all_ != nullptr) all_->add(result.counts);
  const bool fewest = layers_open && !said.narrowed && add_fewest_layers(evaluator, result) > 0;
  SearchReport report = make_report(asked, evaluator, result, options_.top, front_);
  report.selection = std::move(said.words);
  stopped_ = stopped_ || report.stopped;
  if (fewest) {
    report.counts.left_out.emplace_back(
        "partial recompute of plans dominated by a fully recomputed plan");
  }
  if (beside == SideQuestions::None) return report;
  const bool has_program = evaluator.problem().framework->has_program;
  if (request.space.empty() && has_program && !asked.decides_plans() && !stopped_ &&
      !report.plans.empty() && !is_given(asked, result)) {
    const Seconds first = report.plans.front().estimate.step.total();
    ask_aside(report.advice, "plans that the framework does not run",
              [&] { report.beyond = beyond_framework(asked, evaluator, result, first, beyond_); });
  }
  if (!has_program && !result.ranked.empty()) {
    ask_aside(report.advice, "frameworks for plan 1", [&] {
      report.advice.push_back(programs_for(evaluator.problem(), result.ranked.front()));
    });
  }
  return report;
}

bool SearchSession::has_plans(const ResolvedQuestion& asked, int gpus) {
  const Problem problem = with_gpus(asked, gpus);
  const std::string_view space = space_of(asked.request, *problem.framework);
  const SearchRequest request = request_of(asked);
  const auto found =
      make_space(is_staged(space) ? kUsualSpace : space, problem, request.pinned, request.limits);
  return std::holds_alternative<SearchSpace>(found);
}

SearchResult SearchSession::first(const ResolvedQuestion& asked, const PlanEvaluator& evaluator,
                                  std::size_t top, const std::string& label, MemoryFit admitted,
                                  std::size_t misses) {
  SearchOptions wanted = options_;
  wanted.top = top;
  wanted.fitting = admitted == MemoryFit::Fits;
  wanted.misses = misses;
  wanted.front = false;
  // Beside a question about stages, plans of degrees are tried: they take milliseconds.
  std::string_view space = space_of(asked.request, *evaluator.problem().framework);
  if (is_staged(space)) space = kUsualSpace;
  ByFiles said;
  auto found = top == 0 ? run(evaluator, request_of(asked), space, wanted, label)
                        : exportable(asked, evaluator, space, wanted, label, said);
  check_stop();
  check_work();
  auto* result = std::get_if<SearchResult>(&found);
  return result == nullptr ? SearchResult{} : std::move(*result);
}

bool SearchSession::fits(const ResolvedQuestion& asked, int gpus, const std::string& label) {
  const std::size_t top = asked.request.target.empty() ? 0 : 1;
  const SearchResult found = first(asked, evaluator_of(asked, gpus), top, label, MemoryFit::Fits);
  return !found.ranked.empty() && found.admitted == MemoryFit::Fits;
}

std::optional<NearMiss> SearchSession::closest(const ResolvedQuestion& asked, int gpus,
                                               const std::string& label) {
  const SearchResult found = first(asked, evaluator_of(asked, gpus), 1, label, MemoryFit::Tight, 1);
  return found.misses.empty() ? std::nullopt : std::optional(found.misses.front());
}

std::optional<BestPlan> SearchSession::best(const ResolvedQuestion& asked, int gpus,
                                            const std::string& label, MemoryFit admitted) {
  const PlanEvaluator evaluator = evaluator_of(asked, gpus);
  const SearchResult found = first(asked, evaluator, 1, label, admitted);
  if (found.ranked.empty()) return std::nullopt;
  const double sigma = evaluator.problem().framework->constants.paired_sigma;
  BestPlan best{grouped_variants(found.ranked, sigma, 1).front().front(), 0.0, found.admitted};
  best.memory_risk = rate_plan(evaluator, whole_plan(evaluator, best), best.estimate).memory_risk;
  best.estimate = at_factor(best.estimate, factor_at(evaluator.problem().site, best.estimate.step));
  return best;
}

PlanFile::PlanFile(const std::filesystem::path& path, int threads)
    : name_(path.string()), file_(path), format_(format_by_ending(path)), threads_(threads) {}

void PlanFile::write(const QuestionReport& question, const PlanEvaluator& evaluator,
                     std::span<const PlanCandidate> plans) {
  const auto row_of = [&](const PlanCandidate& plan) {
    return plan_row(question, rate_plan(evaluator, whole_plan(evaluator, plan), plan.estimate),
                    RowKind::Collected);
  };
  if (!begun_ && format_ == Format::Csv && !plans.empty()) {
    file_.append(csv_header(row_of(plans.front())));
    begun_ = true;
  }
  std::vector<std::string> lines(plans.size());
  parallel_for(plans.size(), threads_, [&](std::size_t i) {
    const nlohmann::ordered_json row = row_of(plans[i]);
    lines[i] = format_ == Format::Csv ? csv_line(row) : json_text(row) + "\n";
  });
  for (const std::string& line : lines) file_.append(line);
}

void PlanFile::add(const SearchCounts& counts) {
  counts_.evaluated += counts.evaluated;
  counts_.pruned += counts.pruned;
  counts_.unvisited += counts.unvisited;
  for (std::size_t i = 0; i < kObstacleCount; ++i) counts_.rejected[i] += counts.rejected[i];
}

std::string PlanFile::conclude() {
  file_.commit();
  std::string text = fmt::format("{}: {} plans", name_, grouped(counts_.evaluated));
  if (counts_.pruned > 0) {
    text += fmt::format("; not in it: {} that bounds ruled out unpriced (--exhaustive prices them)",
                        grouped(counts_.pruned));
  }
  if (counts_.rejected_total() > 0) {
    text += fmt::format("; {} rejected", grouped(counts_.rejected_total()));
  }
  if (counts_.unvisited > 0) text += fmt::format("; {} not priced", grouped(counts_.unvisited));
  return text;
}

}  // namespace plansearch
