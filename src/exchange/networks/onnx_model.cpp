// SPDX-License-Identifier: Apache-2.0
#include "exchange/networks/imported_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <unordered_map>

#include "base/names.hpp"
#include "exchange/networks/wire_reader.hpp"

namespace plansearch::io {
namespace {

constexpr std::size_t kLongestList = 64;  // of whole numbers that are arguments
constexpr std::int64_t kOldestSet = 11;
constexpr std::int64_t kNewestSet = 25;

/// onnx.TensorProto.DataType
bool is_floating(std::int64_t type) {
  return type == 1 || type == 10 || type == 11 || (type >= 14 && type <= 20) || type == 23;
}

/// The treatment of a symbol in place of an extent. Among the network's inputs it makes plans
/// impossible; inside, it may be an extent that was never inferred.
enum class Symbols { Refused, Unknown };

/// A TensorProto, without its data.
struct OnnxTensor {
  std::string name;
  ImportedShape shape;
  std::int64_t type = 0;
  std::optional<std::vector<std::int64_t>> numbers;  ///< of short lists of int64
};

class OnnxReader {
 public:
  OnnxReader(std::string_view bytes, const std::string& file) : bytes_(bytes) {
    graph_.file = file;
  }

  ImportedGraph run() {
    std::string_view graph;
    std::string producer;
    WireReader model(bytes_);
    while (const auto field = model.next()) {
      if (field->number == 2) producer = printable(field->bytes, 40);
      if (field->number == 7 && field->is_bytes) graph = field->bytes;
      if (field->number == 8) read_operator_set(field->bytes);
    }
    if (model.damaged() || graph.empty()) {
      graph_.fail("not an ONNX model: no graph is found",
                  "write it with torch.onnx.export or onnx.save; is the file truncated?");
    }
    if (set_ < kOldestSet || set_ > kNewestSet) {
      graph_.fail(
          fmt::format("operator set {} is not known; {} to {} are", set_, kOldestSet, kNewestSet),
          "export it with another opset_version");
    }
    graph_.source = fmt::format("ONNX, operator set {}, {}", set_, producer);
    read_graph(graph);
    return std::move(graph_);
  }

 private:
  void check(const WireReader& reader, std::string_view what) const {
    if (reader.damaged()) graph_.fail(fmt::format("{} is damaged", what), "is the file truncated?");
  }

  void read_operator_set(std::string_view bytes) {
    WireReader reader(bytes);
    std::string domain;
    std::int64_t version = 0;
    while (const auto field = reader.next()) {
      if (field->number == 1) domain = field->bytes;
      if (field->number == 2) version = static_cast<std::int64_t>(field->value);
    }
    if (domain.empty() || domain == "ai.onnx") set_ = version;
  }

  void read_graph(std::string_view bytes) {
    std::vector<std::string_view> nodes;
    std::vector<std::string_view> inputs;
    std::vector<std::string_view> outputs;
    WireReader reader(bytes);
    while (const auto field = reader.next()) {
      if (field->number == 1) nodes.push_back(field->bytes);
      if (field->number == 5) read_initializer(field->bytes);
      if (field->number == 11) inputs.push_back(field->bytes);
      if (field->number == 12) outputs.push_back(field->bytes);
      if (field->number == 13) read_value(field->bytes);
    }
    check(reader, "the graph");
    for (const std::string_view input : inputs) {
      const auto id = read_value(input, Symbols::Refused);
      if (id && graph_.values[*id].origin == ValueOrigin::Operator) {
        graph_.values[*id].origin = ValueOrigin::Input;
      }
    }
    std::vector<ImportedId> results;
    for (const std::string_view output : outputs) {
      if (const auto id = read_value(output)) results.push_back(*id);
    }
    for (const std::string_view node : nodes) read_node(node);
    graph_.outputs = std::move(results);
  }

  ImportedId value_named(const std::string& name) {
    const auto [known, is_new] = ids_.try_emplace(name, graph_.values.size());
    if (is_new) {
      graph_.values.emplace_back().name = name;
      graph_.values.back().shaped = false;
    }
    return known->second;
  }

  void take_shape(ImportedId id, ImportedShape shape, bool floating) {
    ImportedValue& value = graph_.values[id];
    double elements = 1.0;
    // Empty lists of numbers are arguments that are left out.
    if (!floating && std::ranges::count(shape, 0) > 0) shape = {1};
    for (const std::int64_t extent : shape) {
      if (extent < 1 || extent > kLongestAxis) {
        graph_.fail(fmt::format("'{}' has an extent of {}", printable(value.name, 40), extent),
                    "every dimension has at least one place");
      }
      elements *= static_cast<double>(extent);
    }
    if (elements > kMostElements || shape.size() > kMostRank) {
      graph_.fail(fmt::format("'{}' is too large", printable(value.name, 40)));
    }
    value.shape = std::move(shape);
    value.floating = floating;
    value.shaped = true;
  }

