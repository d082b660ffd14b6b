// SPDX-License-Identifier: Apache-2.0
// A target from its file: docs/export.md and docs/schema/export.v1.schema.json describe it.
#include <fmt/format.h>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "exporters/readers.hpp"
#include "exporters/spelling.hpp"
#include "io/document/fields.hpp"
#include "io/document/raw_value.hpp"

namespace plansearch::exporters {
namespace {

using io::Node;

/// The names that come near, or where they all are.
std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  const std::string guess = did_you_mean(name, known);
  return guess.empty() ? "docs/export.md says where the names are" : guess;
}

const Fact& fact_called(const std::string& name, const Node& node) {
  if (const Fact* fact = find_fact(name)) return *fact;
  node.fail(fmt::format("'{}' is not a fact of a plan", name), nearest(name, fact_names()));
}

const Fact& fact_at(const Node& node) {
  return fact_called(node.text(), node);
}

Setting setting_called(const std::string& name, const Node& node) {
  std::vector<std::string> names;
  for (std::size_t s = 0; s < kSettingCount; ++s) {
    names.push_back(name_of(static_cast<Setting>(s)));
    if (names.back() == name) return static_cast<Setting>(s);
  }
  node.fail(fmt::format("'{}' is not a setting", name), nearest(name, names));
}

std::vector<std::string> texts_at(const Node& node) {
  return node.is_list() ? node.texts() : std::vector{node.text()};
}

/// How a document writes switches and free text, unless a row says otherwise.
Spelling document_spelling(const Node& node) {
  Spelling spelling;
  if (const auto on = node.find("then")) spelling.on = value_of(on->raw());
  if (const auto off = node.find("else")) spelling.off = value_of(off->raw());
  io::Fields(node).take("quotes", spelling.hydra, {{"hydra", true}});
  if (const auto open = node.find("left_open")) spelling.left_open = open->boolean();
  return spelling;
}

void read_words(const Node& map, std::vector<std::pair<std::string, Value>>& words) {
  for (const Node::Entry& entry : map.entries()) {
    words.emplace_back(entry.key, value_of(entry.value.raw()));
    entry.value.ignore();
  }
}

Spelling row_spelling(const Node& row, Spelling spelling) {
  if (const auto words = row.find("words")) read_words(*words, spelling.words);
  if (const auto on = row.find("then")) spelling.words.emplace_back("true", value_of(on->raw()));
  if (const auto off = row.find("else")) spelling.words.emplace_back("false", value_of(off->raw()));
  if (const auto others = row.find("read_as")) {
    for (const Node::Entry& entry : others->entries())
      spelling.read_as.emplace_back(entry.value.text(), plain_value(entry.key));
  }
  if (const auto otherwise = row.find("otherwise")) spelling.otherwise = value_of(otherwise->raw());
  static constexpr io::Choice<std::string_view> kLists[] = {{"brackets", "brackets"},
                                                            {"commas", "commas"}};
  io::Fields(row).take("list", spelling.list, kLists);
  return spelling;
}

/// "KEY: FACT", or a map; of constants `value`.
Key read_map(const std::string& name, const Node& row, const Spelling& usual) {
  Key key;
  if (const auto constant = row.find("value")) {
    key.name = name;
    key.value = [value = value_of(constant->raw())](const ExportRequest&) { return value; };
    constant->ignore();
  } else {
    key = key_of(name, fact_at(row.at("fact")), row_spelling(row, usual));
  }
  if (const auto says = row.find("says")) {
    key.says.clear();
    for (const std::string& setting : texts_at(*says))
      key.says.push_back(setting_called(setting, *says));
  }
  const auto reads = row.find("read");
  if (row.find("value") || (reads && !reads->boolean())) key.read = together;
  if (const auto path = row.find("path")) key.is_path = path->boolean();
  return key;
}

/// A key that says no setting and of which nothing is read is a placeholder: files may have another
/// value.
Key read_row(const std::string& name, const Node& row, const Spelling& usual) {
  Key key = row.is_map() ? read_map(name, row, usual) : key_of(name, fact_at(row), usual);
  const auto fact = row.is_map() ? row.find("fact") : std::optional(row);
  if (key.says.empty() && (!fact || !find_fact(fact->text())->read)) key.read = nullptr;
  return key;
}

/// A key may say several facts: a list of rows.
template <typename Read>
void read_each(const Node& map, const Read& read) {
  for (const Node::Entry& entry : map.entries()) {
    const std::vector<Node> rows =
        entry.value.is_list() ? entry.value.items() : std::vector{entry.value};
    for (const Node& row : rows) read(entry.key, row);
  }
}

/// Older and other names of keys, which no export writes.
Key read_only_row(const std::string& name, const Node& row, const Spelling& usual) {
  Key key = row.is_map() ? read_map(name, row, usual) : key_of(name, fact_at(row), usual);
  key.says.clear();
  key.value = [](const ExportRequest&) { return Value(); };
  return key;
}

Document read_document(const Node& node) {
  static constexpr io::Choice<Writer> kWriters[] = {{"json", write_json},
                                                    {"yaml", write_yaml},
                                                    {"toml", write_toml},
                                                    {"alpa", write_alpa},
                                                    {"order", write_order}};
  Document document;
  if (const auto array = node.find("array")) {
    document.array = array->text();
  } else {
    document.file = node.at("file").text();
    document.write = node.at("format").choice(std::span<const io::Choice<Writer>>(kWriters));
  }
  const Spelling usual = document_spelling(node);
  std::vector<Key>& keys = document.keys;
  read_each(node.at("keys"), [&](const std::string& name, const Node& row) {
    keys.push_back(read_row(name, row, usual));
  });
  if (const auto others = node.find("read_only"))
    read_each(*others, [&](const std::string& name, const Node& row) {
      keys.push_back(read_only_row(name, row, usual));
    });
  if (const auto known = node.find("known")) {
    for (const std::string& name : known->texts())
      keys.push_back({name, {}, [](const ExportRequest&) { return Value(); }, together});
  }
  return document;
}

std::vector<Accepts> read_accepts(const Node& map) {
  static constexpr io::Choice<By> kBy[] = {
      {"key", By::Key}, {"target", By::Target}, {"script", By::Script}};
  std::vector<Accepts> accepts;
  for (const Node::Entry& entry : map.entries()) {
    Accepts line{setting_called(entry.key, entry.value)};
    if (!entry.value.is_map()) {
      line.values = texts_at(entry.value);
    } else {
      if (const auto values = entry.value.find("values")) line.values = texts_at(*values);
      io::Fields(entry.value).take("by", line.by, kBy);
      if (const auto silent = entry.value.find("silent")) line.silent = silent->text();
    }
    accepts.push_back(std::move(line));
  }
  return accepts;
}

/// An environment variable is a row; "" is not set.
Variable read_variable(const Node::Entry& entry) {
  const Key key = read_row(entry.key, entry.value, {});
  return {entry.key, [value = key.value](const ExportRequest& h) -> std::optional<std::string> {
            const Value word = value(h);
            return word.is_null() ? std::nullopt : std::optional(text_in(word));
          }};
}

/// Words, and facts in their places.
std::function<std::vector<std::string>(const ExportRequest&)> read_trial(const Node& list) {
  std::vector<std::function<Value(const ExportRequest&)>> words;
  for (const Node& word : list.items()) {
    if (word.is_map()) {
      words.push_back(read_row({}, word, {}).value);
    } else {
      words.push_back([text = word.text()](const ExportRequest&) { return Value(text); });
    }
  }
  return [words](const ExportRequest& h) {
    return transformed(words, [&](const auto& word) { return text_in(word(h)); });
  };
}

Launch read_launch(const Node& node) {
  static constexpr io::Choice<Starter> kStarters[] = {{"torchrun", Starter::Torchrun},
                                                      {"accelerate", Starter::Accelerate},
                                                      {"jax", Starter::Jax},
                                                      {"ray", Starter::Ray}};
  Launch launch;
  io::Fields(node).take("starter", launch.starter, kStarters);
  const Node script = node.at("script");
  if (script.is_map())
    launch.program = [value = read_row({}, script, {}).value](const ExportRequest& h) {
      return text_in(value(h));
    };
  else
    launch.script = script.text();
  launch.arguments = node.at("arguments").text();
  if (const auto variables = node.find("environment")) {
    for (const Node::Entry& entry : variables->entries())
      launch.environment.push_back(read_variable(entry));
  }
  if (const auto trial = node.find("trial")) launch.trial = read_trial(*trial);
  return launch;
}

/// Words, words on a condition, or a fact that is the words.
std::function<std::vector<std::string>(const ExportRequest&)> read_notes(const Node& list) {
  struct Note {
    const Fact* fact;  ///< null: always
    std::string words;
  };
  std::vector<Note> notes;
  for (const Node& node : list.items()) {
    if (node.is_map()) {
      const auto words = node.find("words");
      notes.push_back({&fact_at(node.at(words ? "when" : "fact")), words ? words->text() : ""});
    } else {
      notes.push_back({nullptr, node.text()});
    }
  }
  return [notes](const ExportRequest& h) {
    std::vector<std::string> texts;
    for (const Note& note : notes) {
      if (note.fact == nullptr || (!note.words.empty() && holds(*note.fact, h))) {
        texts.push_back(note.words);
      } else if (note.words.empty()) {
        if (const Value words = note.fact->write(h); !words.is_null())
          texts.push_back(text_in(words));
      }
    }
    return texts;
  };
}

std::vector<Conflict> read_conflicts(const Node& map) {
  std::vector<Conflict> conflicts;
  for (const Node::Entry& entry : map.entries()) {
    const Fact& fact = fact_called(entry.key, entry.value);
    conflicts.push_back(
        {entry.value.text(), [&fact](const ExportRequest& h) { return holds(fact, h); }});
  }
  return conflicts;
}

std::vector<Trait> read_lacks(const Node& list) {
  std::vector<Trait> traits;
  for (const Node& node : list.items()) {
    const std::vector<Trait> found = traits_called(node.text());
    if (found.empty())
      node.fail(fmt::format("'{}' is not a trait of networks", node.text()),
                nearest(node.text(), trait_names()));
    traits.insert(traits.end(), found.begin(), found.end());
  }
  return traits;
}

/// The values of facts that no key says are read as if a file said them.
void read_start(const Node& root, Exporter& exporter) {
  const auto reads = root.find("reads");
  if (!reads) return;
  const Reader* reader = find_reader(reads->text());
  if (reader == nullptr)
    reads->fail(fmt::format("'{}' is not a reader", reads->text()),
                nearest(reads->text(), reader_names()));
  std::vector<std::pair<const Fact*, Value>> unsaid;
  if (const auto map = root.find("unsaid")) {
    for (const Node::Entry& entry : map->entries()) {
      unsaid.emplace_back(&fact_called(entry.key, entry.value), value_of(entry.value.raw()));
      entry.value.ignore();
    }
  }
  exporter.start = [reader, unsaid](Reading& r) {
    reader->start(r);
    for (const auto& [fact, value] : unsaid) read_spelled(*fact, {}, r, value);
  };
  exporter.settle = reader->settle;
}

Exporter read_exporter(const Node& root) {
  io::require_schema(root, "plansearch/export/v1");
  Exporter exporter;
  exporter.title = root.at("title").text();
  exporter.checked = root.at("checked").text();
  if (const auto aliases = root.find("aliases")) exporter.aliases = aliases->texts();
  if (const auto framework = root.find("framework")) exporter.framework = framework->text();
  io::Fields(root).take("traces", exporter.traces, &Node::boolean);
  io::Fields(root).take("freezes_towers", exporter.freezes_towers, &Node::boolean);
  if (!exporter.traces) {
    exporter.accepts = read_accepts(root.at("accepts"));
    for (const Node& node : root.at("documents").items())
      exporter.documents.push_back(read_document(node));
    exporter.launch = read_launch(root.at("launch"));
  }
  if (const auto degrees = root.find("by_stage")) {
    for (const std::string& degree : degrees->texts())
      exporter.by_stage.insert(static_cast<Degree>(setting_called(degree, *degrees)));
  }
  if (const auto lacks = root.find("lacks")) exporter.lacks = read_lacks(*lacks);
  if (const auto conflicts = root.find("conflicts"))
    exporter.conflicts = read_conflicts(*conflicts);
  if (const auto notes = root.find("notes")) exporter.notes = read_notes(*notes);
  read_start(root, exporter);
  root.finish();
  return exporter;
}

}  // namespace

Exporter read_target(const std::filesystem::path& file) {
  const io::Document document = io::Document::read(file);
  Exporter exporter = document.collect(read_exporter);
  exporter.name = file.stem().string();
  return exporter;
}

}  // namespace plansearch::exporters
