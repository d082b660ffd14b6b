// SPDX-License-Identifier: Apache-2.0
#include "parse.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <vector>

#include "plansearch/base/error.hpp"
#include "plansearch/base/names.hpp"

namespace plansearch::cli {
namespace {

constexpr const char* kAbout =
    "Which parallel plan to train a large network with, how long a step takes, whether it fits in "
    "memory, and why.\n\nExample: plansearch --hw perlmutter.yaml --model gpt2-xl --gpus 64";
constexpr const char* kSeeHelp = "plansearch --help lists every command and option";

/// Every spelling a word of the command line may have.
std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> words;
  const auto collect = [&](const CLI::App& from) {
    for (const CLI::Option* option : from.get_options()) {
      for (const std::string& name : option->get_lnames())
        words.push_back(fmt::format("--{}", name));
    }
  };
  collect(app);
  for (const CLI::App* sub : app.get_subcommands({})) {
    words.push_back(sub->get_name());
    collect(*sub);
  }
  return words;
}

[[noreturn]] void refuse_extra(const CLI::App& app) {
  const std::vector<std::string> extra = app.remaining(true);
  const std::string word = extra.empty() ? std::string() : extra.front();
  const std::string name = word.substr(0, word.find('='));
  std::string hint = did_you_mean(name, known_words(app));
  const bool option = name.starts_with('-');
  throw InputError({}, fmt::format("unknown {} '{}'", option ? "option" : "argument", name),
                   hint.empty() ? kSeeHelp : hint);
}

}  // namespace

std::variant<Options, Help> parse_command_line(int argc, char** argv) {
  Options options;
  CLI::App app(kAbout, "plansearch");
  build_command_line(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    return Help{chosen.empty() ? app.help() : chosen.front()->help()};
  } catch (const CLI::CallForVersion&) {
    return Help{fmt::format("plansearch {}\n", kVersion)};
  } catch (const CLI::ExtrasError&) {
    refuse_extra(app);
  } catch (const CLI::ParseError& error) {
    throw InputError({}, error.what(), kSeeHelp);
  }
  return options;
}

}  // namespace plansearch::cli
