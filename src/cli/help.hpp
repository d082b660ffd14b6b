// SPDX-License-Identifier: Apache-2.0
// The texts of --help and of a bare `plansearch`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace plansearch::cli {

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
