// SPDX-License-Identifier: Apache-2.0
#include "cli/in_process.hpp"

#include <utility>
#include <variant>

#include "cli/commands.hpp"
#include "cli/parse.hpp"
#include "plansearch/error.hpp"

namespace plansearch::cli {
namespace {

std::variant<Options, Help> parse(std::vector<std::string> words) {
  words.insert(words.begin(), "plansearch");
  std::vector<char*> arguments;
  arguments.reserve(words.size());
  for (std::string& word : words) arguments.push_back(word.data());
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace

Options parse_words(const std::vector<std::string>& words, Caller& caller) {
  auto parsed = parse(words);
  if (std::holds_alternative<Help>(parsed)) throw InputError({}, "no question was asked");
  Options options = std::get<Options>(std::move(parsed));
  options.caller = &caller;
  return options;
}

int run_words(const std::vector<std::string>& words, Caller& caller) {
  auto parsed = parse(words);
  if (const Help* help = std::get_if<Help>(&parsed)) {
    caller.answer = help->text;
    return kExitOk;
  }
  Options& options = std::get<Options>(parsed);
  options.caller = &caller;
  return run_command(options);
}

}  // namespace plansearch::cli
