// SPDX-License-Identifier: Apache-2.0
#include "answer/advice.hpp"
#include "answer/diagnose.hpp"
#include "answer/export_question.hpp"
#include "answer/unstated.hpp"
#include "answer/write_page.hpp"
#include "answer/write_trace.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/degrees.hpp"
#include "question/resolve_plan.hpp"
#include "report/plan_timeline.hpp"

namespace plansearch::cli {
int run_predict(const Options& options) {
  const Output output(options);
  const PlanRequest asked =
      with_constraints(complete_from_plan(options, options.plan), options.constraints);
  const ResolvedPlan given = resolve_plan(asked);
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
  if (!report.misses.empty()) {
    ResolvedQuestion pinned = given.asked;
    pinned.request = asked.request;
    if (given.degrees) {
      pinned.request.degrees = pinned_to(*given.degrees, asked.request.degrees);
    }
    SearchRun run(options);
    report.remedies = find_remedies(pinned, given.plan.devices(), run.session());
    code = exit_code_after(run, options, kExitInfeasible);
  }
  write_plots(options.plots, given.asked, report);
  std::string text = render_prediction(report, format_of(options), columns_of(options));
  if (options.timeline && format_of(options) == Format::Table) {
    text += "\n" + step_timeline(evaluator, given.plan, columns_of(options));
  }
  output.write(text);
  return code;
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
  const PlanRequest asked = complete_from_plan(options, options.plan);
  Measurement measured;
  if (!options.measured.empty()) measured.step = parse_quantity<Seconds>(options.measured).value();
  measured.profile = options.profile;
  measured.profiled = options.profile_steps;
  if (!measured.step && measured.profile.empty()) {
    throw InputError({}, "--measured or --profile is needed",
                     "--measured TIME: step time of the run, such as 18.9s; --profile FILE: what a "
                     "profiler saw of it");
  }
  const DiagnosisReport report = diagnose(asked, measured);
  output.write(render_diagnosis(report, format_of(options), columns_of(options)));
  return kExitOk;
}

}  // namespace plansearch::cli
