// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "exchange/import_question.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "io/document/file.hpp"

namespace plansearch::cli {
namespace {

/// "plan.yaml" has its network in "plan.model.yaml".
std::string model_file_of(const Options& options) {
  if (!options.write_model.empty() || options.out.empty()) return options.write_model;
  std::filesystem::path path(options.out);
  return path.replace_extension(".model.yaml").string();
}

}  // namespace

int run_import(const Options& options) {
  const Output output(options);
  ImportQuestion question{options.plans, options.from, {}, model_file_of(options)};
  for (const std::string& definition : options.definitions) {
    const auto equals = definition.find('=');
    question.definitions[definition.substr(0, equals)] = definition.substr(equals + 1);
  }
  const ImportResult result = import_question(question, options, shipped_data());
  if (!result.model.empty()) io::write_file(question.model_file, result.model);
  output.write(result.plan);
  for (const std::string& note : result.notes) print_note(note, options);
  return kExitOk;
}

}  // namespace plansearch::cli
