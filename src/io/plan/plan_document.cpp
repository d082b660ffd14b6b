// SPDX-License-Identifier: Apache-2.0
#include "io/plan/plan_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "io/hardware/profile_parts.hpp"
#include "io/plan/schedule_csv.hpp"

namespace plansearch::io {
namespace {

constexpr std::string_view kPlanSchema = "plansearch/plan/v1";

/// A name, or a name and the hash that the content had.
std::string read_name(const Node& node, std::string_view key, ProblemRequest& question) {
  if (node.is_scalar()) return node.text();
  if (const auto hash = node.find("hash")) question.content_hashes.emplace(key, hash->text());
  return node.at("name").name();
}

void take_setting(const Node& node, const SettingRow& row, ProblemRequest& question) {
  const bool file = row.kind == SettingKind::Name;
  const std::string text = file ? read_name(node, row.key, question) : node.text();
  const std::string problem = setting_problem(row, text);
  if (!problem.empty()) node.fail(fmt::format("{}: {}", row.key, problem), std::string(row.help));
  row.set(question, text);
}

std::string line(std::string_view key, const std::string& value) {
  return fmt::format("{}: {}\n", key, value);
}

/// Numbers and words as they are, texts in quotes, files with the hash of their content.
std::string setting_value(const SettingRow& row, const std::string& text,
                          const ProblemRequest& question) {
  if (row.kind == SettingKind::Name) {
    const auto hash = question.content_hashes.find(row.key);
    if (hash == question.content_hashes.end()) return in_quotes(text);
    return fmt::format("{{name: {}, hash: {}}}", in_quotes(text), in_quotes(hash->second));
  }
  const bool number = row.kind == SettingKind::Count || row.kind == SettingKind::Share;
  return number || row.setting == Setting::Precision ? text : in_quotes(text);
}

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
  recipe.name = node.at("name").name();
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

int read_degree(const Node& node, Degree degree) {
  const DegreeRow& row = row_of(degree);
  switch (row.kind) {
    case DegreeKind::Number:
      return node.count(row.low, row.high);
    case DegreeKind::Switch:
      return node.boolean() ? 1 : 0;
    case DegreeKind::Word:
      break;
  }
  const std::string word = node.text();
  if (const auto value = parse_degree(degree, word)) return *value;
  node.fail(fmt::format("'{}' is not a {}", word, row.key), legal_text(degree));
}

PinnedDegrees read_degrees(const Node& map, DegreeSet without) {
  PinnedDegrees degrees;
  for (const DegreeRow& row : degree_table()) {
    if (without.contains(row.degree)) continue;
    if (const auto node = map.find(row.key))
      degrees.pin(row.degree, read_degree(*node, row.degree));
  }
  const auto tensor = map.find(kTensorAlias.key);
  if (!tensor) return degrees;
  if (degrees.has(Degree::TensorIn) || degrees.has(Degree::TensorOut) ||
      degrees.has(Degree::TensorDepth)) {
    tensor->fail("tp and tp_x, tp_y, tp_z are two ways to say the same",
                 "keep tp (Megatron: tp_y) or the three axes");
  }
  degrees.pin(kTensorAlias.degree, read_degree(*tensor, kTensorAlias.degree));
  return degrees;
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7f) {
      result += fmt::format("\\x{:02x}", code);
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string yaml_value(Degree degree, int value) {
  const DegreeRow& row = row_of(degree);
  if (row.kind == DegreeKind::Switch) return value == 0 ? "false" : "true";
  const std::string text = value_text(degree, value);
  return row.combines && text.find(',') != std::string::npos ? in_quotes(text) : text;
}

PlanDocument read_plan_document(const std::filesystem::path& path) {
  return read_plan_document(Document::read(path).root());
}

ProblemRequest read_question(const Node& map) {
  ProblemRequest question;
  for (const SettingRow& row : setting_table()) {
    if (row.effect == SettingEffect::Summary) continue;
    if (const auto node = map.find(row.key)) take_setting(*node, row, question);
  }
  if (const auto degrees = map.find("degrees")) question.degrees = read_degrees(*degrees, {});
  return question;
}

PlanDocument read_plan_document(const Node& root) {
  require_schema(root, kPlanSchema);
  PlanDocument document;
  if (const auto description = root.find("description")) description->ignore();
  document.question = read_question(root);
  document.stages = read_stages(root);
  document.placements = read_placements(root);
  document.transform = read_transform(root);
  document.assign = read_assign(root);
  document.shared = read_shared(root);
  document.window = read_window(root);
  root.finish();
  return document;
}

std::string to_yaml(const PlanDocument& document) {
  std::string text = line("schema", std::string(kPlanSchema));
  for (const SettingRow& row : setting_table()) {
    const auto value = row.get(document.question);
    if (value && row.effect != SettingEffect::Summary) {
      text += line(row.key, setting_value(row, *value, document.question));
    }
  }
  if (!document.question.degrees.empty()) text += "degrees:\n";
  for (const DegreeRow& row : degree_table()) {
    const auto value = document.question.degrees.get(row.degree);
    if (!value) continue;
    text +=
        "  " + line(key_of(row.degree, document.question.degrees), yaml_value(row.degree, *value));
  }
  const WindowDocument* window = document.window ? &*document.window : nullptr;
  if (document.stages) text += order_yaml(&*document.stages, window) + to_yaml(*document.stages);
  if (document.placements) text += to_yaml(document.placements->names);
  if (document.transform) text += to_yaml(*document.transform);
  if (document.assign || document.shared) text += "assign:\n";
  if (document.assign) text += to_yaml(*document.assign);
  if (document.shared) {
    for (const std::string& selector : document.shared->blocks) {
      text += fmt::format("  - {{of: {}, devices: all}}\n", in_quotes(selector));
    }
  }
  if (document.assign) text += order_yaml(&document.assign->order, window);
  if (!document.assign && !document.stages && window != nullptr)
    text += order_yaml(nullptr, window);
  return text;
}

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
