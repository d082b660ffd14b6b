// SPDX-License-Identifier: Apache-2.0
// The wing `exchange`: launch files, networks and traces of other programs.
// From the configuration of another program to a plan file.

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "answer/export_question.hpp"
#include "cli/command_row.hpp"
#include "cli/commands.hpp"
#include "cli/option_kinds.hpp"
#include "cli/output.hpp"
#include "exchange/import_command.cpp"
#include "io/document/file.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

struct ImportQuestion {
  std::vector<std::string> files;  ///< "-" is standard input
  std::string from;                ///< empty: told by the keys
  std::map<std::string, std::string, std::less<>> definitions;
  std::string model_file;  ///< where the network goes when none that ships is the same
};

struct ImportResult {
  std::string plan;   ///< a plan file
  std::string model;  ///< a model file, for a network of its own; else empty
  std::vector<std::string> notes;
};

/// `typed`: settings and degrees of the command line, which win over the files. InputError, with
/// its place, for what cannot be read or is not known.
[[nodiscard]] ImportResult import_question(const ImportQuestion& question,
                                           const ProblemRequest& typed, const ShippedData& data);

}  // namespace plansearch

namespace plansearch::cli {
namespace {

struct ImportOptions {
  std::vector<std::string> files;
  std::string from;                      ///< a framework
  std::vector<std::string> definitions;  ///< NAME=VALUE
  std::string write_model;
};

/// "plan.yaml" has its network in "plan.model.yaml".
std::string model_file_of(const Options& options, const ImportOptions& own) {
  if (!own.write_model.empty() || options.out.empty()) return own.write_model;
  std::filesystem::path path(options.out);
  return path.replace_extension(".model.yaml").string();
}

int run_import(const Options& options, const ImportOptions& own) {
  const Output output(options);
  ImportQuestion question{own.files, own.from, {}, model_file_of(options, own)};
  for (const std::string& definition : own.definitions) {
    const auto equals = definition.find('=');
    question.definitions[definition.substr(0, equals)] = definition.substr(equals + 1);
  }
  const ImportResult result = import_question(question, options, shipped_data());
  if (!result.model.empty()) io::write_file(question.model_file, result.model);
  output.write(result.plan);
  for (const std::string& note : result.notes) print_note(note, options);
  return kExitOk;
}

void add_import(CLI::App& app, Options& /*shared*/, ImportOptions& o) {
  app.add_option("files", o.files, "launch scripts and configurations of one run; - for a pipe")
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

}  // namespace

std::span<const CommandRow> exchange_commands() {
  static constexpr std::array kRows{
      CommandRow{"import", "a plan from a launch script or configuration of a framework",
                 Shares::Plan, bind_own<ImportOptions, run_import, add_import>}};
  return kRows;
}

}  // namespace plansearch::cli
