// SPDX-License-Identifier: Apache-2.0
#include "answer/search_answer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "answer/advice.hpp"
#include "answer/export_question.hpp"
#include "base/units.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/space.hpp"

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
  std::stable_sort(found.begin(), found.end(),
                   [](const Variant& a, const Variant& b) { return a.order < b.order; });
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
    SearchReport report = report_or_refuse(asked, *asked.gpus, words, NameMisses::Yes, session);
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
  if (const auto* infeasible = std::get_if<Infeasible>(&climbed)) refuse_question(*infeasible);
  return {asked, {}, std::get<LadderReport>(std::move(climbed))};
}

SearchAnswer searched(const std::vector<OpenQuestion>& variants, SearchSession& session) {
  if (variants.size() > 1) return best_variant(variants, session);
  const ResolvedQuestion& asked = variants.front().asked;
  if (!asked.gpus) return ladder_of(asked, session);
  return {asked, report_or_refuse(asked, *asked.gpus, "searching", NameMisses::Yes, session)};
}

/// Adds what is asked beside the search: remedies or advice, and plans to compare with.
void decorate(SearchAnswer& answer, SearchSession& session, const std::string& version) {
  const ResolvedQuestion& asked = answer.asked;
  SearchReport& report = answer.report();
  const bool found = !report.plans.empty();
  const OtherSizes sizes = answer.ladder ? OtherSizes::No : OtherSizes::Yes;
  if (!found && !session.stopped()) {
    report.remedies = find_remedies(asked, report.question.gpus, session);
  }
  for (std::string& advice : find_advice(asked, report, sizes, session)) {
    report.advice.push_back(std::move(advice));
  }
  if (!session.stopped() && !asked.decides_plans() && !is_staged(asked.request.space)) {
    session.ask_aside(report.advice, "plans without features of the framework",
                      [&] { report.without = without_features(asked, report, session); });
  }
  if (!session.stopped()) {
    report.published = published_plans(shipped_data().recipes(), asked, report);
  }
  if (!found || answer.ladder || asked.request.framework.empty()) return;
  if (auto how = command_to_run(asked, priced_plan(asked, report), version)) {
    report.advice.push_back(*std::move(how));
  }
}

}  // namespace

SearchAnswer answer_search(const std::vector<OpenQuestion>& variants, SearchSession& session,
                           const std::string& version) {
  SearchAnswer answer = searched(variants, session);
  answer.cut_short = session.stopped();
  decorate(answer, session, version);
  return answer;
}

}  // namespace plansearch
