// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "answer/search_answer.hpp"
#include "cli/command_row.hpp"
#include "cli/commands.hpp"
#include "cli/option_kinds.hpp"
#include "cli/output.hpp"
#include "cli/search_run.hpp"
#include "io/document/file.hpp"
#include "measure/tune/tune.hpp"
#include "plansearch/error.hpp"

namespace plansearch::cli {
namespace {

/// Plans that trials choose among.
constexpr std::size_t kCandidates = 40;

struct TuneOptions {
  std::string folder;  ///< of --continue; empty: a new one
  std::string target;
  std::string launcher;  ///< empty: as the scripts that are there, else torchrun
  int trials = 0;        ///< 0: five at first, then one
};

/// Searches, and writes the plans into the new folder. The exit code where that is all.
std::optional<int> begin(const Options& options, const std::filesystem::path& folder,
                         const TuneOptions& own) {
  std::error_code error;
  if (std::filesystem::exists(folder / "trials.csv", error)) {
    throw InputError({folder.string(), 0, 0}, "there are trials in it",
                     fmt::format("plansearch tune --continue {} goes on", folder.string()));
  }
  if (!options.gpus && !options.nodes) {
    throw InputError({}, "tune is about one number of GPUs: --gpus is missing");
  }
  Options asked = options;
  if (!own.target.empty()) asked.target = own.target;
  asked.top = std::max(options.top, kCandidates);
  const std::vector<OpenQuestion> variants = open_questions(complete_from_plan(asked, {}));
  for (const std::string& note : variants.front().asked.notes) print_note(note, options);
  SearchRun run(asked);
  SearchAnswer answer = answer_search(variants, run.session(), PLANSEARCH_VERSION);
  if (answer.report().plans.empty()) {
    Output({}).write(render_search(answer.report(), format_of(options), columns_of(options)));
    return exit_code_after(run, options, kExitInfeasible);
  }
  std::filesystem::create_directories(folder, error);
  io::write_file(folder / "plans.json", render_search(answer.report(), Format::Json));
  return std::nullopt;
}

int run_tune(const Options& options, const TuneOptions& own) {
  const bool is_new = own.folder.empty();
  const std::filesystem::path folder = is_new ? options.out : own.folder;
  if (folder.empty()) {
    throw InputError({}, "no folder for the trials: --out is missing",
                     "--out FOLDER for a new one, or --continue FOLDER");
  }
  if (is_new) {
    if (const auto code = begin(options, folder, own)) return *code;
  }
  const int trials = own.trials > 0 ? own.trials : is_new ? 5 : 1;
  Options shown = options;
  shown.out.clear();
  const Output output(shown);
  output.write(advance_trials({.folder = folder,
                               .scripts = {.target = own.target, .launcher = own.launcher},
                               .trials = static_cast<std::size_t>(trials),
                               .if_worthwhile = !is_new && own.trials == 0,
                               .format = format_of(options),
                               .columns = columns_of(options),
                               .version = PLANSEARCH_VERSION}));
  return kExitOk;
}

void add_tune(CLI::App& app, Options& /*shared*/, TuneOptions& o) {
  restrict_to_exporters(app.add_option("--to", o.target,
                                       "program that runs the trials, as in plansearch list "
                                       "exporters (default: the one that plans are priced as)"));
  restrict_to(app.add_option("--launch", o.launcher,
                             "kind of the scripts (default: torchrun, or as those that are there); "
                             "slurm: with one job array"),
              launcher_names());
  add_number(app, "--trials", o.trials,
             "new trials (default: five at first, then one while it is worth its time)", {1, 40});
  add_typed(app, "FOLDER", "--continue", o.folder,
            "folder of trials: their results in trials.csv are read");
}

}  // namespace

Command bind_tune(CLI::App& app, Options& options) {
  return bind_own<TuneOptions, run_tune, add_tune>(app, options);
}

}  // namespace plansearch::cli
