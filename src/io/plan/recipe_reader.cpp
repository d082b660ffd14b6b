// SPDX-License-Identifier: Apache-2.0
#include "io/plan/recipe_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "io/hardware/profile_parts.hpp"
#include "io/plan/plan_document.hpp"
#include "plansearch/setting_table.hpp"

namespace plansearch::io {
namespace {

/// "2024" or "2024-07".
std::string read_date(const Node& node) {
  const std::string text = node.text();
  const auto digits = [&](std::size_t from, std::size_t count) {
    return text.size() >= from + count &&
           std::all_of(text.begin() + static_cast<std::ptrdiff_t>(from),
                       text.begin() + static_cast<std::ptrdiff_t>(from + count),
                       [](char c) { return c >= '0' && c <= '9'; });
  };
  const bool year = text.size() == 4 && digits(0, 4);
  const bool month = text.size() == 7 && digits(0, 4) && text[4] == '-' && digits(5, 2);
  if (!year && !month) {
    node.fail(fmt::format("'{}' is not a date", text),
              "write the year or the month, such as 2024-07");
  }
  return text;
}

/// Settings that a recipe must state to be found.
constexpr std::array kNeeded{Setting::Hardware, Setting::Model, Setting::Framework,
                             Setting::Gpus,     Setting::Batch, Setting::SequenceLength,
                             Setting::Precision};

Recipe read_recipe(const Node& node, const std::string& publisher) {
  Recipe recipe;
  recipe.name = node.at("name").text();
  recipe.publisher = publisher;
  recipe.source = node.at("source").text();
  recipe.date = read_date(node.at("date"));
  for (const Setting setting : kNeeded) (void)node.at(std::string(row_of(setting).key));
  recipe.question = read_question(node);
  if (recipe.question.degrees.empty()) {
    node.at("degrees").fail("no degrees", "a recipe says how it splits, such as {tp: 8, pp: 4}");
  }
  if (const auto time = node.find("step_time")) recipe.step_time = time->quantity<Seconds>();
  return recipe;
}

}  // namespace

std::vector<Recipe> read_recipes(const std::filesystem::path& path) {
  const Document document = Document::read(path);
  const Node root = document.root();
  require_schema(root, "plansearch/recipes/v1");
  const std::string publisher = root.at("publisher").text();
  std::vector<Recipe> recipes;
  for (const Node& node : root.at("recipes").items()) {
    recipes.push_back(read_recipe(node, publisher));
    const std::string& name = recipes.back().name;
    const bool twice = std::any_of(recipes.begin(), recipes.end() - 1,
                                   [&](const Recipe& other) { return other.name == name; });
    if (twice) node.at("name").fail(fmt::format("two recipes are called {}", name));
  }
  root.finish();
  return recipes;
}

}  // namespace plansearch::io
