// SPDX-License-Identifier: Apache-2.0
#include "cli/framework_options.hpp"

#include <fmt/format.h>

#include <string>

#include "answer/export_question.hpp"
#include "answer/import_question.hpp"
#include "cli/option_kinds.hpp"

namespace plansearch::cli {

void add_export(CLI::App& app, Options& o) {
  app.add_option("plan", o.plan, "plan document or result.json#RANK")
      ->type_name("PLAN")
      ->required();
  restrict_to(app.add_option("--to", o.to, "as in plansearch list exporters")->required(),
              exporter_names());
  restrict_to(app.add_option("--launch", o.launch, "a launch script with the configuration in it"),
              launcher_names());
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
