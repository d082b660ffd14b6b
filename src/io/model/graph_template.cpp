// SPDX-License-Identifier: Apache-2.0
// Networks other than stacks of equal layers: a family names a graph file of one of them and says
// which dimensions and copies of blocks the keys of a configuration are.
#include <fmt/format.h>

#include "base/names.hpp"
#include "io/document/raw_value.hpp"
#include "io/model/family_file.hpp"
#include "io/model/graph/graph_words.hpp"

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

}  // namespace

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
