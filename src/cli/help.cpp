// SPDX-License-Identifier: Apache-2.0
#include "cli/option_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/output.hpp"
#include "report/text_table.hpp"

namespace plansearch::cli {
namespace {

constexpr int kIndent = 26;

int width() {
  constexpr int kUsual = 80;
  return screen_columns().value_or(kUsual);
}

/// "  --gpus N                number of accelerators": a name as long as the margin, or longer,
/// stands on a line of its own.
std::string entry(const std::string& name, const std::string& meaning) {
  const int columns = width();
  const std::string head = wrapped(fmt::format("  {}", name), columns);
  const std::string margin(kIndent, ' ');
  const bool beside = static_cast<int>(head.size()) + 2 <= kIndent;
  std::string text = beside ? fmt::format("{:<{}}", head, kIndent) : head + "\n" + margin;
  const std::string lines = wrapped(meaning, std::max(columns - kIndent, kIndent)) + "\n";
  for (std::size_t at = 0, end = 0; at < lines.size(); at = end + 1) {
    end = lines.find('\n', at);
    std::string line = lines.substr(at, end - at);
    line.erase(0, line.find_first_not_of(' '));
    text += (at == 0 ? "" : margin) + line + "\n";
  }
  return text;
}

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool positional) const {
  const std::string name = option->get_name(positional, true);
  const std::string type = option->get_type_size() == 0 ? "" : " " + option->get_type_name();
  // A choice has a long type: blanks are where it may be broken.
  std::string breakable;
  for (const char c : type) breakable += c == '|' ? std::string(" | ") : std::string(1, c);
  return entry(name + (type.size() > kIndent ? breakable : type), option->get_description());
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return wrapped(app->get_description(), width()) + "\n\n";
}

std::string HelpFormatter::make_group(std::string group, bool positional,
                                      std::vector<const CLI::Option*> options) const {
  std::string text = fmt::format("\n{}:\n", group);
  for (const CLI::Option* option : options) text += make_option(option, positional);
  return text;
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string /*name*/) const {
  const bool top = app->get_parent() == nullptr;
  std::string usage = fmt::format("Usage: plansearch {}", top ? "[COMMAND]" : app->get_name());
  for (const CLI::Option* option : app->get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(true);
    usage += option->get_required() ? " " + name : fmt::format(" [{}]", name);
  }
  return usage + " [OPTIONS]\n";
}

std::string short_help() {
  return R"(plansearch: which parallel plan to train a large network with, how long a step takes,
whether it fits in memory, how many GPUs make sense, and why.

  plansearch --hw dgx-h100 --model llama3-8b --gpus 64     rank the plans for 64 GPUs
  plansearch --hw dgx-h100 --model llama3-8b               how many GPUs make sense
  plansearch predict --hw dgx-h100 --model llama3-8b --gpus 64 --tp 2 --pp 4
                                                           one given plan
  plansearch explain result.json#1                         why, and what bounds it
  plansearch list hw | models | frameworks | schedules     what is shipped

plansearch --help lists every command and option, plansearch COMMAND --help those of one.
)";
}

}  // namespace plansearch::cli
