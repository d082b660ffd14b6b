// SPDX-License-Identifier: Apache-2.0
// Kinds of options: of a few words, of whole numbers, of lists, of a setting.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/options.hpp"
#include "plansearch/setting_table.hpp"
#include "question/gpu_count.hpp"

namespace plansearch::cli {

using Choices = std::vector<std::string>;

/// Restricts an option to a few words. They are its type name too ("none|full"), which is where
/// help and completion scripts take them from.
void restrict_to(CLI::Option* option, const Choices& choices);
/// The same, to the programs that plans are exported to, by any of their names.
void restrict_to_exporters(CLI::Option* option);
CLI::Option* whole_number(CLI::Option* option, std::pair<std::int64_t, std::int64_t> range);
void positive_number(CLI::Option* option);
/// The fault of a list of numbers; empty when it has none.
[[nodiscard]] std::string list_problem(const std::string& text);
/// The option of a setting, by its row.
void add_setting(CLI::App& app, Options& o, Setting setting);
/// Options of `export`.
void add_export(CLI::App& app, Options& o);
/// --set, as often as values are to be changed.
void add_set(CLI::App& app, Options& o);
/// Memory of an inference engine, in the words of --mem-reserve.

template <typename T>
CLI::Option* add_typed(CLI::App& app, const std::string& type, const char* name, T& field,
                       const char* help) {
  return app.add_option(name, field, help)->type_name(type);
}

template <typename T>
CLI::Option* add_number(CLI::App& app, const char* name, T& field, const char* help,
                        std::pair<std::int64_t, std::int64_t> range) {
  return whole_number(app.add_option(name, field, help), range);
}

/// One number, or several of which a search takes each.
template <typename T>
void add_numbers(CLI::App& app, const char* name, std::optional<T>& field, std::vector<T>& list,
                 const char* help) {
  app.add_option_function<std::string>(
         name,
         [&field, &list](const std::string& text) {
           const auto numbers = std::get<std::vector<std::int64_t>>(read_numbers(text));
           if (numbers.size() == 1) field = static_cast<T>(numbers.front());
           if (numbers.size() > 1) list.assign(numbers.begin(), numbers.end());
         },
         help)
      ->type_name("N")
      ->check(list_problem);
}

/// Options under headings, names beside what they mean, broken to the width of the terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  [[nodiscard]] std::string make_option(const CLI::Option* option, bool positional) const override;
  [[nodiscard]] std::string make_help(const CLI::App* app, std::string name,
                                      CLI::AppFormatMode mode) const override;
  [[nodiscard]] std::string make_description(const CLI::App* app) const override;
  [[nodiscard]] std::string make_group(std::string group, bool positional,
                                       std::vector<const CLI::Option*> options) const override;
  [[nodiscard]] std::string make_subcommand(const CLI::App* command) const override;
  [[nodiscard]] std::string make_usage(const CLI::App* app, std::string name) const override;
};

/// A dozen lines for who typed `plansearch` to see what it is.
[[nodiscard]] std::string short_help();

}  // namespace plansearch::cli
