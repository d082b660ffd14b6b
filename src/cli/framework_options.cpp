// SPDX-License-Identifier: Apache-2.0
#include "cli/framework_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "answer/export_question.hpp"
#include "exchange/import_question.hpp"
#include "cli/option_kinds.hpp"

namespace plansearch::cli {

namespace {

/// Text that stays on the line it is written to.
std::string line_problem(const std::string& text) {
  const bool broken = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
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

void add_import(CLI::App& app, Options& o) {
  app.add_option("files", o.plans, "launch scripts and configurations of one run; - for a pipe")
      ->type_name("FILE")
      ->required();
  restrict_to(app.add_option("--from", o.from, "the framework (default: told by the keys)"),
              import_names());
  app.add_option("--define", o.definitions,
                 "a variable of a script, or a key that no file has (vocab-size=32000)")
      ->type_name("NAME=VALUE")
      ->check([](const std::string& text) {
        return text.find('=') == std::string::npos || text.front() == '='
                   ? fmt::format("'{}' is not NAME=VALUE", text)
                   : std::string();
      });
  app.add_option("--write-model", o.write_model,
                 "where the network goes when none that ships is the same (default: beside --out)")
      ->type_name("FILE");
}

}  // namespace plansearch::cli
