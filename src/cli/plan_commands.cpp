// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "answer/diagnose.hpp"
#include "answer/export_question.hpp"
#include "answer/make_report.hpp"
#include "answer/search_answer.hpp"
#include "answer/write_page.hpp"
#include "cli/commands.hpp"
#include "cli/option_kinds.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/degrees.hpp"
#include "question/logged_plan.hpp"
#include "question/resolve_plan.hpp"
#include "report/plan_timeline.hpp"

namespace plansearch::cli {
namespace {

/// Text that stays on the line it is written to.
std::string line_problem(const std::string& text) {
  const bool broken = std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (broken) return "a line break or control character is in it";
  return text.empty() ? "it is empty" : std::string();
}

/// "time=24:00:00", "requeue": sbatch reads the line up to a blank or a quote.
std::string sbatch_problem(const std::string& text) {
  const std::string name = text.substr(0, text.find('='));
  const bool option = !name.empty() &&
                      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string::npos &&
                      name.front() != '-';
  if (!option) return fmt::format("'{}' is not OPTION=VALUE of sbatch, without dashes", text);
  if (text.find_first_of(" \t\"'\\#") != std::string::npos)
    return "a blank, quote or # in it would end the line of sbatch";
  return line_problem(text);
}

}  // namespace

int run_predict(const Options& options) {
  const Output output(options);
  const PlanRequest asked =
      with_constraints(complete_from_plan(options, options.plan), options.constraints);
  const ResolvedPlan given = resolve_plan(asked);
  if (!asked.request.target.empty())  // refuses targets of no name
    static_cast<void>(TargetFilter(asked.request.target, given.problem.framework->name));
  for (const std::string& note : given.asked.notes) print_note(note, options);
  if (given.inexpressible) {
    print_error(*given.inexpressible, options);
    return kExitInexpressible;
  }
  write_plan_files(given, {options.write_plan, options.write_stages, options.write_primitives});
  write_trace(given.problem, given.plan, {options.trace, options.force});
  const PlanEvaluator evaluator(given.problem);
  SearchReport report = predict_as_asked(given, evaluator, switch_priors(shipped_data()));
  int code = kExitOk;
  const MemoryFit fit = report.plans.front().memory_fit;
  if (!report.misses.empty() || fit == MemoryFit::Tight) {
    ResolvedQuestion pinned = given.asked;
    pinned.request = asked.request;
    if (given.degrees) pinned.request.degrees = pinned_to(*given.degrees, asked.request.degrees);
    SearchRun run(options);
    report.remedies =
        find_remedies(pinned, given.plan.devices(), OtherSizes::Yes, run.session(), fit);
    if (!report.misses.empty()) code = exit_code_after(run, options, kExitInfeasible);
  }
  write_plots(options.plots, given.asked, report);
  write_page(options.page, given.asked, report, threads_of(options));
  std::string text = render_prediction(report, format_of(options), columns_of(options));
  if (options.timeline && format_of(options) == Format::Table) {
    text += "\n" + step_timeline(evaluator, given.plan, columns_of(options));
  }
  output.write(text);
  return code;
}

/// Options of the command that writes configurations of training frameworks.
void add_export(CLI::App& app, Options& o) {
  add_typed(app, "PLAN", "plan,--plan", o.plan, "plan document or result.json#RANK")->required();
  restrict_to_exporters(
      app.add_option("--to", o.to, "as in plansearch list exporters")->required());
  restrict_to(app.add_option("--launch", o.launch, "a launch script with the configuration in it"),
              launcher_names());
  add_typed(app, "OPTION=VALUE", "--sbatch", o.sbatch,
            "a line of the Slurm script, such as time=24:00:00 or constraint=hbm80g")
      ->allow_extra_args(false)
      ->check(sbatch_problem);
  add_typed(app, "IMAGE", "--image", o.image, "container image of the Kubernetes job")
      ->check(line_problem);
  add_typed(app, "FOLDER", "--checkpoints", o.checkpoints,
            "folder that checkpoints are written to and read from")
      ->check(line_problem);
  whole_number(app.add_option("--save-every", o.save_every, "steps between checkpoints (500)"),
               {1, 1'000'000'000})
      ->needs("--checkpoints");
}

int run_export(const Options& options) {
  const Output output(options);
  const ResolvedPlan given = resolve_plan(complete_from_plan(options, options.plan));
  for (const std::string& note : given.asked.notes) print_note(note, options);
  if (given.inexpressible) {
    print_error(*given.inexpressible, options);
    return kExitInexpressible;
  }
  const auto answer = export_question(given,
                                      {options.to, options.launch, options.sbatch, options.image,
                                       options.checkpoints, options.save_every, options.out},
                                      PLANSEARCH_VERSION);
  if (const auto* cannot = std::get_if<RefusedPlan>(&answer)) {
    print_error(cannot->message, options);
    return kExitInexpressible;
  }
  const auto& exported = std::get<ExportResult>(answer);
  output.write(exported.text);
  for (const std::string& note : exported.notes) print_note(note, options);
  return kExitOk;
}

int run_diagnose(const Options& options) {
  const Output output(options);
  std::vector<std::string> notes;
  const PlanRequest asked = plan_of_run(options, options.plan, options.log, notes);
  for (const std::string& note : notes) print_note(note, options);
  Measurement measured;
  if (!options.measured.empty()) read_pace(options.measured, measured);
  measured.log = options.log;
  measured.profile = options.profile;
  measured.profiled = options.profile_steps;
  if (options.measured.empty() && measured.log.empty() && measured.profile.empty()) {
    throw InputError({}, "--measured, --log or --profile is needed",
                     "--measured TIME: step time of the run, such as 18.9s; --log FILE: what the "
                     "program printed; --profile FILE: what a profiler saw of it");
  }
  SearchRun run(options);
  const DiagnosisReport report = diagnose(asked, measured, &run.session());
  output.write(render_diagnosis(report, format_of(options), columns_of(options)));
  return kExitOk;
}

}  // namespace plansearch::cli
