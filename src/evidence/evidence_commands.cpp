// SPDX-License-Identifier: Apache-2.0
// The wing `evidence`: predictions against measured runs, published figures, and the speed of this build.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>

#include "base/units.hpp"
#include "cli/command_row.hpp"
#include "cli/commands.hpp"
#include "cli/option_kinds.hpp"
#include "cli/output.hpp"
#include "evidence/bench/bench.hpp"
#include "evidence/reproduce/reproduce.hpp"
#include "evidence/validate/validate_table.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch::cli {
namespace {

struct ValidateOptions {
  std::string table;
  std::vector<std::string> group_by;  ///< columns
  std::string suspects;
  double min_mfu = 0.0;
};

void add_validate(CLI::App& app, Options& shared, ValidateOptions& o) {
  app.add_option("table", o.table, "CSV of measured runs, kernels or collectives")->required();
  app.add_option("--by", o.group_by, "summarise by these columns")->delimiter(',');
  add_setting(app, shared, Setting::Site);
  add_set(app, shared);
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

int run_validate(const Options& o, const ValidateOptions& own) {
  const Output output(o);  // checked before anything is predicted
  output.write(validate_table({own.table, own.group_by, own.suspects, o.site.value_or(""),
                               own.min_mfu, threads_of(o), format_of(o), columns_of(o)},
                              shipped_data().changed(o.set.value_or(""))));
  return kExitOk;
}

void add_reproduce(CLI::App& app, Options& shared, std::string& paper) {
  Choices names;
  for (const ReproducedSeed& seed : reproduced_seeds()) names.emplace_back(seed.name);
  restrict_to(app.add_option("seed", paper, "a paper (default: all)"), names);
  add_set(app, shared);
}

int run_reproduce(const Options& o, const std::string& seed) {
  const Output output(o);  // checked before anything is predicted
  output.write(reproduce(seed, {shipped_data().changed(o.set.value_or("")), threads_of(o)},
                         format_of(o), columns_of(o)));
  return kExitOk;
}

int run_bench(const Options& o) {
  const Output output(o);  // checked before anything is predicted
  output.write(render_bench(plansearch::run_bench(threads_of(o)), format_of(o)));
  return kExitOk;
}

void add_nothing(CLI::App& /*app*/, Options& /*shared*/) {}

}  // namespace

std::span<const CommandRow> evidence_commands() {
  static constexpr std::array kRows{
      CommandRow{"validate", "predict every measured row of a table and report errors",
                 Shares::Output, bind_own<ValidateOptions, run_validate, add_validate>},
      CommandRow{"reproduce", "published figures of a paper beside those of this program",
                 Shares::Output, bind_own<std::string, run_reproduce, add_reproduce>},
      CommandRow{"bench", "evaluations per second and the search signature", Shares::Output,
                 bind_command<run_bench, add_nothing>}};
  return kRows;
}

}  // namespace plansearch::cli
