// SPDX-License-Identifier: Apache-2.0
#include "exchange/networks/import_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "exchange/networks/graph_text.hpp"
#include "io/model/model_reader.hpp"

namespace plansearch::io {
namespace {

constexpr std::size_t kLargestOnnx = std::size_t{2} << 30U;  // a protocol buffer has no more

/// Operators without a row: how many, and where the first one stands.
struct UnknownOperator {
  std::size_t count = 0;
  const ImportedNode* first = nullptr;
};

class Importer {
 public:
  Importer(const ImportedGraph& graph, const ImportedRows& rows, const ImportedStubs& stubs)
      : graph_(graph), rows_(rows), stubs_(stubs), lowering_(graph) {}

  Draft run() {
    for (const ImportedNode& node : graph_.nodes) {
      try {
        lower(node);
      } catch (const InputError&) {
        // The result of an unknown operator may cause this error.
        if (unknown_.empty()) throw;
      }
    }
    if (!unknown_.empty()) refuse();
    refuse_idle_stubs();
    return lowering_.finish();
  }

 private:
  void lower(const ImportedNode& node) {
    if (node.outputs.empty()) return;
    if (lacks_shapes(node)) return;
    const auto stub = stubs_.find(node.target);
    const auto known = rows_.find(stub == stubs_.end() ? node.kind : stub->second.like);
    if (known != rows_.end()) {
      const ImportedRow& row = known->second;
      return row.lower(lowering_, node.kind.starts_with(kOnnx) ? named_arguments(node, row) : node,
                       row);
    }
    const auto ids = Lowering::inputs(node);
    const bool plain = std::ranges::all_of(
        ids, [&](ImportedId id) { return lowering_.at(id).is == DraftValue::Is::Plain; });
    if (!plain) {
      UnknownOperator& unknown = unknown_[node.target];
      if (unknown.count++ == 0) unknown.first = &node;
    }
    lower_nothing(lowering_, node, {});
  }

  /// Shapes of constants do not matter.
  bool lacks_shapes(const ImportedNode& node) {
    const auto unshaped = [&](ImportedId id) { return !graph_.values[id].shaped; };
    if (std::ranges::none_of(node.outputs, unshaped)) return false;
    const auto ids = Lowering::inputs(node);
    if (std::ranges::any_of(ids, [&](ImportedId id) {
          return lowering_.at(id).is != DraftValue::Is::Plain && graph_.values[id].floating;
        })) {
      graph_.fail(fmt::format("'{}' has no shape ({} in {})",
                              printable(graph_.values[node.outputs.front()].name, 40), node.target,
                              node.module.empty() ? "the network itself" : node.module),
                  "write shapes in with onnx.shape_inference.infer_shapes");
    }
    lower_nothing(lowering_, node, {});
    return true;
  }

  /// Refuses stubs that match no operator: a misspelled name would have no effect otherwise.
  void refuse_idle_stubs() const {
    std::vector<std::string> targets = transformed(graph_.nodes, &ImportedNode::target);
    std::vector<InputError> errors;
    for (const auto& [name, stub] : stubs_) {
      if (contains(targets, name)) continue;
      const std::string guess = did_you_mean(name, targets);
      errors.emplace_back(stub.where, fmt::format("{} has no operator '{}'", graph_.file, name),
                          guess.empty() ? "leave the entry out" : guess);
    }
    if (!errors.empty()) throw InputErrors(std::move(errors));
  }

  [[noreturn]] void refuse() const {
    std::vector<InputError> errors;
    std::vector<std::string> stubs;
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
                      unknown.count, module.empty() ? "the network itself" : module, shapes, made),
          fmt::format("its stub: \"{}\": {{like: pass}}", target));
      stubs.push_back(fmt::format("\"{}\": {{like: pass}}", target));
    }
    errors.back() = InputError(
        errors.back().where(), errors.back().what(),
        fmt::format(
            "say in a file stubs.yaml what each is like (aten.gelu, ...; pass: reads and writes "
            "everything once): {{schema: {}, operators: {{{}}}}}; then add --operators stubs.yaml",
            kStubSchema, fmt::join(stubs, ", ")));
    throw InputErrors(std::move(errors));
  }

  const ImportedGraph& graph_;
  const ImportedRows& rows_;
  const ImportedStubs& stubs_;
  Lowering lowering_;
  std::map<std::string, UnknownOperator> unknown_;
};

}  // namespace

Document read_import(const std::filesystem::path& path, const std::filesystem::path& stub_file,
                     const std::filesystem::path& families) {
  const ImportedRows rows = read_rows(families);
  const ImportedStubs stubs =
      stub_file.empty() ? ImportedStubs() : read_stubs(Document::read(stub_file), rows);
  if (path.extension() == ".onnx") {
    ImportedGraph graph = parse_onnx(read_file(path, kLargestOnnx), path.string());
    graph.name = path.stem().string();
    return graph_document(graph, rows, stubs);
  }
  auto in = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*in) throw InputError({path.string(), 0, 0}, "the file cannot be opened", "check the path");
  ImportedGraph graph = read_exported_program(std::move(in), path.string());
  graph.name = path.stem().string();
  return graph_document(graph, rows, stubs);
}

Document graph_document(const ImportedGraph& graph, const ImportedRows& rows,
                        const ImportedStubs& stubs) {
  const std::string text = graph_text(graph, Importer(graph, rows, stubs).run());
  return Document::parse(text, graph.file, Syntax::Json,
                         {.size = std::size_t{64} << 20U, .values = 4'000'000, .depth = 64});
}

ImportedStubs read_stubs(const Document& document, const ImportedRows& rows) {
  return document.collect([&](const Node& root) {
    require_schema(root, kStubSchema, "a file of stubs");
    ImportedStubs stubs;
    for (const Node::Entry& entry : root.at("operators").entries()) {
      const Node like = entry.value.at("like");
      if (!rows.contains(like.text())) {
        std::vector<std::string> names;
        for (const auto& [kind, row] : rows) names.push_back(kind);
        std::string hint = did_you_mean(like.text(), names);
        if (hint.empty())
          hint = "pass, nothing, or an operator with its library, such as aten.gelu";
        like.report(fmt::format("unknown operator '{}'", like.text()), hint);
      }
      stubs.emplace(entry.key, ImportedStub{like.text(), like.where()});
    }
    root.finish();
    return stubs;
  });
}

}  // namespace plansearch::io
