// SPDX-License-Identifier: Apache-2.0
// From operators of another program to ours: what all rows of operator tables build on.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/networks/draft.hpp"
#include "exchange/networks/imported_graph.hpp"
#include "plansearch/operator_passes.hpp"

namespace plansearch::io {

/// Walks the nodes of a graph in order. A row of an operator table calls these to say what its
/// node reads and makes.
class Lowering {
 public:
  explicit Lowering(const ImportedGraph& graph);

  [[nodiscard]] const ImportedGraph& graph() const { return graph_; }
  [[nodiscard]] AxisTable& axes() { return draft_.axes; }
  [[nodiscard]] Draft& draft() { return draft_; }
  [[nodiscard]] const DraftTensor& tensor_of(ImportedId id) const {
    return draft_.tensors[at(id).tensor];
  }
  [[nodiscard]] const ImportedShape& shape(ImportedId id) const { return graph_.values[id].shape; }
  [[nodiscard]] const DraftValue& at(ImportedId id) const { return values_[id]; }
  /// All values that are views of a tensor.
  [[nodiscard]] const std::vector<ImportedId>& views(DraftId tensor) const {
    return views_[tensor];
  }
  [[nodiscard]] bool is_tensor(ImportedId id) const { return at(id).is == DraftValue::Is::Tensor; }
  [[nodiscard]] bool is_parameter(ImportedId id) const {
    return at(id).is == DraftValue::Is::Parameter;
  }
  /// How many nodes read a value, and whether the network hands it out.
  [[nodiscard]] std::size_t uses(ImportedId id) const { return uses_[id]; }

  /// The argument, which has to be there.
  [[nodiscard]] ImportedId need(const ImportedNode& node, std::string_view name) const;
  [[nodiscard]] static std::vector<ImportedId> inputs(const ImportedNode& node);
  /// A dimension counted from the end where it is negative.
  [[nodiscard]] std::size_t place(const ImportedNode& node, ImportedId id, std::int64_t dim) const;
  [[noreturn]] void fail(const ImportedNode& node, const std::string& what,
                         std::string hint = {}) const;

  /// New axes for a shape.
  [[nodiscard]] ImportedAxes fresh(const ImportedShape& shape);
  /// The tensor that a value is; one of constants is made by an operator without inputs.
  [[nodiscard]] DraftRead read(const ImportedNode& node, ImportedId id);
  /// ... walked along these axes of the loop nest, axis by axis from the last; where the value has
  /// one place it is repeated.
  [[nodiscard]] DraftRead read_along(const ImportedNode& node, ImportedId id,
                                     const ImportedAxes& loop);

  /// A new operator that stands for the node.
  [[nodiscard]] DraftOperator start(const ImportedNode& node, std::string_view word) const;
  /// ... and reads a value.
  [[nodiscard]] DraftOperator start(const ImportedNode& node, std::string_view word, ImportedId in);
  [[nodiscard]] DraftId make(DraftOperator& op, const ImportedAxes& axes,
                             ElementClass element = ElementClass::Activation,
                             std::string_view part = {});
  DraftId add(DraftOperator op);
  /// Adds an operator that makes the first result of the node, which has these axes.
  DraftId add_result(const ImportedNode& node, DraftOperator op, const ImportedAxes& made);
  /// Binds a value of the source to a tensor with these axes.
  void set(ImportedId id, DraftId tensor, ImportedAxes axes);
  void set_view(ImportedId id, ImportedId of, ImportedAxes axes);
  void set_plain(ImportedId id, ImportedAxes axes, double visible = 1.0,
                 std::optional<std::size_t> counts_along = {});
  /// All results but the first are not computed with.
  void leave_rest(const ImportedNode& node);
  /// Axes of a result that has the dimensions of its source, but for some in the middle.
  [[nodiscard]] ImportedAxes carried(const ImportedNode& node, ImportedId from, ImportedId to);
  /// A copy of a value whose axes have no relation to those of its source.
  void copy(const ImportedNode& node, ImportedId from, ImportedId to);
  /// A mask leaves this share of the scores in a tensor: of the product that has made it, too.
  void mask(DraftId tensor, double visible);
  /// Operators of one number run as one kernel.
  [[nodiscard]] std::size_t next_fusion() { return fusions_++; }

