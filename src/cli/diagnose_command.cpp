// SPDX-License-Identifier: Apache-2.0
#include "answer/diagnose.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace plansearch::cli {

int run_diagnose(const Options& options) {
  const Output output(options);
  const PlanRequest asked = complete_from_plan(options, options.plan);
  const DiagnosisReport report = diagnose(asked, parse_quantity<Seconds>(options.measured).value());
  output.write(render_diagnosis(report, format_of(options), columns_of(options)));
  return kExitOk;
}

}  // namespace plansearch::cli
