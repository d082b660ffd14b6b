// SPDX-License-Identifier: Apache-2.0
#include "answer/diagnose.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace plansearch::cli {

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