  [[nodiscard]] OnnxTensor read_tensor(std::string_view bytes) const {
    OnnxTensor tensor;
    std::vector<std::int64_t> numbers;
    std::string_view raw;
    WireReader reader(bytes);
    while (const auto field = reader.next()) {
      if (field->number == 1 && !append_numbers(*field, tensor.shape)) break;
      if (field->number == 2) tensor.type = static_cast<std::int64_t>(field->value);
      if (field->number == 7 && field->bytes.size() <= 10 * kLongestList) {
        static_cast<void>(append_numbers(*field, numbers));
      }
      if (field->number == 8) tensor.name = field->bytes;
      if (field->number == 9) raw = field->bytes;
    }
    check(reader, "a tensor");
    constexpr std::int64_t kInt64 = 7;
    if (tensor.type != kInt64 || tensor.shape.size() > 1) return tensor;
    if (raw.size() % 8 == 0 && raw.size() <= 8 * kLongestList) {
      for (std::size_t at = 0; at < raw.size(); at += 8) {
        numbers.push_back(static_cast<std::int64_t>(little_endian(raw.substr(at, 8))));
      }
    }
    const std::size_t count =
        tensor.shape.empty() ? 1
                             : static_cast<std::size_t>(std::max<std::int64_t>(0, tensor.shape[0]));
    if (numbers.size() == count) tensor.numbers = std::move(numbers);
    return tensor;
  }

  /// Weights are parameters; single numbers and lists of whole numbers are not.
  void read_initializer(std::string_view bytes) {
    const OnnxTensor tensor = read_tensor(bytes);
    if (tensor.name.empty()) graph_.fail("an initializer has no name");
    const ImportedId id = value_named(tensor.name);
    if (tensor.numbers) numbers_[id] = *tensor.numbers;
    take_shape(id, tensor.shape, is_floating(tensor.type));
    const std::int64_t elements = element_total(tensor.shape);
    graph_.values[id].origin =
        is_floating(tensor.type) && elements > 1 ? ValueOrigin::Parameter : ValueOrigin::Constant;
  }

  static std::int64_t element_total(const ImportedShape& shape) {
    std::int64_t total = 1;
    for (const std::int64_t extent : shape) total *= extent;
    return total;
  }

  /// A ValueInfoProto: name and shape of a tensor.
  std::optional<ImportedId> read_value(std::string_view bytes, Symbols symbols = Symbols::Unknown) {
    std::string name;
    std::string_view type;
    WireReader reader(bytes);
    while (const auto field = reader.next()) {
      if (field->number == 1) name = field->bytes;
      if (field->number == 2) type = field->bytes;
    }
    check(reader, "a description of a tensor");
    if (name.empty()) return std::nullopt;
    const ImportedId id = value_named(name);
    WireReader types(type);
    while (const auto field = types.next()) {
      if (field->number == 1 && field->is_bytes) read_tensor_type(id, field->bytes, symbols);
    }
    check(types, "a description of a tensor");
    return id;
  }

  void read_tensor_type(ImportedId id, std::string_view bytes, Symbols symbols) {
    std::int64_t element = 0;
    std::optional<std::string_view> shape;
    WireReader reader(bytes);
    while (const auto field = reader.next()) {
      if (field->number == 1) element = static_cast<std::int64_t>(field->value);
      if (field->number == 2) shape = field->bytes;
    }
    check(reader, "a description of a tensor");
    if (!shape) return;
    ImportedShape extents;
    WireReader dims(*shape);
    while (const auto field = dims.next()) {
      if (field->number != 1) continue;
      const auto extent = read_extent(id, field->bytes, symbols);
      if (!extent) return;
      extents.push_back(*extent);
    }
    check(dims, "a shape");
    take_shape(id, std::move(extents), is_floating(element));
  }

  [[nodiscard]] std::optional<std::int64_t> read_extent(ImportedId id, std::string_view bytes,
                                                        Symbols symbols) const {
    std::optional<std::int64_t> extent;
    std::string symbol = "?";
    WireReader reader(bytes);
    while (const auto field = reader.next()) {
      if (field->number == 1) extent = static_cast<std::int64_t>(field->value);
      if (field->number == 2) symbol = field->bytes;
    }
    if (extent || symbols == Symbols::Unknown) return extent;
    graph_.fail(fmt::format("the shape of '{}' depends on '{}'",
                            printable(graph_.values[id].name, 40), printable(symbol, 40)),
                "export it without dynamic_axes or dynamic_shapes: plans need every extent");
  }

