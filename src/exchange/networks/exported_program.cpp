// SPDX-License-Identifier: Apache-2.0
// The schema of the JSON: pytorch/pytorch torch/_export/serde/schema.py, versions 5 to 8.
#include "base/units.hpp"
#include "exchange/networks/imported_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "exchange/networks/zip_archive.hpp"
#include "io/document/raw_value.hpp"

namespace plansearch::io {
namespace {

constexpr std::size_t kLargestGraph = std::size_t{192} << 20U;
constexpr std::size_t kMostValues = 3'000'000;
constexpr std::int64_t kOldestSchema = 5;
constexpr std::int64_t kNewestSchema = 8;
/// torch._export.serde.schema.ScalarType: HALF to COMPLEXDOUBLE, BFLOAT16, and those of 8 bits.
bool is_floating(std::int64_t type) {
  return (type >= 6 && type <= 11) || type == 13 || type >= 29;
}

class ProgramReader {
 public:
  ProgramReader(const RawValue& root, const std::string& file, const std::string& entry)
      : root_(root), entry_(entry) {
    graph_.file = file;
  }

  ImportedGraph run() {
    check_version();
    const RawValue& module = child(root_, "graph_module");
    const RawValue& graph = child(module, "graph");
    for (const char* symbols : {"sym_int_values", "sym_bool_values", "sym_float_values"}) {
      const RawValue* found = find(graph, symbols);
      if (found != nullptr && !found->entries.empty()) dynamic(*found, found->entries.front().key);
    }
    for (const RawEntry& entry : child(graph, "tensor_values").entries) read_value(entry);
    read_inputs(child(child(module, "signature"), "input_specs"));
    for (const RawValue& node : child(graph, "nodes").items) read_node(node);
    read_outputs(child(child(module, "signature"), "output_specs"));
    drop_unread();
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(const RawValue& at, const std::string& what, std::string hint = {}) const {
    if (hint.empty()) hint = "write it anew with torch.export.save";
    throw InputError({graph_.file, 0, 0},
                     fmt::format("{}, character {}: {}", entry_, at.column, what), std::move(hint));
  }
  [[noreturn]] void dynamic(const RawValue& at, std::string_view symbol) const {
    fail(at, fmt::format("the shapes depend on '{}'", printable(symbol, 40)),
         "export the module without dynamic_shapes: plans need every extent");
  }

  static const RawValue* find(const RawValue& map, std::string_view key) {
    const RawValue* value = value_under(map, key);
    return value == nullptr || value->kind == RawKind::Null ? nullptr : value;
  }
  [[nodiscard]] const RawValue& child(const RawValue& map, std::string_view key) const {
    const RawValue* found = find(map, key);
    if (found == nullptr) fail(map, fmt::format("'{}' is missing", key));
    return *found;
  }
  [[nodiscard]] std::int64_t integer(const RawValue& value) const {
    const auto number = parse_as<std::int64_t>(value.text);
    if (!number) {
      fail(value, fmt::format("expected a whole number, not '{}'", printable(value.text, 40)));
    }
    return *number;
  }

  void check_version() {
    const RawValue& version = child(root_, "schema_version");
    const std::int64_t major = integer(child(version, "major"));
    if (major < kOldestSchema || major > kNewestSchema) {
      fail(version,
           fmt::format("schema version {} is not known; {} to {} are", major, kOldestSchema,
                       kNewestSchema),
           "export it with another version of PyTorch, or through ONNX");
    }
    const RawValue* torch = find(root_, "torch_version");
    graph_.source = "torch.export, PyTorch " + (torch == nullptr ? "" : printable(torch->text, 40));
  }

  /// A SymInt: {"as_int": 4}, or an expression.
  [[nodiscard]] std::int64_t extent(const RawValue& value) const {
    if (const RawValue* expression = find(value, "as_expr")) {
      const RawValue* text = find(*expression, "expr_str");
      dynamic(value, text == nullptr ? "?" : text->text);
    }
    return integer(child(value, "as_int"));
  }

  void read_value(const RawEntry& entry) {
    ImportedValue value;
    value.name = entry.key;
    value.floating = is_floating(integer(child(entry.value, "dtype")));
    const RawValue& sizes = child(entry.value, "sizes");
    double elements = 1.0;
    for (const RawValue& size : sizes.items) {
      value.shape.push_back(extent(size));
      if (value.shape.back() < 1 || value.shape.back() > kLongestAxis) {
        fail(size,
             fmt::format("'{}' has an extent of {}", printable(entry.key, 40), value.shape.back()),
             "every dimension has at least one place");
      }
      elements *= static_cast<double>(value.shape.back());
    }
    if (elements > kMostElements || value.shape.size() > kMostRank) {
      fail(sizes, fmt::format("'{}' is too large", printable(entry.key, 40)));
    }
    std::int64_t next = 1;
    const RawValue* strides = find(entry.value, "strides");
    const std::size_t rank = strides == nullptr ? 0 : strides->items.size();
    for (std::size_t i = rank; i-- > 0 && rank == value.shape.size();) {
      if (value.shape[i] > 1) value.contiguous &= extent(strides->items[i]) == next;
      next *= value.shape[i];
    }
    if (!ids_.emplace(value.name, graph_.values.size()).second) fail(entry.value, "named twice");
    graph_.values.push_back(std::move(value));
  }

  [[nodiscard]] ImportedId value_named(const RawValue& at, const std::string& name) const {
    const auto found = ids_.find(name);
    if (found == ids_.end()) fail(at, fmt::format("there is no tensor '{}'", printable(name, 40)));
    return found->second;
  }
  [[nodiscard]] ImportedId tensor(const RawValue& argument) const {
    if (argument.kind != RawKind::Map) return value_named(argument, argument.text);
    return value_named(argument, child(argument, "name").text);
  }

  void read_inputs(const RawValue& specs) {
    for (const RawValue& spec : specs.items) {
      if (const RawValue* parameter = find(spec, "parameter")) {
        ImportedValue& value = graph_.values[tensor(child(*parameter, "arg"))];
        value.origin = ValueOrigin::Parameter;
        value.name = child(*parameter, "parameter_name").text;
      } else if (const RawValue* input = find(spec, "user_input")) {
        const RawValue* given = find(child(*input, "arg"), "as_tensor");
        if (given != nullptr) graph_.values[tensor(*given)].origin = ValueOrigin::Input;
      } else {
        for (const char* kind : {"buffer", "tensor_constant"}) {
          const RawValue* constant = find(spec, kind);
          if (constant == nullptr) continue;
          graph_.values[tensor(child(*constant, "arg"))].origin = ValueOrigin::Constant;
        }
      }
    }
  }

  void read_outputs(const RawValue& specs) {
    for (const RawValue& spec : specs.items) {
      for (const char* kind : {"user_output", "loss_output"}) {
        const RawValue* output = find(spec, kind);
        if (output == nullptr) continue;
        const RawValue& argument = child(*output, "arg");
        const RawValue* given = find(argument, "as_tensor");
        if (given == nullptr && find(argument, "name") != nullptr) given = &argument;
        if (given != nullptr) graph_.outputs.push_back(tensor(*given));
      }
    }
  }

  /// "torch.ops.aten.add.Tensor" is a row "aten.add"; what runs in place ends in an underscore.
  static std::string kind_of(const std::string& target) {
    const std::size_t dot = target.rfind('.');
    std::string kind = target.substr(0, dot);
    if (std::ranges::count(kind, '.') == 0) return target;
    if (kind.size() > 2 && kind.back() == '_' && kind[kind.size() - 2] != '_') kind.pop_back();
    const std::size_t name = kind.rfind('.') + 1;
    if (kind.compare(name, 2, "__") == 0) {  // __and__
      kind = kind.substr(0, name) + "bitwise_" + kind.substr(name + 2, kind.size() - name - 4);
    }
    return kind;
  }

  void read_node(const RawValue& raw) {
    ImportedNode node;
    node.target = child(raw, "target").text;
    constexpr std::string_view kPrefix = "torch.ops.";
    if (node.target.starts_with(kPrefix)) node.target = node.target.substr(kPrefix.size());
    if (node.target.size() > 200) fail(raw, "an operator with a name of more than 200 letters");
    node.kind = kind_of(node.target);
    for (const RawValue& input : child(raw, "inputs").items) {
      node.arguments.emplace_back(child(input, "name").text, argument(child(input, "arg")));
    }
    for (const RawValue& output : child(raw, "outputs").items) {
      if (const RawValue* one = find(output, "as_tensor")) {
        node.outputs.push_back(tensor(*one));
      } else if (const RawValue* list = find(output, "as_tensors")) {
        for (const RawValue& item : list->items) node.outputs.push_back(tensor(item));
      }
    }
    for (const ImportedId id : node.outputs) {
      if (graph_.values[id].origin != ValueOrigin::Operator || !made_.insert(id).second) {
        fail(raw, fmt::format("'{}' is made twice", printable(graph_.values[id].name, 40)));
      }
    }
    if (const RawValue* metadata = find(raw, "metadata")) {
      if (const RawValue* stack = find(*metadata, "nn_module_stack")) {
        node.module = innermost(stack->text);
      }
    }
    graph_.nodes.push_back(std::move(node));
  }

  /// "key,path,type;key,path,type": the path of the last one. Keys and types hold no comma that is
  /// not inside brackets.
  static std::string innermost(const std::string& stack) {
    const std::size_t last = stack.rfind(';');
    const std::string entry = stack.substr(last == std::string::npos ? 0 : last + 1);
    const std::size_t first = entry.find(',');
    if (first == std::string::npos) return {};
    const std::size_t second = entry.find(',', first + 1);
    std::string path =
        entry.substr(first + 1, second == std::string::npos ? second : second - first - 1);
    for (const std::string_view root : {"L['self'].", "L__self__."}) {
      if (path.starts_with(root)) path = path.substr(root.size());
    }
    return path == "L['self']" || path == "L__self__" ? std::string() : path;
  }

  [[nodiscard]] ImportedArgument argument(const RawValue& value) const {
    if (value.entries.size() != 1) return {};
    const std::string& kind = value.entries.front().key;
    const RawValue& inner = value.entries.front().value;
    if (kind == "as_tensor") {
      const ImportedId id = tensor(inner);
      check_made(inner, id);
      return id;
    }
    if (kind == "as_tensors" || kind == "as_optional_tensors") return tensors(inner);
    if (kind == "as_optional_tensor") return argument(inner);
    if (kind == "as_int") return integer(inner);
    if (kind == "as_bool") return inner.text == "true";
    if (kind == "as_string") return inner.text;
    if (kind == "as_float") return number(inner);
    if (kind == "as_ints") {
      return transformed(inner.items, [&](const RawValue& item) { return integer(item); });
    }
    if (kind == "as_floats") {
      return transformed(inner.items, [&](const RawValue& item) { return number(item); });
    }
    if (kind == "as_sym_int" || kind == "as_sym_ints") return symbols(inner);
    if (kind == "as_graph") {
      fail(inner, "it has control flow (a graph inside a graph)",
           "export a module without torch.cond, map or scan");
    }
    return {};
  }

  /// Whole numbers that stand where symbols might.
  [[nodiscard]] ImportedArgument symbols(const RawValue& value) const {
    if (value.kind == RawKind::Map) {
      if (const RawValue* name = find(value, "as_name")) dynamic(value, name->text);
      return integer(child(value, "as_int"));
    }
    std::vector<std::int64_t> list;
    for (const RawValue& item : value.items) {
      if (const RawValue* name = find(item, "as_name")) dynamic(item, name->text);
      list.push_back(integer(child(item, "as_int")));
    }
    return list;
  }

  [[nodiscard]] ImportedArgument tensors(const RawValue& list) const {
    std::vector<std::optional<ImportedId>> ids;
    for (const RawValue& item : list.items) {
      const RawValue* named = find(item, "as_tensor");
      if (named == nullptr && find(item, "name") != nullptr) named = &item;
      if (named == nullptr) {
        ids.emplace_back();
        continue;
      }
      ids.emplace_back(tensor(*named));
      check_made(item, *ids.back());
    }
    return ids;
  }

  void check_made(const RawValue& at, ImportedId id) const {
    const ImportedValue& value = graph_.values[id];
    if (value.origin != ValueOrigin::Operator || made_.contains(id)) return;
    fail(at, fmt::format("'{}' is read before it is made", printable(value.name, 40)));
  }

  [[nodiscard]] static double number(const RawValue& value) {
    double result = 0.0;
    std::from_chars(value.text.data(), value.text.data() + value.text.size(), result);
    return result;
  }

  /// Parameters that nothing reads: those tied to others, and those of modules that did not run.
  void drop_unread() {
    std::vector<bool> read(graph_.values.size(), false);
    for (const ImportedNode& node : graph_.nodes) {
      for (const auto& [name, value] : node.arguments) {
        if (const auto* id = std::get_if<ImportedId>(&value)) read[*id] = true;
        if (const auto* list = std::get_if<std::vector<std::optional<ImportedId>>>(&value)) {
          for (const auto& id : *list) {
            if (id) read[*id] = true;
          }
        }
      }
    }
    for (ImportedId id = 0; id < read.size(); ++id) {
      if (graph_.values[id].origin == ValueOrigin::Parameter && !read[id])
        ++graph_.unread_parameters;
    }
  }

  const RawValue& root_;
  std::string entry_;
  ImportedGraph graph_;
  std::unordered_map<std::string, ImportedId> ids_;
  std::set<ImportedId> made_;
};

}  // namespace

ImportedGraph read_exported_program(std::unique_ptr<std::istream> in, const std::string& file) {
  const ZipArchive archive(std::move(in), file);
  const ZipEntry* entry = nullptr;
  for (const char* name : {"models/model.json", "serialized_exported_program.json"}) {
    if (entry == nullptr) entry = archive.find(name);
  }
  if (entry == nullptr) {
    for (const ZipEntry& other : archive.entries()) {
      const bool model = other.name.find("models/") != std::string::npos;
      if (entry == nullptr && model && other.name.ends_with(".json")) entry = &other;
    }
  }
  if (entry == nullptr) {
    throw InputError({file, 0, 0},
                     "the archive holds no exported program: neither models/model.json nor "
                     "serialized_exported_program.json",
                     "write it with torch.export.save(torch.export.export(module, inputs), FILE); "
                     "torch.save and torch.jit.save write other archives");
  }
  return parse_exported_program(archive.read(*entry, kLargestGraph), file, entry->name);
}

ImportedGraph parse_exported_program(std::string_view text, const std::string& file,
                                     const std::string& entry) {
  const RawValue root = parse_json(text, std::make_shared<const std::string>(file),
                                   {.size = kLargestGraph, .values = kMostValues, .depth = 64});
  return ProgramReader(root, file, entry).run();
}

}  // namespace plansearch::io
