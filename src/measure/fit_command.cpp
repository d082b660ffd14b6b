// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "io/document/file.hpp"
#include "plansearch/error.hpp"
#include "measure/fit/fit_profile.hpp"

namespace plansearch::cli {

int run_fit(const Options& options) {
  if (options.out.empty()) {
    throw InputError({}, "no profile to write: --out is missing", "name it with --out mine.yaml");
  }
  const Output writable(options);  // checked before anything is predicted
  Options shown = options;
  shown.out.clear();
  const Output output(shown);
  const FitAnswer answer = fit_profile({options.plans, options.base, options.fresh, options.out,
                                        threads_of(options), format_of(options)},
                                       shipped_data());
  if (!answer.profile.empty()) writable.write(answer.profile);
  if (!options.fit_plot.empty()) io::write_file(options.fit_plot, answer.plot);
  output.write(answer.report);
  if (answer.profile.empty()) return kExitInfeasible;
  print_note("written: " + options.out, options);
  return kExitOk;
}

}  // namespace plansearch::cli
