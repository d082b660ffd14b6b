// SPDX-License-Identifier: Apache-2.0
// A network as other programs write it down: operators of theirs on tensors with shapes, before
// anybody knows what their dimensions mean.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plansearch/error.hpp"

namespace plansearch::io {

using ImportedId = std::size_t;  ///< of a value, by place in ImportedGraph::values
using ImportedShape = std::vector<std::int64_t>;

enum class ValueOrigin : std::uint8_t {
  Operator,
  Parameter,  ///< trained
  Constant,   ///< buffers, numbers in the file
  Input,      ///< of the network
};

struct ImportedValue {
  std::string name;
  ImportedShape shape;
  bool shaped = true;      ///< the file says its shape
  bool floating = true;    ///< else whole numbers or truth values
  bool contiguous = true;  ///< its elements lie row by row
  ValueOrigin origin = ValueOrigin::Operator;
};

/// An argument of an operator: values, numbers or words. Monostate: left out.
using ImportedArgument =
    std::variant<std::monostate, ImportedId, std::vector<std::optional<ImportedId>>, bool,
                 std::int64_t, double, std::vector<std::int64_t>, std::vector<double>, std::string>;

struct ImportedNode {
  std::string target;  ///< "aten.add.Tensor"
  std::string kind;    ///< name of its row: "aten.add"
  std::string module;  ///< path of the module that ran it: "transformer.h.0.attn"
  std::vector<std::pair<std::string, ImportedArgument>> arguments;
  std::vector<ImportedId> outputs;

  [[nodiscard]] const ImportedArgument* find(std::string_view name) const {
    for (const auto& [key, argument] : arguments) {
      if (key == name) return &argument;
    }
    return nullptr;
  }
  /// One of its arguments by name; its default where it is left out.
  template <typename T>
  [[nodiscard]] T get(std::string_view name, T usual) const {
    const ImportedArgument* found = find(name);
    const T* value = found == nullptr ? nullptr : std::get_if<T>(found);
    return value == nullptr ? usual : *value;
  }
  [[nodiscard]] std::optional<ImportedId> value(std::string_view name) const {
    const ImportedArgument* found = find(name);
    const ImportedId* id = found == nullptr ? nullptr : std::get_if<ImportedId>(found);
    return id == nullptr ? std::nullopt : std::optional(*id);
  }
  /// A list, or one number as a list of one.
  [[nodiscard]] std::vector<std::int64_t> numbers(std::string_view name) const {
    const ImportedArgument* found = find(name);
    if (found == nullptr) return {};
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(found)) return *list;
    if (const auto* one = std::get_if<std::int64_t>(found)) return {*one};
    return {};
  }
};

/// Sizes of tensors above which a file is refused.
inline constexpr std::int64_t kLongestAxis = 1'000'000'000;
inline constexpr double kMostElements = 1e15;
inline constexpr std::size_t kMostRank = 16;

struct ImportedGraph {
  std::string file;  ///< for messages
  std::string name;
  std::string source;  ///< which program wrote it
  std::vector<ImportedValue> values;
  std::vector<ImportedNode> nodes;    ///< in an order in which they can run
  std::vector<ImportedId> outputs;    ///< of the network
  std::size_t unread_parameters = 0;  ///< that no operator reads

  [[noreturn]] void fail(const std::string& what, std::string hint = {}) const {
    if (hint.empty()) hint = "the graph is damaged: write it anew";
    throw InputError({file, 0, 0}, what, std::move(hint));
  }
};

/// "[1, 1024, 1600]"
[[nodiscard]] std::string to_text(const ImportedShape& shape);

// Reader of files of torch.export.save: a zip archive with a graph as JSON.

/// Reads models/model.json (PyTorch 2.8 and later) or serialized_exported_program.json (2.3 to
/// 2.7); `file` is for messages. Weights, constants and sample inputs are not read. Dynamic shapes
/// and everything else that is not a static graph are InputErrors.
[[nodiscard]] ImportedGraph read_exported_program(std::unique_ptr<std::istream> in,
                                                  const std::string& file);

/// The JSON by itself; `entry`: its name in the archive.
[[nodiscard]] ImportedGraph parse_exported_program(std::string_view text, const std::string& file,
                                                   const std::string& entry);

// ONNX models: graphs with static shapes, without their weights.

/// A ModelProto (onnx/onnx onnx/onnx.proto, operator sets 11 to 25). Data of tensors is skipped,
/// but for short lists of whole numbers, which are arguments. Shapes that are missing or symbolic,
/// and graphs inside graphs, are InputErrors.
[[nodiscard]] ImportedGraph parse_onnx(std::string_view bytes, const std::string& file);

}  // namespace plansearch::io