  void read_node(std::string_view bytes) {
    ImportedNode node;
    std::string name;
    std::string domain;
    std::string scopes;
    std::vector<std::string> inputs;
    WireReader reader(bytes);
    while (const auto field = reader.next()) {
      if (field->number == 1) inputs.emplace_back(field->bytes);
      if (field->number == 2) read_output(node, std::string(field->bytes));
      if (field->number == 3) name = field->bytes;
      if (field->number == 4) node.target = printable(field->bytes, 100);
      if (field->number == 5) read_attribute(node, field->bytes);
      if (field->number == 7) domain = printable(field->bytes, 100);
      if (field->number == 9) read_property(field->bytes, scopes);
    }
    check(reader, "an operator");
    node.kind = "onnx." + node.target;
    if (!domain.empty() && domain != "ai.onnx") node.kind = domain + "." + node.target;
    node.target = node.kind;
    node.module = scopes.empty() ? path_of(name) : path_of_scopes(scopes);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].empty()) continue;
      const ImportedId id = value_named(inputs[i]);
      const ImportedValue& value = graph_.values[id];
      if (value.origin == ValueOrigin::Operator && !made_.contains(id)) {
        graph_.fail(fmt::format("'{}' is read before it is made", printable(value.name, 40)),
                    "operators stand in an order in which they can run");
      }
      node.arguments.emplace_back(fmt::format("{}", i), id);
      const auto known = numbers_.find(id);
      if (known != numbers_.end()) {
        node.arguments.emplace_back(fmt::format("numbers{}", i), known->second);
      }
    }
    if (constant_ && node.outputs.size() == 1) {
      const ImportedId id = node.outputs.front();
      if (constant_->numbers) numbers_[id] = *constant_->numbers;
      take_shape(id, constant_->shape, is_floating(constant_->type));
    }
    constant_.reset();
    graph_.nodes.push_back(std::move(node));
  }

  void read_output(ImportedNode& node, const std::string& name) {
    if (name.empty()) return;
    const ImportedId id = value_named(name);
    if (graph_.values[id].origin != ValueOrigin::Operator || !made_.insert(id).second) {
      graph_.fail(fmt::format("'{}' is made twice", printable(name, 40)));
    }
    node.outputs.push_back(id);
  }

  void read_attribute(ImportedNode& node, std::string_view bytes) {
    std::string name;
    ImportedArgument value;
    std::vector<std::int64_t> list;
    bool is_list = false;
    WireReader reader(bytes);
    while (const auto field = reader.next()) {
      switch (field->number) {
        case 1:
          name = field->bytes;
          break;
        case 2:
          value =
              static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(field->value)));
          break;
        case 3:
          value = static_cast<std::int64_t>(field->value);
          break;
        case 4:
          value = printable(field->bytes, 100);
          break;
        case 5:
          constant_ = read_tensor(field->bytes);
          break;
        case 6:
          graph_.fail("it has control flow (a graph inside a graph)",
                      "export a module without branches and loops over tensors");
        case 8:
          is_list = true;
          static_cast<void>(append_numbers(*field, list));
          break;
        default:
          break;
      }
    }
    check(reader, "an attribute");
    if (is_list) value = std::move(list);
    if (!name.empty()) node.arguments.emplace_back(std::move(name), std::move(value));
  }

  static void read_property(std::string_view bytes, std::string& scopes) {
    std::string key;
    std::string value;
    WireReader reader(bytes);
    while (const auto field = reader.next()) {
      if (field->number == 1) key = field->bytes;
      if (field->number == 2) value = field->bytes;
    }
    if (key == "pkg.torch.onnx.name_scopes") scopes = value;
  }

  /// "['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d_1']": the last one names the operator.
  static std::string path_of_scopes(const std::string& scopes) {
    std::vector<std::string> paths;
    for (std::size_t open = scopes.find('\''); open != std::string::npos;) {
      const std::size_t close = scopes.find('\'', open + 1);
      if (close == std::string::npos) break;
      paths.push_back(scopes.substr(open + 1, close - open - 1));
      open = scopes.find('\'', close + 1);
    }
    return paths.size() < 2 ? std::string() : paths[paths.size() - 2];
  }

  /// "/layer1/layer1.0/conv1/Conv": "layer1.0.conv1".
  static std::string path_of(const std::string& name) {
    std::string path;
    std::size_t begin = name.empty() || name.front() != '/' ? std::string::npos : 1;
    while (begin != std::string::npos) {
      const std::size_t end = name.find('/', begin);
      if (end == std::string::npos) break;
      const std::string part = name.substr(begin, end - begin);
      path = path.empty() || part.starts_with(path + ".") ? part : path + "." + part;
      begin = end + 1;
    }
    return path;
  }

  std::string_view bytes_;
  ImportedGraph graph_;
  std::int64_t set_ = 0;
  std::unordered_map<std::string, ImportedId> ids_;
  std::unordered_map<ImportedId, std::vector<std::int64_t>> numbers_;
  std::optional<OnnxTensor> constant_;  ///< of the node that is being read
  std::set<ImportedId> made_;
};

}  // namespace

ImportedGraph parse_onnx(std::string_view bytes, const std::string& file) {
  return OnnxReader(bytes, file).run();
}

}  // namespace plansearch::io
