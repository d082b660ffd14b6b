// SPDX-License-Identifier: Apache-2.0
// ONNX's operators: onnx/onnx docs/Operators.md names inputs by place, and attributes. Both are
// brought to the names of the rules.
#include <algorithm>
#include <array>

#include "exchange/networks/lowering.hpp"

namespace plansearch::io {
namespace {

/// The node with a list of numbers more.
ImportedNode with_numbers(const ImportedNode& node, const char* name,
                          std::vector<std::int64_t> numbers) {
  ImportedNode other = node;
  other.arguments.emplace_back(name, std::move(numbers));
  return other;
}

void rename(ImportedNode& node, std::string_view from, std::string_view to) {
  for (auto& [name, argument] : node.arguments) {
    if (name == from) name = to;
  }
}

/// Weights stand as they are used, or transposed as torch.nn.Linear has them.
void lower_gemm(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  if (node.get<std::int64_t>("transA", 0) != 0) l.fail(node, "its first operand is transposed");
  if (node.get<std::int64_t>("transB", 0) != 0) return lower_linear(l, node, row);
  ImportedNode other = node;
  rename(other, "input", "mat1");
  rename(other, "weight", "mat2");
  rename(other, "bias", "self");
  lower_addmm(l, other, row);
}

void lower_last_norm(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId in = l.need(node, "input");
  const std::size_t first = l.place(node, in, node.get<std::int64_t>("dim", -1));
  const ImportedShape& shape = l.shape(in);
  lower_norm(l,
             with_numbers(node, "normalized_shape",
                          {shape.begin() + static_cast<std::ptrdiff_t>(first), shape.end()}),
             row);
}

void lower_global_pool(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  std::vector<std::int64_t> dims;
  for (std::size_t i = 2; i < l.shape(first_input(l, node)).size(); ++i) {
    dims.push_back(static_cast<std::int64_t>(i));
  }
  lower_reduction(l, with_numbers(node, "dim", std::move(dims)), row);
}

/// Rows of a table of parameters, or a choice among places.
void lower_gather(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId from = l.need(node, "weight");
  const bool table =
      l.is_parameter(from) && l.shape(from).size() == 2 && node.get<std::int64_t>("dim", 0) == 0;
  if (table) return lower_embedding(l, node, row);
  lower_index(l, node, row);
}

void lower_reverse(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  if (node.find("dims") != nullptr) return lower_permute(l, node, row);
  std::vector<std::int64_t> dims;
  for (std::size_t i = l.shape(first_input(l, node)).size(); i-- > 0;) {
    dims.push_back(static_cast<std::int64_t>(i));
  }
  lower_permute(l, with_numbers(node, "dims", std::move(dims)), row);
}

using enum Keeps;
constexpr auto kPlain = MemoryBound::Plain;
constexpr auto kActivation = MemoryBound::Activation;
constexpr auto kLayerNorm = MemoryBound::LayerNorm;
constexpr std::string_view kWeighted = "input,weight,bias";
constexpr std::string_view kReduced = "input,dim";

constexpr auto kRows = std::to_array<ImportedRow>({
    {"Abs", lower_elementwise, Inputs},
    {"Add", lower_add},
    {"And", lower_elementwise},
    {"Attention", lower_attention, Nothing, kPlain, "query,key,value,attn_mask"},
    {"AveragePool", lower_pool, Inputs},
    {"BatchNormalization", lower_channel_norm, Usual, kLayerNorm, kWeighted},
    {"Cast", lower_alias},
    {"CastLike", lower_alias},
    {"Clip", lower_elementwise, Inputs, kActivation},
    {"Concat", lower_concatenation},
    {"Constant", lower_nothing},
    {"ConstantOfShape", lower_nothing},
    {"Conv", lower_convolution, Nothing, kPlain, kWeighted},
    {"ConvTranspose", lower_convolution, Nothing, kPlain, kWeighted},
    {"Cos", lower_elementwise, Inputs},
    {"Div", lower_elementwise, Usual},
    {"Dropout", lower_alias},
    {"Elu", lower_elementwise, Outputs, kActivation},
    {"Equal", lower_elementwise},
    {"Erf", lower_elementwise, Inputs},
    {"Exp", lower_elementwise, Outputs},
    {"Expand", lower_expand},
    {"Flatten", lower_reshape},
    {"Gather", lower_gather, Nothing, kPlain, "weight,indices"},
    {"Gelu", lower_elementwise, Inputs, kActivation},
    {"Gemm", lower_gemm, Nothing, kPlain, kWeighted},
    {"GlobalAveragePool", lower_global_pool},
    {"Greater", lower_compare},
    {"GreaterOrEqual", lower_compare},
    {"GroupNormalization", lower_channel_norm, Usual, kLayerNorm, kWeighted},
    {"HardSigmoid", lower_elementwise, Inputs, kActivation},
    {"HardSwish", lower_elementwise, Inputs, kActivation},
    {"Identity", lower_alias},
    {"InstanceNormalization", lower_channel_norm, Usual, kLayerNorm, kWeighted},
    {"LayerNormalization", lower_last_norm, Usual, kLayerNorm, kWeighted},
    {"LeakyRelu", lower_elementwise, Inputs, kActivation},
    {"Less", lower_compare},
    {"LessOrEqual", lower_compare},
    {"Log", lower_elementwise, Inputs},
    {"LogSoftmax", lower_loss},
    {"MatMul", lower_matmul},
    {"Max", lower_elementwise, Inputs},
    {"MaxPool", lower_pool, Inputs},
    {"Min", lower_elementwise, Inputs},
    {"Mish", lower_elementwise, Inputs, kActivation},
    {"Mul", lower_elementwise, Usual},
    {"Neg", lower_elementwise},
    {"Not", lower_elementwise},
    {"Or", lower_elementwise},
    {"Pad", lower_copy},
    {"Pow", lower_elementwise, Inputs},
    {"RMSNormalization", lower_last_norm, Usual, MemoryBound::RmsNorm, kWeighted},
    {"Range", lower_counting},
    {"Reciprocal", lower_elementwise, Outputs},
    {"ReduceMax", lower_reduction, Both, kPlain, kReduced},
    {"ReduceMean", lower_reduction, Nothing, kPlain, kReduced},
    {"ReduceMin", lower_reduction, Both, kPlain, kReduced},
    {"ReduceSum", lower_reduction, Nothing, kPlain, kReduced},
    {"Relu", lower_elementwise, Outputs, kActivation},
    {"Reshape", lower_reshape},
    {"Resize", lower_enlarge},
    {"Shape", lower_nothing},
    {"Sigmoid", lower_elementwise, Outputs, kActivation},
    {"Sin", lower_elementwise, Inputs},
    {"Slice", lower_slice},
    {"Softmax", lower_softmax},
    {"SoftmaxCrossEntropyLoss", lower_loss},
    {"Softplus", lower_elementwise, Inputs, kActivation},
    {"Split", lower_split},
    {"Sqrt", lower_elementwise, Outputs},
    {"Squeeze", lower_reshape},
    {"Sub", lower_compare},
    {"Swish", lower_elementwise, Inputs, kActivation},
    {"Tanh", lower_elementwise, Outputs},
    {"Tile", lower_copy},
    {"Transpose", lower_reverse},
    {"Trilu", lower_triangle},
    {"Unsqueeze", lower_reshape},
    {"Where", lower_elementwise, Nothing},
});
static_assert(std::ranges::is_sorted(kRows, {}, &ImportedRow::name));

/// Attributes, and what the rules call them.
constexpr std::pair<std::string_view, std::string_view> kAttributes[] = {
    {"strides", "stride"},     {"pads", "padding"},
    {"dilations", "dilation"}, {"group", "groups"},
    {"perm", "dims"},          {"axis", "dim"},
    {"axes", "dim"},           {"kernel_shape", "kernel_size"}};

/// "input" of "input,weight,bias" is the first; nothing where there are fewer.
std::string_view nth_name(std::string_view names, std::size_t place) {
  for (; place > 0 && !names.empty(); --place) {
    const std::size_t comma = names.find(',');
    names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 1);
  }
  return names.substr(0, names.find(','));
}

/// Keeps the first half of the paddings (before and after each place): windows have one padding.
void halve_padding(ImportedNode& node) {
  for (auto& [name, argument] : node.arguments) {
    auto* list = std::get_if<std::vector<std::int64_t>>(&argument);
    if (name == "padding" && list != nullptr) list->resize(list->size() / 2);
    const auto* number = std::get_if<std::int64_t>(&argument);
    if (name == "is_causal" && number != nullptr) argument = *number != 0;
  }
  const std::string automatic = node.get<std::string>("auto_pad", "");
  if (automatic.starts_with("SAME")) node.arguments.emplace_back("padding", std::string("same"));
}

}  // namespace

std::span<const ImportedRow> onnx_rows() {
  return kRows;
}

ImportedNode named_arguments(const ImportedNode& node, const ImportedRow& row) {
  ImportedNode named = node;
  for (auto& [name, argument] : named.arguments) {
    for (const auto& [theirs, ours] : kAttributes) {
      if (name == theirs) name = ours;
    }
    constexpr std::string_view kNumbers = "numbers";
    const bool list = name.starts_with(kNumbers);
    const std::string digits = list ? name.substr(kNumbers.size()) : name;
    if (digits.size() != 1 || digits[0] < '0' || digits[0] > '9') continue;
    const std::string_view known = nth_name(row.inputs, static_cast<std::size_t>(digits[0] - '0'));
    if (!known.empty())
      name = std::string(known) + (list || row.inputs != kReduced ? "" : "_tensor");
  }
  for (auto& [name, argument] : named.arguments) {
    if (name == "input_tensor") name = "input";
  }
  halve_padding(named);
  return named;
}

}  // namespace plansearch::io
