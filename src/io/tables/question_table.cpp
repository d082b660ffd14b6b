// SPDX-License-Identifier: Apache-2.0
#include "io/tables/question_table.hpp"
#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "base/names.hpp"
#include "base/overrides.hpp"
#include "io/document/document.hpp"
#include "io/plan/schedule_csv.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/setting_table.hpp"

namespace plansearch::io {
namespace {

constexpr std::size_t kMostQuestions = 1'000'000;
constexpr std::string_view kQuestionsSchema = "plansearch/questions/v1";

/// One value, and where it stands.
struct Value {
  std::string text;
  SourceLocation where;
};

/// Applies the value of a key to a question; throws InputError for an impossible value.
using Taker = std::function<void(TableQuestion&, const Value&)>;

[[noreturn]] void refuse(const Value& value, std::string_view key, const std::string& problem,
                         std::string hint = {}) {
  throw InputError(value.where, fmt::format("{}: {}", key, problem), std::move(hint));
}

void take_setting(TableQuestion& question, const SettingRow& row, const Value& value) {
  const std::string problem = setting_problem(row, value.text);
  if (!problem.empty()) refuse(value, row.key, problem, std::string(row.help));
  row.set(question.request, value.text);
}

void take_degree(TableQuestion& question, Degree degree, std::string_view key, const Value& value) {
  const auto parsed = parse_degree(degree, value.text);
  if (!parsed) refuse(value, key, fmt::format("'{}': must be {}", value.text, legal_text(degree)));
  question.request.degrees.pin(degree, *parsed);
}

void take_command(TableQuestion& question, const Value& value) {
  if (value.text != "search" && value.text != "predict") {
    refuse(value, "command", fmt::format("'{}' is neither search nor predict", value.text));
  }
  question.predict = value.text == "predict";
}

void take_nodes(TableQuestion& question, const Value& value) {
  const auto nodes = parse_as<int>(value.text);
  if (!nodes || *nodes < 1)
    refuse(value, "nodes", fmt::format("'{}' is not a number of nodes", value.text));
  question.request.nodes = nodes;
}

struct KeyRow {
  std::string name;
  Taker take;
  bool numbers = false;  ///< cells may be lists and ranges of numbers
  bool words = false;    ///< cells may be lists of words
};

/// A key as the file writes it, and its values, one or more.
struct Field {
  std::string key;
  const KeyRow* row = nullptr;
  std::vector<Value> values;
};
using Fields = std::vector<Field>;

std::vector<KeyRow> make_keys() {
  std::vector<KeyRow> keys{
      {"command", take_command},
      {"plan", [](TableQuestion& q, const Value& v) { q.plan = v.text; }},
      {"nodes", take_nodes, true},
      {"space", [](TableQuestion& q, const Value& v) { q.request.space = v.text; }, false, true},
      {"target", [](TableQuestion& q, const Value& v) { q.request.target = v.text; }, false, true}};
  for (const SettingRow& row : setting_table()) {
    const auto take = [&row](TableQuestion& q, const Value& v) { take_setting(q, row, v); };
    const bool numbers = row.kind == SettingKind::Count;
    keys.push_back({std::string(row.key), take, numbers, row.lists && !numbers});
    if (row.flag_key != row.key) {
      keys.push_back({std::string(row.flag_key), take, numbers, row.lists && !numbers});
    }
  }
  const auto add_degree = [&](Degree degree, std::string_view key) {
    const bool numbers = row_of(degree).kind == DegreeKind::Number;
    keys.push_back(
        {std::string(key),
         [degree, key](TableQuestion& q, const Value& v) { take_degree(q, degree, key, v); },
         numbers, row_of(degree).kind == DegreeKind::Word && !row_of(degree).combines});
  };
  for (const DegreeRow& row : degree_table()) add_degree(row.degree, row.key);
  add_degree(kTensorAlias.degree, kTensorAlias.key);
  return keys;
}

const KeyRow& key_row(const std::string& key, const SourceLocation& where) {
  static const std::vector<KeyRow> kKeys = make_keys();
  std::string plain = key;
  std::ranges::replace(plain, '-', '_');
  const auto found = std::ranges::find_if(kKeys, [&](const KeyRow& row) {
    std::string name = row.name;
    std::ranges::replace(name, '-', '_');
    return name == plain;
  });
  if (found != kKeys.end()) return *found;
  std::vector<std::string> names;
  for (const KeyRow& row : kKeys) names.push_back(row.name);
  std::string hint = did_you_mean(key, names);
  if (hint.empty()) hint = "keys are those of settings (plansearch list settings) and degrees";
  throw InputError(where, fmt::format("unknown key '{}'", key), hint);
}

/// "8,16" and "8..64" are several values where the key takes numbers, "a,b" where it takes words.
std::vector<Value> values_of_cell(const KeyRow& key, const std::string& text,
                                  const SourceLocation& where) {
  std::vector<Value> values;
  if (key.name == "set") {
    for (const std::string& one : override_combinations(text)) values.push_back({one, where});
    return values;
  }
  const std::size_t dots = text.find("..");
  if (key.numbers && dots != std::string::npos) {
    const auto low = parse_as<std::int64_t>(text.substr(0, dots));
    const auto high = parse_as<std::int64_t>(text.substr(dots + 2));
    if (!low || !high || *low <= 0 || *low > *high)
      throw InputError(where, fmt::format("{}: '{}' is not a range", key.name, text),
                       "such as 8..64");
    for (std::int64_t power = 1; power <= *high; power *= 2) {
      if (power >= *low) values.push_back({fmt::format("{}", power), where});
    }
    return values;
  }
  if (!key.numbers && !key.words) return {{text, where}};
  for (const std::string& part : words_of(text, ", ")) values.push_back({part, where});
  return values;
}

/// One question for each combination of values, the first key outermost.
void expand(const Fields& fields, const SourceLocation& where,
            std::vector<TableQuestion>& questions) {
  std::size_t count = 1;
  for (const Field& field : fields) {
    count *= field.values.size();
    if (count == 0 || questions.size() + count > kMostQuestions) {
      throw InputError(where, fmt::format("more than {} questions", kMostQuestions),
                       "shorten the lists, or split the file");
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    TableQuestion question;
    question.where = where;
    std::size_t block = count;
    std::size_t rest = i;
    for (const Field& field : fields) {
      block /= field.values.size();
      const Value& value = field.values[rest / block];
      rest %= block;
      field.row->take(question, value);
      question.text +=
          fmt::format("{}{}={}", question.text.empty() ? "" : " ", field.key, value.text);
    }
    question.predict = question.predict || !question.plan.empty();
    questions.push_back(std::move(question));
  }
}

std::vector<TableQuestion> read_csv(const std::filesystem::path& path) {
  const CsvTable table = CsvTable::read(path);
  std::vector<const KeyRow*> keys;
  for (const std::string& name : table.header())
    keys.push_back(&key_row(name, {path.string(), 1, 1}));
  std::vector<TableQuestion> questions;
  for (const CsvRow& row : table.rows()) {
    Fields fields;
    for (std::size_t c = 0; c < keys.size(); ++c) {
      const CsvCell& cell = row.cells[c];
      if (cell.text.empty()) continue;
      const SourceLocation where{path.string(), cell.line, cell.column};
      fields.push_back({table.header()[c], keys[c], values_of_cell(*keys[c], cell.text, where)});
    }
    expand(fields, {path.string(), row.line, 1}, questions);
  }
  return questions;
}

Fields read_map(const Node& map) {
  Fields fields;
  for (const Node::Entry& entry : map.entries()) {
    const KeyRow& key = key_row(entry.key, entry.where);
    Field field{entry.key, &key, {}};
    if (entry.value.is_list()) {
      for (const Node& item : entry.value.items())
        field.values.push_back({item.text(), item.where()});
    } else {
      field.values = values_of_cell(key, entry.value.text(), entry.value.where());
    }
    if (field.values.empty()) entry.value.fail("the list is empty");
    fields.push_back(std::move(field));
  }
  return fields;
}

/// Every question of the list with every combination of the grid.
std::vector<TableQuestion> read_yaml(const std::filesystem::path& path) {
  const Document document = Document::read(path);
  const Node root = document.root();
  require_schema(root, kQuestionsSchema, "a file of questions");
  Fields grid;
  if (const auto map = root.find("grid")) grid = read_map(*map);
  std::vector<TableQuestion> questions;
  const auto list = root.find("questions");
  if (!list && grid.empty()) root.fail("neither 'grid' nor 'questions' is there");
  if (!list) expand(grid, root.where(), questions);
  if (list) {
    for (const Node& item : list->items()) {
      Fields fields = read_map(item);
      for (const Field& field : grid) {
        const bool own =
            std::ranges::any_of(fields, [&](const Field& other) { return other.key == field.key; });
        if (!own) fields.push_back(field);
      }
      expand(fields, item.where(), questions);
    }
  }
  root.finish();
  return questions;
}

}  // namespace

std::vector<TableQuestion> read_questions(const std::filesystem::path& path) {
  std::vector<TableQuestion> questions =
      path.extension() == ".csv" ? read_csv(path) : read_yaml(path);
  if (questions.empty())
    throw InputError({path.string(), 0, 0}, "no question in this file", "docs/sweep.md shows one");
  return questions;
}

}  // namespace plansearch::io