  /// Mean and deviation.
  [[nodiscard]] AtomId pair() {
    if (!pair_) pair_ = axes().make(2);
    return *pair_;
  }

  [[nodiscard]] Draft finish();

 private:
  void start_value(ImportedId id);
  void check_axes(ImportedId id, const ImportedAxes& axes) const;
  void note_view(ImportedId id);

  const ImportedGraph& graph_;
  Draft draft_;
  std::vector<DraftValue> values_;
  std::vector<std::size_t> uses_;
  std::vector<std::vector<ImportedId>> views_;
  std::size_t fusions_ = 0;
  std::optional<AtomId> pair_;
};

// Operators of other programs, one row each.

inline constexpr std::string_view kOnnx = "onnx.";  ///< prefix of the kinds of ONNX operators

struct ImportedRow;
using LowerNode = void(Lowering& l, const ImportedNode& node, const ImportedRow& row);

/// How an operator of one name is read.
struct ImportedRow {
  std::string name;  ///< without overload, and without the underscore of what runs in place
  LowerNode* lower = nullptr;
  Keeps keeps = Keeps::Nothing;  ///< element-wise ones
  MemoryBound passes = MemoryBound::Plain;
  std::vector<std::string> inputs{};  ///< names of inputs that stand by their place
};

/// By kind: "aten.gelu", "onnx.Gelu", or what stubs may say of any operator: "pass", "nothing".
using ImportedRows = std::map<std::string, ImportedRow, std::less<>>;
/// The rows of `_imported_operators.yaml` in the folder of families, and those of stubs.
[[nodiscard]] ImportedRows read_rows(const std::filesystem::path& folder);
/// Inputs by place and attributes of an ONNX node under the names that rules ask for.
[[nodiscard]] ImportedNode named_arguments(const ImportedNode& node, const ImportedRow& row);

// Views: the same elements under other dimensions.
LowerNode lower_alias, lower_contiguous, lower_reshape, lower_transpose, lower_permute,
    lower_expand, lower_split, lower_slice, lower_copy, lower_nothing;

// Products.
LowerNode lower_linear, lower_addmm, lower_matmul, lower_convolution, lower_attention,
    lower_embedding;

// Passes over memory.
LowerNode lower_elementwise, lower_add, lower_compare, lower_counting, lower_triangle, lower_index,
    lower_dropout, lower_softmax, lower_norm, lower_channel_norm, lower_pool, lower_reduction,
    lower_concatenation, lower_enlarge, lower_loss;

/// The parts of several axes, one after another.
[[nodiscard]] ImportedAxis joined(const ImportedAxes& axes);
/// Entry i of a list, the last one for places beyond it; `usual` of an empty list.
[[nodiscard]] std::int64_t nth_of(const std::vector<std::int64_t>& list, std::size_t i,
                                  std::int64_t usual);

/// The tensor that the node reads first.
[[nodiscard]] ImportedId first_input(const Lowering& l, const ImportedNode& node);
/// A window over the places of an axis: stride * place + dilation * tap - padding. Where nothing
/// slides the axis stays as it is.
struct SlidingWindow {
  std::int64_t taps = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  bool transposed = false;  ///< (place + padding - tap) / stride
};
/// The axis of the result, and the read of `axis` by it and by `taps`.
[[nodiscard]] ImportedAxis slide(Lowering& l, const ImportedNode& node, DraftRead& read,
                                 const ImportedAxis& axis, const ImportedAxis& taps,
                                 const SlidingWindow& window, std::int64_t out);
/// The share of the places of a rectangle on its diagonal and below.
[[nodiscard]] double below_diagonal(std::int64_t rows, std::int64_t columns);

}  // namespace plansearch::io
