// SPDX-License-Identifier: Apache-2.0
#include "cli/framework_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "answer/export_question.hpp"
#include "cli/option_kinds.hpp"

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

void add_export(CLI::App& app, Options& o) {
  app.add_option("plan", o.plan, "plan document or result.json#RANK")
      ->type_name("PLAN")
      ->required();
  restrict_to(app.add_option("--to", o.to, "as in plansearch list exporters")->required(),
              exporter_names());
  restrict_to(app.add_option("--launch", o.launch, "a launch script with the configuration in it"),
              launcher_names());
  app.add_option("--sbatch", o.sbatch,
                 "a line of the Slurm script, such as time=24:00:00 or constraint=hbm80g")
      ->type_name("OPTION=VALUE")
      ->allow_extra_args(false)
      ->check(sbatch_problem);
  app.add_option("--image", o.image, "container image of the Kubernetes job")
      ->type_name("IMAGE")
      ->check(line_problem);
  app.add_option("--checkpoints", o.checkpoints,
                 "folder that checkpoints are written to and read from")
      ->type_name("FOLDER")
      ->check(line_problem);
  whole_number(app.add_option("--save-every", o.save_every, "steps between checkpoints (500)"),
               {1, 1'000'000'000})
      ->needs("--checkpoints");
}

}  // namespace plansearch::cli
