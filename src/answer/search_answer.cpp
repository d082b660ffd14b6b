// SPDX-License-Identifier: Apache-2.0
#include "answer/search_answer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "answer/export_question.hpp"
#include "base/names.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "plan/legality/legality.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/space.hpp"
#include "question/training_task.hpp"
#include "report/plan_cells.hpp"

namespace plansearch {
namespace {

/// The best plan of one variant: those that fit come before those that may not.
struct Variant {
  std::pair<MemoryFit, Seconds> order;
  std::string words;
};

/// The best of several variants, and how the next ones do; `whole` were searched to the end.
std::string variants_text(std::vector<Variant> found, std::size_t whole, std::size_t all) {
  constexpr std::size_t kNamed = 3;
  std::ranges::stable_sort(found, {}, &Variant::order);
  std::vector<std::string> next;
  for (std::size_t i = 1; i < found.size() && next.size() < kNamed; ++i) {
    const auto& [admitted, step] = found[i].order;
    next.push_back(fmt::format("{}: {}{}", found[i].words, to_text(step),
                               admitted == MemoryFit::Fits ? "" : " (tight)"));
  }
  std::string text = whole == all ? fmt::format("best of {} variants: {}", all, found.front().words)
                                  : fmt::format("best variant so far: {}", found.front().words);
  if (whole == all && found.size() < all) {
    text += fmt::format("; {} have no feasible plan", all - found.size());
  }
  if (!next.empty()) text += fmt::format("; next: {}", fmt::join(next, "; "));
  return text;
}

/// The answer of the best variant; of the first one where none has a plan.
SearchAnswer best_variant(const std::vector<OpenQuestion>& variants, SearchSession& session) {
  if (!variants.front().asked.gpus) {
    throw InputError({}, "a plan with open `pieces` needs --gpus N", "give one number of GPUs");
  }
  SearchAnswer best;
  std::vector<Variant> found;
  std::size_t whole = 0;
  for (const auto& [asked, words] : variants) {
    if (session.stopped()) break;
    SearchReport report = report_or_refuse(asked, *asked.gpus, words, SideQuestions::All, session);
    whole += session.stopped() ? 0 : 1;
    const bool first = &asked == &variants.front().asked;
    bool better = first;
    if (!report.plans.empty()) {
      const Seconds step = report.plans.front().estimate.step.total();
      found.push_back({{report.admitted, step}, words});
      better = std::all_of(found.begin(), found.end() - 1,
                           [&](const Variant& other) { return found.back().order < other.order; });
    }
    if (!better) continue;
    best.asked = asked;
    best.single = std::move(report);
  }
  if (whole < variants.size()) {
    best.single.optimality =
        fmt::format("stopped early: the best so far, {} of {} variants were searched to the end",
                    whole, variants.size());
  }
  if (!found.empty()) {
    best.single.advice.push_back(variants_text(std::move(found), whole, variants.size()));
  }
  return best;
}

SearchAnswer ladder_of(const ResolvedQuestion& asked, SearchSession& session) {
  auto climbed = climb_ladder(asked, session);
  if (const auto* infeasible = std::get_if<Infeasible>(&climbed)) {
    std::vector<std::string> near = least_line(asked, session);
    if (near.empty())
      near = find_remedies(asked, ladder_sizes(asked).back(), OtherSizes::No, session);
    refuse_question(*infeasible, near);
  }
  return {asked, {}, std::get<LadderReport>(std::move(climbed))};
}

SearchAnswer searched(const std::vector<OpenQuestion>& variants, SearchSession& session) {
  if (variants.size() > 1) return best_variant(variants, session);
  const ResolvedQuestion& asked = variants.front().asked;
  if (!asked.gpus) return ladder_of(asked, session);
  return {asked, report_or_refuse(asked, *asked.gpus, "searching", SideQuestions::All, session)};
}

/// "dgx-h100 (64, 512 GPUs)", the machines and sizes of recipes of a model.
std::string published_elsewhere(const std::string& model) {
  std::map<std::string, std::set<int>> sizes;
  for (const Recipe& recipe : shipped_data().recipes_naming({model})) {
    const bool same = canonical_name(recipe.question.model) == canonical_name(model);
    if (same && recipe.question.gpus) sizes[recipe.question.hardware].insert(*recipe.question.gpus);
  }
  std::vector<std::string> words;
  for (const auto& [machine, counts] : sizes)
    words.push_back(fmt::format("{} ({} GPUs)", machine, fmt::join(counts, ", ")));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// The rule of the framework that forbids the plan of most replicas, where rules left no plan.
std::optional<std::string> forbidding_rule(const ResolvedQuestion& asked,
                                           const SearchReport& report) {
  const auto& rejected = report.counts.rejected;
  const bool ruled =
      !rejected.empty() && rejected.front().first == to_text(Obstacle::FrameworkForbids);
  if (!ruled || !report.misses.empty()) return std::nullopt;
  const PinnedDegrees& pinned = asked.request.degrees;
  const Problem& p = asked.problem;
  const int gpus = report.question.gpus;
  PlanDegrees plan = with_pinned({}, pinned);
  if (!pinned.has(Degree::Data)) plan.data = gpus / std::max(plan.devices(), 1);
  const std::int64_t each = std::int64_t{plan.data} * plan.micro_batch;
  plan.micro_batches = static_cast<int>(each > 0 ? p.global_batch / each : 1);
  const auto broken = check_legality(plan, *p.network, *p.framework, gpus, p.precision);
  if (!broken || broken->obstacle != Obstacle::FrameworkForbids) return std::nullopt;
  return broken->detail;
}

/// Adds the side questions of the search: remedies or advice, and plans to compare with.
void decorate(SearchAnswer& answer, SearchSession& session, const std::string& version) {
  const ResolvedQuestion& asked = answer.asked;
  SearchReport& report = answer.report();
  const bool found = !report.plans.empty();
  const OtherSizes sizes = answer.ladder ? OtherSizes::No : OtherSizes::Yes;
  if (!found && !session.stopped()) {
    report.remedies = find_remedies(asked, report.question.gpus, OtherSizes::Yes, session);
    if (auto rule = forbidding_rule(asked, report))
      report.remedies.insert(report.remedies.begin(), *std::move(rule));
  }
  if (found && report.admitted == MemoryFit::Tight && !session.stopped()) {
    std::ranges::move(find_remedies(asked, report.question.gpus, sizes, session, MemoryFit::Tight),
                      std::back_inserter(report.advice));
  }
  for (std::string& advice : find_advice(asked, report, sizes, session)) {
    report.advice.push_back(std::move(advice));
  }
  if (!session.stopped() && !asked.decides_plans() && !is_staged(asked.request.space)) {
    session.ask_aside(report.advice, "plans without features of the framework",
                      [&] { report.without = without_features(asked, report, session); });
  }
  const ProblemRequest& request = asked.request;
  if (found && is_tuning(request) && !request.packing && request.task != "dpo") {
    report.advice.emplace_back(
        "sequences are taken as full, as packing makes them; --packing says how long documents "
        "are");
  }
  const bool rolls_out =
      request.framework.starts_with("verl") || request.target.starts_with("verl");
  if (rolls_out && !request.mem_reserve && !request.rollout) {
    report.advice.emplace_back(
        "verl has an inference engine on the same GPUs, and the memory that it holds is not said: "
        "--rollout util=0.6, or asleep");
  }
  if (!session.stopped()) {
    const std::vector<std::string> names{asked.problem.model->name, asked.problem.cluster->name};
    report.published = published_plans(shipped_data().recipes_naming(names), asked, report);
    if (report.published.empty()) report.published_elsewhere = published_elsewhere(names.front());
  }
  if (!found || answer.ladder || asked.request.framework.empty()) return;
  if (auto how = command_to_run(asked, priced_plan(asked, report), version)) {
    report.advice.push_back(*std::move(how));
  }
}

/// The question on a framework that refuses the features.
ResolvedQuestion refusing(const ResolvedQuestion& asked, const std::vector<PlanFeature>& features) {
  ResolvedQuestion changed = asked;
  Framework framework = *asked.problem.framework;
  for (const FrameworkFeature& one : asked.problem.framework->features) {
    const bool has =
        std::ranges::any_of(features, [&](const PlanFeature& f) { return f.name == one.name; });
    if (has) framework.rules.push_back(one.without);
  }
  changed.problem.framework = std::make_shared<const Framework>(std::move(framework));
  return changed;
}

/// Whether what the question decides of a degree, or every value it lists, is what is refused.
bool asks_for_them(const ProblemRequest& request, const Problem& problem) {
  const auto breaks = [&](const PinnedDegrees& decided) {
    return rule_broken_by(decided, *problem.network, *problem.framework, problem.precision)
        .has_value();
  };
  if (breaks(request.degrees)) return true;
  return std::ranges::any_of(degree_table(), [&](const DegreeRow& row) {
    const std::vector<int>& listed = request.limits.listed(row.degree);
    return !listed.empty() && std::ranges::all_of(listed, [&](int value) {
      PinnedDegrees one;
      one.pin(row.degree, value);
      return breaks(one);
    });
  });
}

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

/// The published step beside its prediction: the recipe's own question, as the site of this one.
/// InputError where that has no price.
void set_measured(const Recipe& recipe, const ProblemRequest& request, PublishedReport& published) {
  if (!recipe.step_time) return;
  ProblemRequest own = recipe.question;
  own.site = request.site;
  own.set = request.set;
  const ResolvedPlan given = resolve_plan({own, {}});
  const Problem& problem = given.problem;
  const SearchReport price = make_prediction(given.asked, PlanEvaluator(problem), given.plan);
  published.measured_rate = static_cast<double>(problem.global_batch * problem.seq_len) /
                            (recipe.step_time->value() * problem.gpus);
  published.error = price.plans.front().estimate.step.total() / *recipe.step_time - 1.0;
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
    set_measured(recipe, request, published);
  } catch (const InputError& error) {
    published.reason = error.what();
  }
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
  const auto slower = std::ranges::find_if(
      plans, [&](const PlanReport& plan) { return plan.estimate.step.total() >= published.step; });
  const bool ranks = published.fits && slower != plans.end();
  published.rank = ranks ? static_cast<std::size_t>(slower - plans.begin()) + 1 : 0;
  published.over_first = published.step / plans.front().estimate.step.total() - 1.0;
}

}  // namespace

SearchAnswer answer_search(const std::vector<OpenQuestion>& variants, SearchSession& session,
                           const std::string& version) {
  SearchAnswer answer = searched(variants, session);
  answer.cut_short = session.stopped();
  decorate(answer, session, version);
  return answer;
}

std::optional<WithoutReport> without_features(const ResolvedQuestion& asked,
                                              const SearchReport& report, SearchSession& session) {
  if (report.plans.empty() || report.plans.front().features.empty()) return std::nullopt;
  const PlanReport& first = report.plans.front();
  std::vector<std::string> names;
  for (const PlanFeature& feature : first.features) names.push_back(feature.name);
  WithoutReport without;
  without.features = fmt::format("{}", fmt::join(names, ", "));
  const auto take = [&](PlanSummary plan, Seconds step) {
    without.plan = std::move(plan);
    without.step = step;
    without.over_first = step / first.estimate.step.total() - 1.0;
  };
  // Ranked plans are the best of all, in order.
  const auto ranked = std::ranges::find_if(
      report.plans, [](const PlanReport& plan) { return plan.features.empty(); });
  if (ranked != report.plans.end()) {
    take(ranked->plan, ranked->estimate.step.total());
    return without;
  }
  const ResolvedQuestion changed = refusing(asked, first.features);
  const Problem& problem = changed.problem;
  if (asks_for_them(changed.request, problem)) return std::nullopt;
  const auto best =
      session.best(changed, report.question.gpus, fmt::format("without {}", without.features));
  if (best) take(PlanSummary(best->plan), best->estimate.step.total());
  return without;
}

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
  std::ranges::stable_sort(all, [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return all;
}

std::map<std::string, ShippedMachine> machine_of_every_card() {
  std::map<std::string, ShippedMachine> machines;
  for (const ShippedFile& file : shipped_data().clusters()) {
    ShippedMachine machine{file.name, shipped_data().cluster(file.name)};
    const std::string card = machine.cluster.accelerator.name;
    const bool named = contains(file.aliases, card);
    if (named || !machines.contains(card)) machines.insert_or_assign(card, std::move(machine));
  }
  return machines;
}

}  // namespace plansearch
