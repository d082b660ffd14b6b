// SPDX-License-Identifier: Apache-2.0
// Completion scripts, generated from the command line itself so that they cannot fall behind it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "base/ranges.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace plansearch::cli {
namespace {

enum class ValueKind : std::uint8_t { None, Words, File, Listed, Other };

/// Values that are names of shipped files, by the type of their options.
struct ListedType {
  std::string_view type;
  std::string_view listing;  ///< of plansearch list
};
constexpr ListedType kListedTypes[]{
    {"HARDWARE", "hw"}, {"MODEL", "models"}, {"FRAMEWORK", "frameworks"}};

/// One option or positional argument and what may follow it.
struct Word {
  std::string name;  ///< with dashes; empty for a positional argument
  std::string help;
  ValueKind kind = ValueKind::Other;
  std::vector<std::string> values{};
  std::string_view listing{};
};

struct CommandWords {
  std::string name;  ///< empty: the program itself
  std::string help;
  std::vector<Word> options;
  std::vector<Word> arguments;
};

ValueKind kind_of(const std::string& type) {
  if (type == "FILE" || type == "PLAN") return ValueKind::File;
  return type.find('|') == std::string::npos ? ValueKind::Other : ValueKind::Words;
}

Word word_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  Word word{{}, option.get_description(), kind_of(type)};
  for (const ListedType& row : kListedTypes) {
    if (row.type != type) continue;
    word.kind = ValueKind::Listed;
    word.listing = row.listing;
  }
  if (!option.get_lnames().empty()) word.name = fmt::format("--{}", option.get_lnames().front());
  if (option.get_expected_max() == 0 || option.get_type_size_max() == 0)
    word.kind = ValueKind::None;
  if (word.name.empty() && word.kind == ValueKind::Other) word.kind = ValueKind::File;
  if (word.kind == ValueKind::Words) word.values = CLI::detail::split(type, '|');
  return word;
}

CommandWords words_of(const CLI::App& app) {
  CommandWords words{
      app.get_parent() == nullptr ? "" : app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    Word word = word_of(*option);
    (word.name.empty() ? words.arguments : words.options).push_back(std::move(word));
  }
  return words;
}

/// The code in which a shell completes the values of a word, by kind.
using ValueTexts = std::array<std::string_view, 5>;
constexpr ValueTexts kBashValues{"COMPREPLY=()", "COMPREPLY=($(compgen -W '{words}' -- \"$cur\"))",
                                 "COMPREPLY=($(compgen -f -- \"$cur\"))",
                                 "COMPREPLY=($(compgen -f -W \"$({names})\" -- \"$cur\"))",
                                 "COMPREPLY=()"};
constexpr ValueTexts kFishValues{"", " -x -a '{words}'", " -r -F", " -r -a '({names})'", " -x"};

std::string value_text(const Word& word, const ValueTexts& texts) {
  // Prints the shipped names of a kind, one per line.
  const std::string names = fmt::format(
      "plansearch list {} --format csv 2>/dev/null | tail -n +2 | cut -d, -f1", word.listing);
  return fmt::format(fmt::runtime(texts.at(static_cast<std::size_t>(word.kind))),
                     fmt::arg("words", fmt::join(word.values, " ")), fmt::arg("names", names));
}

std::vector<std::string> names(const std::vector<Word>& words) {
  return transformed(words, &Word::name);
}

std::string bash(const CommandWords& top, const std::vector<CommandWords>& commands) {
  std::string values;
  std::string by_command;
  std::set<std::string> known;  // commands share most options
  const auto add_values = [&](const CommandWords& command) {
    for (const Word& word : command.options) {
      if (word.kind == ValueKind::None || !known.insert(word.name).second) continue;
      values += fmt::format("    {}) {}; return ;;\n", word.name, value_text(word, kBashValues));
    }
  };
  add_values(top);
  for (const CommandWords& command : commands) {
    add_values(command);
    by_command +=
        fmt::format("    {}) own='{}'", command.name, fmt::join(names(command.options), " "));
    if (!command.arguments.empty()) {
      by_command += fmt::format("\n      [[ $cur == -* ]] || {{ {}; return; }}",
                                value_text(command.arguments.front(), kBashValues));
    }
    by_command += " ;;\n";
  }
  std::vector<std::string> command_names = transformed(commands, &CommandWords::name);
  return fmt::format(R"(# plansearch completion for bash: source <(plansearch completion bash)
_plansearch() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command= own= word
  case $prev in
{}  esac
  for word in "${{COMP_WORDS[@]:1:$((COMP_CWORD-1))}}"; do
    case $word in {}) command=$word; break ;; esac
  done
  case $command in
{}    '') own='{} {}' ;;
  esac
  COMPREPLY=($(compgen -W "$own" -- "$cur"))
}}
complete -o filenames -F _plansearch plansearch
)",
                     values, fmt::join(command_names, "|"), by_command,
                     fmt::join(command_names, " "), fmt::join(names(top.options), " "));
}

std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) {
    text.replace(at, 1, "'\\''");
  }
  return fmt::format("'{}'", text);
}

/// zsh runs the functions of bash; a file on $fpath also answers the first call.
std::string zsh(const CommandWords& top, const std::vector<CommandWords>& commands) {
  return "#compdef plansearch\n"
         "# plansearch completion for zsh: put it on $fpath as _plansearch\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash(top, commands) + "_bash_complete -o filenames -F _plansearch\n";
}

std::string fish_words(const CommandWords& command) {
  const std::string condition =
      command.name.empty()
          ? " -n __fish_use_subcommand"
          : fmt::format(" -n {}", quoted("__fish_seen_subcommand_from " + command.name));
  std::string text;
  for (const Word& word : command.options) {
    text += fmt::format("complete -c plansearch{} -l {}{} -d {}\n", condition, word.name.substr(2),
                        value_text(word, kFishValues), quoted(word.help));
  }
  for (const Word& word : command.arguments) {
    text += fmt::format("complete -c plansearch{}{}\n", condition, value_text(word, kFishValues));
  }
  return text;
}

std::string fish(const CommandWords& top, const std::vector<CommandWords>& commands) {
  std::string text =
      "# plansearch completion for fish: plansearch completion fish | source\n"
      "complete -c plansearch -f\n" +
      fish_words(top);
  for (const CommandWords& command : commands) {
    text += fmt::format("complete -c plansearch -n __fish_use_subcommand -a {} -d {}\n",
                        command.name, quoted(command.help));
    text += fish_words(command);
  }
  return text;
}

std::string completion_script(std::string_view shell) {
  Options options;
  CLI::App app("", "plansearch");
  build_command_line(app, options);
  const CommandWords top = words_of(app);
  std::vector<CommandWords> commands;
  for (const CLI::App* sub : app.get_subcommands({})) {
    commands.push_back(words_of(*sub));
    std::erase_if(commands.back().options, [](const Word& word) { return word.name == "--help"; });
  }
  if (shell == "bash") return bash(top, commands);
  if (shell == "zsh") return zsh(top, commands);
  return fish(top, commands);
}

}  // namespace

int run_completion(const Options& options) {
  const Output output(options);
  output.write(completion_script(options.argument));
  return kExitOk;
}

}  // namespace plansearch::cli
