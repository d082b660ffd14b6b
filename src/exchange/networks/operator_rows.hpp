// SPDX-License-Identifier: Apache-2.0
// Operators of other programs, one row each.
#pragma once

#include <span>
#include <string_view>

#include "exchange/networks/lowering.hpp"
#include "plansearch/operator_passes.hpp"

namespace plansearch::io {

inline constexpr std::string_view kOnnx = "onnx.";  ///< prefix of the kinds of ONNX operators

struct ImportedRow;
using LowerNode = void (*)(Lowering&, const ImportedNode&, const ImportedRow&);

/// How an operator of one name is read.
struct ImportedRow {
  std::string_view name;  ///< without overload, and without the underscore of what runs in place
  LowerNode lower;
  Keeps keeps = Keeps::Nothing;  ///< element-wise ones
  MemoryBound passes = MemoryBound::Plain;
  std::string_view inputs{};  ///< names of inputs that stand by their place: "input,weight,bias"
};

/// PyTorch's ATen (torch.export), sorted by name.
[[nodiscard]] std::span<const ImportedRow> aten_rows();
/// ONNX, sorted by name.
[[nodiscard]] std::span<const ImportedRow> onnx_rows();
/// "aten.gelu", "onnx.Gelu", or what stubs may say of any operator: "pass", "nothing".
[[nodiscard]] const ImportedRow* find_row(std::string_view kind);
[[nodiscard]] std::vector<std::string> row_names();
/// Inputs by place and attributes of an ONNX node under the names that rules ask for.
[[nodiscard]] ImportedNode named_arguments(const ImportedNode& node, const ImportedRow& row);

// Views: the same elements under other dimensions.
void lower_alias(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_contiguous(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_reshape(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_transpose(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_permute(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_expand(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_split(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_slice(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_copy(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_nothing(Lowering& l, const ImportedNode& node, const ImportedRow& row);

// Products.
void lower_linear(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_addmm(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_matmul(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_convolution(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_attention(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_embedding(Lowering& l, const ImportedNode& node, const ImportedRow& row);

// Passes over memory.
void lower_elementwise(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_add(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_compare(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_constant(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_counting(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_triangle(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_index(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_dropout(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_softmax(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_norm(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_channel_norm(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_pool(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_reduction(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_concatenation(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_enlarge(Lowering& l, const ImportedNode& node, const ImportedRow& row);
void lower_loss(Lowering& l, const ImportedNode& node, const ImportedRow& row);

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
