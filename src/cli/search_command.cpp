// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "answer/advice.hpp"
#include "answer/compare_questions.hpp"
#include "answer/export_question.hpp"
#include "answer/ladder.hpp"
#include "answer/published_plans.hpp"
#include "answer/without_features.hpp"
#include "answer/write_page.hpp"
#include "answer/write_trace.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/space.hpp"
#include "question/degrees.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch::cli {
namespace {

void add_published(const Options& options, const ResolvedQuestion& inputs, SearchReport& report) {
  report.published = published_plans(shipped_data().recipes(), options, inputs, report);
  report.list_published = options.recipes;
}

/// The best plan without features of the framework that users know by name.
void add_without(const Options& options, const ResolvedQuestion& inputs, SearchRun& run,
                 SearchReport& report) {
  if (run.stopped() || inputs.decides_plans() || is_staged(options.space)) return;
  run.session().ask_aside(report.advice, "plans without features of the framework", [&] {
    report.without = without_features(options, inputs, report, run.session());
  });
}

/// Of plan 1, where there is one.
void write_first_trace(const Options& options, const ResolvedQuestion& inputs,
                       const SearchReport& report) {
  if (options.trace.empty() || report.plans.empty()) return;
  const PricedPlan first = priced_plan(inputs, report);
  write_trace(first.problem, first.plan, {options.trace, options.force});
}

int search_one(const Options& options, const ResolvedQuestion& inputs, const Output& output) {
  SearchRun run(options);
  SearchReport report = run.report(inputs, options, *inputs.gpus, "searching", NameMisses::Yes);
  const bool found = !report.plans.empty();
  const int code = code_of(found, run);
  if (!found && !run.stopped() && !inputs.decides_plans()) {
    report.remedies = find_remedies(options, inputs, *inputs.gpus, run.session());
  }
  if (!inputs.decides_plans()) {  // advice is about plans by role
    for (std::string& advice : find_advice(options, inputs, report, run.session())) {
      report.advice.push_back(std::move(advice));
    }
  }
  add_without(options, inputs, run, report);
  if (!run.stopped()) add_published(options, inputs, report);
  if (found && !options.framework.empty()) {
    if (auto how = command_to_run(inputs, priced_plan(inputs, report), PLANSEARCH_VERSION)) {
      report.advice.push_back(*std::move(how));
    }
  }
  run.conclude_all(options);
  write_page(options.page, inputs, report, threads_of(options));
  write_plots(options.plots, inputs, report);
  write_first_trace(options, inputs, report);
  if (options.pareto && is_staged(options.space)) {
    print_note(fmt::format("note: space {}: the front of the plans that were priced; bounds leave "
                           "out slower ones that need less memory",
                           options.space),
               options);
  }
  if (options.pareto && format_of(options) != Format::Json) show_front(report);
  output.write(render_search(report, format_of(options), columns_of(options)));
  return exit_code_after(run, options, code);
}

int search_ladder(const Options& options, const ResolvedQuestion& inputs, const Output& output) {
  SearchRun run(options);
  auto climbed = climb_ladder(inputs, options, run.session());
  if (const auto* infeasible = std::get_if<Infeasible>(&climbed)) refuse_question(*infeasible);
  auto& ladder = std::get<LadderReport>(climbed);
  LadderRung& chosen = ladder.rungs[ladder.chosen];
  const bool found = !chosen.report.plans.empty();
  const int code = code_of(found, run);
  if (!found && !run.stopped()) {
    chosen.report.remedies =
        find_remedies(options, inputs, chosen.report.question.gpus, run.session());
  }
  add_without(options, inputs, run, chosen.report);
  if (!run.stopped()) add_published(options, inputs, chosen.report);
  run.conclude_all(options);
  write_page(options.page, inputs, chosen.report, threads_of(options), &ladder);
  write_plots(options.plots, inputs, chosen.report, &ladder);
  write_first_trace(options, inputs, chosen.report);
  if (options.pareto && format_of(options) != Format::Json) show_front(chosen.report);
  output.write(render_ladder(ladder, format_of(options), columns_of(options)));
  return exit_code_after(run, options, code);
}

struct PartialPlan {
  Options options;  ///< with what the plan decides
  OpenQuestion open;
};

/// The best plan of one way: those that fit come before those that may not.
struct Way {
  std::pair<MemoryFit, Seconds> order;
  std::string words;
};

Way way_of(const SearchReport& report, std::string words) {
  return {{report.admitted, report.plans.front().estimate.step.total()}, std::move(words)};
}

/// How many of several ways were searched to the end.
struct WayCount {
  std::size_t whole = 0;
  std::size_t all = 0;
};

std::string stopped_text(const WayCount& count) {
  return fmt::format("stopped early: the best so far, {} of {} ways were searched to the end",
                     count.whole, count.all);
}

/// The best of several ways, and how the next ones do.
std::string ways_text(std::vector<Way> ways, const WayCount& count) {
  constexpr std::size_t kNamed = 3;
  std::stable_sort(ways.begin(), ways.end(),
                   [](const Way& a, const Way& b) { return a.order < b.order; });
  std::vector<std::string> next;
  for (std::size_t i = 1; i < ways.size() && next.size() < kNamed; ++i) {
    const auto& [admitted, step] = ways[i].order;
    next.push_back(fmt::format("{}: {}{}", ways[i].words, to_text(step),
                               admitted == MemoryFit::Fits ? "" : " (tight)"));
  }
  const bool all = count.whole == count.all;
  std::string text = all ? fmt::format("the best of {} ways: {}", count.all, ways.front().words)
                         : fmt::format("the best way so far: {}", ways.front().words);
  if (all && ways.size() < count.all) {
    text += fmt::format("; {} leave no plan that fits", count.all - ways.size());
  }
  if (!next.empty()) text += fmt::format("; next: {}", fmt::join(next, "; "));
  return text;
}

/// Every question that a partial plan and constraints leave: the answer of the best one.
int search_partial(const Options& asked, const Output& output) {
  const PlanRequest plan =
      with_constraints(complete_from_plan(asked, asked.plan), asked.constraints);
  std::vector<PartialPlan> parts;
  for (OpenQuestion& open : open_questions(plan)) {
    Options options = asked;
    static_cast<ProblemRequest&>(options) = open.asked.request;
    parts.push_back({std::move(options), std::move(open)});
  }
  for (const std::string& note : parts.front().open.asked.notes) print_note(note, asked);
  if (parts.size() == 1) {
    const auto& [options, open] = parts.front();
    return open.asked.gpus ? search_one(options, open.asked, output)
                           : search_ladder(options, open.asked, output);
  }
  if (!parts.front().open.asked.gpus) {
    throw InputError({}, "several numbers of pieces, and no number of GPUs", "--gpus N");
  }
  SearchRun run(asked);
  std::optional<SearchReport> best;
  std::vector<Way> ways;
  WayCount count{0, parts.size()};
  for (const auto& [options, open] : parts) {
    if (run.stopped()) break;
    SearchReport report =
        run.report(open.asked, options, *open.asked.gpus, open.words, NameMisses::Yes);
    count.whole += run.stopped() ? 0 : 1;
    if (report.plans.empty()) continue;
    ways.push_back(way_of(report, open.words));
    const bool better = !best || ways.back().order < way_of(*best, {}).order;
    if (better) best = std::move(report);
  }
  run.conclude_all(asked);
  const bool found = best.has_value();
  const int code = code_of(found, run);
  if (!best) {
    const auto& [options, open] = parts.front();
    best = run.report(open.asked, options, *open.asked.gpus, open.words, NameMisses::Yes);
  }
  if (count.whole < count.all) best->optimality = stopped_text(count);
  if (found) best->advice.push_back(ways_text(std::move(ways), count));
  output.write(render_search(*best, format_of(asked), columns_of(asked)));
  return exit_code_after(run, asked, code);
}

}  // namespace

int run_search(const Options& options) {
  if (asks_several(options)) {
    if (!options.page.empty() || !options.trace.empty() || !options.plots.empty()) {
      throw InputError({}, "--report, --plot and --trace are about one question, not about several",
                       "leave the lists out, or ask one question at a time");
    }
    return run_compare(options);
  }
  const Output output(options);
  check_degrees(options.degrees, options.limits);
  if (!options.plan.empty() || !options.constraints.empty()) {
    return search_partial(options, output);
  }
  const ResolvedQuestion inputs = load_problem(options);
  for (const std::string& note : inputs.notes) print_note(note, options);
  check_degrees_fit(options, inputs.problem);
  return inputs.gpus ? search_one(options, inputs, output) : search_ladder(options, inputs, output);
}

}  // namespace plansearch::cli
