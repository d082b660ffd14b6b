// SPDX-License-Identifier: Apache-2.0
#include "io/import/import_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/hash.hpp"
#include "io/import/exported_program.hpp"
#include "io/import/graph_text.hpp"
#include "io/import/operator_rows.hpp"
#include "io/raw_value.hpp"

namespace plansearch::io {
namespace {

constexpr std::string_view kNamespace = "aten.";

const ImportedRow* find_row(const std::string& kind) {
  if (!kind.starts_with(kNamespace)) return nullptr;
  const std::string_view name = std::string_view(kind).substr(kNamespace.size());
  const auto rows = aten_rows();
  const auto found = std::lower_bound(
      rows.begin(), rows.end(), name,
      [](const ImportedRow& row, std::string_view wanted) { return row.name < wanted; });
  return found != rows.end() && found->name == name ? &*found : nullptr;
}

/// Operators without a row: how many, and where the first one stands.
struct UnknownOperator {
  std::size_t count = 0;
  const ImportedNode* first = nullptr;
};

class Importer {
 public:
  explicit Importer(const ImportedGraph& graph) : graph_(graph), lowering_(graph) {}

  Draft run() {
    for (const ImportedNode& node : graph_.nodes) {
      try {
        lower(node);
      } catch (const InputError&) {
        // What an unknown operator makes may be what is wrong here.
        if (unknown_.empty()) throw;
      }
    }
    if (!unknown_.empty()) refuse();
    return lowering_.finish();
  }

 private:
  void lower(const ImportedNode& node) {
    if (node.outputs.empty()) return;
    if (const ImportedRow* row = find_row(node.kind)) {
      row->lower(lowering_, node, *row);
      return;
    }
    const auto ids = Lowering::inputs(node);
    const bool plain = std::all_of(ids.begin(), ids.end(), [&](ImportedId id) {
      return lowering_.at(id).is == DraftValue::Is::Plain;
    });
    if (!plain) {
      UnknownOperator& unknown = unknown_[node.target];
      if (unknown.count++ == 0) unknown.first = &node;
    }
    lower_nothing(lowering_, node, {});
  }

  [[noreturn]] void refuse() const {
    std::vector<InputError> errors;
    for (const auto& [target, unknown] : unknown_) {
      std::string shapes;
      for (const ImportedId id : Lowering::inputs(*unknown.first)) {
        shapes += (shapes.empty() ? "" : ", ") + to_text(graph_.values[id].shape);
      }
      std::string made;
      for (const ImportedId id : unknown.first->outputs) {
        made += (made.empty() ? "" : ", ") + to_text(graph_.values[id].shape);
      }
      const std::string& module = unknown.first->module;
      errors.emplace_back(
          SourceLocation{graph_.file, 0, 0},
          fmt::format("unknown operator {}, {} of them, the first in {}: {} -> {}", target,
                      unknown.count, module.empty() ? "the network itself" : module, shapes, made));
    }
    throw InputErrors(std::move(errors));
  }

  const ImportedGraph& graph_;
  Lowering lowering_;
  std::map<std::string, UnknownOperator> unknown_;
};

}  // namespace

bool is_import(const std::filesystem::path& path) {
  return path.extension() == ".pt2";
}

Document read_import(const std::filesystem::path& path) {
  auto in = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*in) {
    throw InputError({path.string(), 0, 0}, "the file cannot be opened", "check the path");
  }
  ImportedGraph graph = read_exported_program(std::move(in), path.string());
  graph.name = path.stem().string();
  return graph_document(graph);
}

Document graph_document(const ImportedGraph& graph) {
  const std::string text = graph_text(graph, Importer(graph).run());
  return Document::parse(text, graph.file, Syntax::Json,
                         {.size = std::size_t{64} << 20U, .values = 4'000'000, .depth = 64});
}

}  // namespace plansearch::io
