// SPDX-License-Identifier: Apache-2.0
#include "cli/option_kinds.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "answer/export_question.hpp"
#include "base/names.hpp"
#include "base/overrides.hpp"
#include "base/units.hpp"

namespace plansearch::cli {
namespace {

/// The fault of a text that should be a whole number; empty when it has none.
std::string number_problem(const std::string& text, std::int64_t low, std::int64_t high) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end) {
    return fmt::format("'{}' is not a whole number", text);
  }
  if (error == std::errc() && value >= low && value <= high) return {};
  return fmt::format("{} is not from {} to {}", text, low, high);
}

/// Every part of a list where the setting takes one.
std::string problem_of(const SettingRow& row, const std::string& text) {
  if (row.set_list != nullptr) return list_problem(text);
  if (!row.lists) return setting_problem(row, text);
  for (const std::string& part : split(text, ",")) {
    if (std::string problem = setting_problem(row, part); !problem.empty()) return problem;
  }
  return {};
}

void take_setting(ProblemRequest& request, const SettingRow& row, const std::string& text) {
  if (row.set_list != nullptr) {
    const auto numbers = std::get<std::vector<std::int64_t>>(read_numbers(text));
    if (numbers.size() > 1) return row.set_list(request, numbers);
  }
  row.set(request, text);
}

}  // namespace

void restrict_to(CLI::Option* option, const Choices& choices) {
  option->type_name(fmt::format("{}", fmt::join(choices, "|")));
  option->check([choices](const std::string& text) {
    if (std::ranges::find(choices, text) != choices.end()) return std::string();
    const std::string guess = did_you_mean(text, choices);
    return fmt::format("'{}' is none of {}{}{}", text, fmt::join(choices, ", "),
                       guess.empty() ? "" : "; ", guess);
  });
}

void restrict_to_exporters(CLI::Option* option) {
  restrict_to(option, exporter_names());
  option->transform(exporter_called);
}

CLI::Option* whole_number(CLI::Option* option, std::pair<std::int64_t, std::int64_t> range) {
  return option->type_name("N")->check(
      [range](const std::string& text) { return number_problem(text, range.first, range.second); });
}

void positive_number(CLI::Option* option) {
  option->check([](const std::string& text) {
    const auto value = parse_number(text);
    if (value && *value > 0.0) return std::string();
    return fmt::format("'{}' is not a number above zero", text);
  });
}

std::string list_problem(const std::string& text) {
  const auto numbers = read_numbers(text);
  const auto* problem = std::get_if<std::string>(&numbers);
  return problem == nullptr ? std::string() : *problem;
}

void add_setting(CLI::App& app, Options& o, Setting setting) {
  const SettingRow& row = row_of(setting);
  app.add_option_function<std::string>(
         flag_of(row), [&o, &row](const std::string& text) { take_setting(o, row, text); },
         std::string(row.help))
      ->type_name(std::string(row.type))
      ->check([&row](const std::string& text) { return problem_of(row, text); });
}

/// One or several values of data files more, between ';'.
void add_overrides(Options& o, const std::string& text) {
  o.set = o.set ? fmt::format("{}; {}", *o.set, text) : text;
  static_cast<void>(parse_overrides(*o.set));
}

void add_set(CLI::App& app, Options& o) {
  const SettingRow& row = row_of(Setting::Set);
  app.add_option_function<std::vector<std::string>>(
         flag_of(row),
         [&o](const std::vector<std::string>& parts) {
           add_overrides(o, fmt::format("{}", fmt::join(parts, "; ")));
         },
         std::string(row.help))
      ->type_name(std::string(row.type))
      ->allow_extra_args(false);
  app.add_option_function<std::string>(
         "--family",
         [&o](const std::string& file) { add_overrides(o, fmt::format("model.family={}", file)); },
         "file that says how a Hugging Face configuration is read: --set model.family=FILE")
      ->type_name("FILE");
}

}  // namespace plansearch::cli
