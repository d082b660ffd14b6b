// SPDX-License-Identifier: Apache-2.0
#include "cli/measurement_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/units.hpp"
#include "calibrate/backend.hpp"
#include "calibrate/probe.hpp"
#include "calibrate/session.hpp"
#include "cli/option_kinds.hpp"
#include "studies/reproduce/reproduce.hpp"

namespace plansearch::cli {
namespace {

void positive_time(CLI::Option* option) {
  option->check([](const std::string& text) {
    const auto time = calibrate::parse_budget(text);
    return time ? std::string() : fmt::format("'{}' is not a time such as 90s or 2m", text);
  });
}

}  // namespace

void add_validate(CLI::App& app, Options& o) {
  app.add_option("table", o.argument, "CSV of measured runs, kernels or collectives")->required();
  app.add_option("--by", o.group_by, "summarise by these columns")->delimiter(',');
  add_setting(app, o, Setting::Site);
  add_set(app, o);
  app.add_option("--suspect", o.suspects, "CSV (id, why) of rows to report apart")
      ->type_name("FILE");
  app.add_option("--min-mfu", o.min_mfu, "leave slower steps out of step-time errors")
      ->type_name("SHARE")
      ->check([](const std::string& text) {
        const auto value = parse_number(text);
        if (value && *value >= 0.0 && *value <= 1.0) return std::string();
        return fmt::format("'{}' is not a number from 0 to 1", text);
      });
}

void add_fit(CLI::App& app, Options& o) {
  app.add_option(
         "tables", o.plans,
         "samples of calibrate, CSV of own runs, matrix products or collectives, as for validate, "
         "and output of nccl-tests; the profile goes to --out")
      ->type_name("TABLE")
      ->required();
  CLI::Option* base =
      app.add_option("--base", o.base,
                     "profile that is like the machine; without one, samples describe it whole")
          ->type_name("HARDWARE");
  app.add_option("--new", o.fresh, "name of a profile from samples alone (default: that of --out)")
      ->type_name("NAME")
      ->excludes(base);
  app.add_option("--plot", o.fit_plot, "SVG of samples, curve and residuals of every class")
      ->type_name("FILE");
}

void add_calibrate(CLI::App& app, Options& o) {
  CalibrateOptions& c = o.calibrate;
  Choices names;
  for (const calibrate::BackendRow& row : calibrate::backends()) names.emplace_back(row.name);
  restrict_to(app.add_option("--backend", c.backend, "where probes run"), names);
  app.add_option("--models", c.models, "the products of these models too")
      ->delimiter(',')
      ->type_name("MODEL");
  Choices probes;
  for (const calibrate::Probe& probe : calibrate::probes()) probes.emplace_back(probe.name);
  restrict_to(app.add_option("--only", c.only, "these probes and no others")->delimiter(','),
              probes);
  app.add_flag("--list", c.list, "list probes and back ends, measure nothing");
  app.add_flag("--dry-run", c.dry_run, "list the points in their order, measure nothing");
  app.add_flag("--quick", c.quick, "fewer and smaller points, shorter blocks");
  positive_time(app.add_option("--budget", c.budget, "as many points as this time has room for")
                    ->type_name("TIME"));
  app.add_option("--check", c.check,
                 "a minute's worth of points against this profile: what has drifted")
      ->type_name("HARDWARE");
  app.add_option("--table", c.tables, "replay: CSV of products or collectives, as for validate")
      ->type_name("TABLE");
  app.add_option("--truth", c.truth,
                 "synthetic: the profile to sample (default: dgx-h100); replay: the machine of the "
                 "rows")
      ->type_name("HARDWARE");
  app.add_option("--noise", c.noise,
                 "synthetic: standard deviation of the time of a block, relative")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--wild", c.wild, "synthetic: share of points three to ten times too slow")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 1.0));
  add_number(app, "--seed", c.seed, "of noise and order", {0, 1'000'000'000});
}

void add_reproduce(CLI::App& app, Options& o) {
  Choices names;
  for (const ReproducedSeed& seed : reproduced_seeds()) names.emplace_back(seed.name);
  restrict_to(app.add_option("seed", o.argument, "a paper (default: all)"), names);
  add_set(app, o);
}

}  // namespace plansearch::cli
