// SPDX-License-Identifier: Apache-2.0
// The wing `measure`: this machine measured, and profiles from measurements.
#include <array>

#include "cli/command_row.hpp"
#include "cli/commands.hpp"
#include "cli/option_kinds.hpp"
#include "cli/output.hpp"
#include "io/document/file.hpp"
#include "measure/fit/fit_profile.hpp"
#include "plansearch/error.hpp"

namespace plansearch::cli {
namespace {

struct FitOptions : FitRequest {
  std::string plot_file;
};

int run_fit(const Options& options, const FitOptions& own) {
  if (options.out.empty()) {
    throw InputError({}, "no profile to write: --out is missing", "name it with --out mine.yaml");
  }
  const Output writable(options);  // checked before anything is predicted
  Options shown = options;
  shown.out.clear();
  const Output output(shown);
  FitRequest request = own;
  request.out = options.out;
  request.threads = threads_of(options);
  request.format = format_of(options);
  const FitAnswer answer = fit_profile(request, shipped_data());
  if (!answer.profile.empty()) writable.write(answer.profile);
  if (!own.plot_file.empty()) io::write_file(own.plot_file, answer.plot);
  output.write(answer.report);
  if (answer.profile.empty()) return kExitInfeasible;
  print_note("written: " + options.out, options);
  return kExitOk;
}

void add_fit(CLI::App& app, Options& /*shared*/, FitOptions& o) {
  add_typed(
      app, "TABLE", "tables", o.tables,
      "samples of calibrate, CSV of own runs, matrix products or collectives, as for validate, "
      "output of nccl-tests, and logs of training programs; the profile goes to --out")
      ->required();
  add_typed(app, "PLAN", "--plan", o.plans,
            "plan of the logs, or one for each in their order (default: of the arguments that they "
            "print)");
  CLI::Option* base =
      add_typed(app, "HARDWARE", "--base", o.base,
                "profile that is like the machine; without one, samples describe it whole");
  add_typed(app, "NAME", "--new", o.fresh,
            "name of a profile from samples alone (default: that of --out)")
      ->excludes(base);
  add_typed(app, "FILE", "--plot", o.plot_file,
            "SVG of samples, curve and residuals of every class");
}

}  // namespace

Command bind_calibrate(CLI::App& app, Options& options);
Command bind_tune(CLI::App& app, Options& options);

std::span<const CommandRow> measure_commands() {
  static constexpr std::array kRows{
      CommandRow{"fit",
                 "a profile of your own machine, from measured runs, kernels and collectives",
                 Shares::Output, bind_own<FitOptions, run_fit, add_fit>},
      CommandRow{"calibrate", "measure this machine: products, memory, messages; for fit",
                 Shares::Output, bind_calibrate},
      CommandRow{"tune", "which plans to try on the machine itself, and what the trials say",
                 Shares::Search, bind_tune}};
  return kRows;
}

}  // namespace plansearch::cli
