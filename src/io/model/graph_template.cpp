// SPDX-License-Identifier: Apache-2.0
// Networks other than stacks of equal layers: a family names a graph file of one of them and says
// which dimensions and copies of blocks the keys of a configuration are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "io/document/raw_value.hpp"
#include "io/model/family_file.hpp"
#include "io/model/graph/block_reader.hpp"
#include "io/model/graph/graph_words.hpp"
#include "io/model/model_sections.hpp"
#include "io/plan/plan_document.hpp"

namespace plansearch::io {
namespace {

[[noreturn]] void refuse(const RawEntry& entry, const std::string& what,
                         const std::vector<std::string>& known) {
  throw InputError({entry.value.file ? *entry.value.file : std::string(), entry.line, entry.column},
                   fmt::format("the graph has no {} '{}'", what, entry.key),
                   did_you_mean(entry.key, known));
}

void set_extent(RawValue& dims, const RawEntry& size) {
  RawValue* dim = value_under(dims, size.key);
  if (dim == nullptr) {
    std::vector<std::string> known;
    for (const RawEntry& entry : dims.entries) known.push_back(entry.key);
    refuse(size, "dimension", known);
  }
  RawValue* extent = dim->kind == RawKind::Map ? value_under(*dim, "extent") : nullptr;
  (extent != nullptr ? *extent : *dim) = size.value;
}

void set_copies(RawValue& order, const RawEntry& copies) {
  std::vector<std::string> known;
  for (RawValue& item : order.items) {
    RawValue* block = value_under(item, "block");
    RawValue* count = value_under(item, "copies");
    if (block == nullptr || count == nullptr) continue;
    known.push_back(block->text);
    if (known.back() != copies.key) continue;
    *count = copies.value;
    return;
  }
  refuse(copies, "block with copies", known);
}

/// A value on one line, as YAML and JSON write it.
std::string flow_text(const RawValue& value) {
  std::vector<std::string> parts;
  switch (value.kind) {
    case RawKind::Null:
      return "null";
    case RawKind::Plain:
      return value.text;
    case RawKind::Quoted:
      return in_quotes(value.text);
    case RawKind::List:
      for (const RawValue& item : value.items) parts.push_back(flow_text(item));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    case RawKind::Map:
      for (const RawEntry& entry : value.entries)
        parts.push_back(fmt::format("{}: {}", in_quotes(entry.key), flow_text(entry.value)));
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  throw InternalError("unknown kind of value");
}

}  // namespace

std::optional<TowerDescription> read_tower(const Node& config, std::int64_t hidden,
                                           const std::filesystem::path& families,
                                           std::vector<std::string>& unknown) {
  const auto type = config.find("model_type");
  if (!type || !type->is_scalar()) return std::nullopt;
  const std::string name = type->text();
  const std::filesystem::path folder = families / "towers";
  const std::vector<std::string> known = known_families(folder);
  config.ignore();
  if (std::ranges::find(known, name) == known.end()) return std::nullopt;
  const Document rules = read_family(name, folder, *type);
  const HfKeys keys(config, rules.root().find("defaults"));
  RawValue graph = filled_template(rules.root(), keys, name);
  set_extent(*value_under(graph, "dims"),
             {"out", 1, 1, value_at(graph, RawKind::Plain, fmt::format("{}", hidden))});
  graph.entries.push_back({"name", 1, 1, value_at(graph, RawKind::Quoted, name)});
  const Document made = Document::made(std::move(graph), 0, config.where().file);
  TowerDescription tower{flow_text(config.raw()), read_graph(made.root()).graph};
  made.root().finish();
  for (const std::string& key : unknown_keys(rules.root(), keys)) {
    if (key != "model_type") unknown.push_back("vision_config." + key);
  }
  return tower;
}

RawValue filled_template(const Node& rules, const HfKeys& keys, const std::string& family) {
  const Node path = rules.at("graph");
  const Document document = Document::read(path.text());
  require_schema(document.root(), kGraphSchema, "a graph file");
  RawValue graph = document.raw();
  std::erase_if(graph.entries, [](const RawEntry& entry) {
    return entry.key == "schema" || entry.key == "name" || entry.key == "source" ||
           entry.key == "aliases" || entry.key == "parameters";
  });
  RawValue* dims = value_under(graph, "dims");
  RawValue* order = value_under(graph, "order");
  if (dims == nullptr || order == nullptr) path.fail("the graph has no dims, or no order");
  for (const RawEntry& size : apply_family(rules, keys, family, "dims").entries) {
    set_extent(*dims, size);
  }
  if (rules.find("copies")) {
    for (const RawEntry& copies : apply_family(rules, keys, family, "copies").entries) {
      set_copies(*order, copies);
    }
  }
  if (const auto own = keys.root().find("dims"); own && own->is_map()) {
    for (const RawEntry& size : own->raw().entries) set_extent(*dims, size);
  }
  if (const auto tokens = keys.root().find("seq_len"); tokens && is_set_place(tokens->where())) {
    graph.entries.push_back(
        {"seq_len", tokens->where().line, tokens->where().column, tokens->raw()});
  }
  return graph;
}

}  // namespace plansearch::io
