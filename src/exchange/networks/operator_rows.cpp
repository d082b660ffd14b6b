// SPDX-License-Identifier: Apache-2.0
// The table of operators of other programs (models/families/_imported_operators.yaml), and what only
// ONNX needs: its inputs by place and its attributes are brought to the names of the rules.
#include <fmt/format.h>

#include "exchange/networks/lowering.hpp"
#include "io/document/fields.hpp"

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

/// Lowers an undescribed operator: everything is read once and written once.
void lower_pass(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  for (const ImportedId id : node.outputs) {
    DraftOperator op = l.start(node, "elementwise");
    op.keeps = row.keeps;
    for (const ImportedId in : Lowering::inputs(node)) {
      if (l.at(in).is != DraftValue::Is::Plain) op.reads.push_back(l.read(node, in));
    }
    const ImportedAxes made = l.carried(node, first_input(l, node), id);
    const DraftId tensor = l.make(op, made);
    l.add(std::move(op));
    l.set(id, tensor, made);
  }
}

constexpr Choice<LowerNode*> kRules[] = {{"add", lower_add},
                                         {"addmm", lower_addmm},
                                         {"alias", lower_alias},
                                         {"attention", lower_attention},
                                         {"channel-norm", lower_channel_norm},
                                         {"compare", lower_compare},
                                         {"concatenation", lower_concatenation},
                                         {"contiguous", lower_contiguous},
                                         {"convolution", lower_convolution},
                                         {"copy", lower_copy},
                                         {"counting", lower_counting},
                                         {"dropout", lower_dropout},
                                         {"elementwise", lower_elementwise},
                                         {"embedding", lower_embedding},
                                         {"enlarge", lower_enlarge},
                                         {"expand", lower_expand},
                                         {"gather", lower_gather},
                                         {"gemm", lower_gemm},
                                         {"global-pool", lower_global_pool},
                                         {"index", lower_index},
                                         {"last-norm", lower_last_norm},
                                         {"linear", lower_linear},
                                         {"loss", lower_loss},
                                         {"matmul", lower_matmul},
                                         {"norm", lower_norm},
                                         {"nothing", lower_nothing},
                                         {"permute", lower_permute},
                                         {"pool", lower_pool},
                                         {"reduction", lower_reduction},
                                         {"reshape", lower_reshape},
                                         {"reverse", lower_reverse},
                                         {"slice", lower_slice},
                                         {"softmax", lower_softmax},
                                         {"split", lower_split},
                                         {"transpose", lower_transpose},
                                         {"triangle", lower_triangle}};
constexpr Choice<Keeps> kKeeps[] = {{"usual", Keeps::Usual},
                                    {"inputs", Keeps::Inputs},
                                    {"outputs", Keeps::Outputs},
                                    {"both", Keeps::Both}};

/// Attributes, and what the rules call them.
constexpr std::pair<std::string_view, std::string_view> kAttributes[] = {
    {"strides", "stride"},     {"pads", "padding"},
    {"dilations", "dilation"}, {"group", "groups"},
    {"perm", "dims"},          {"axis", "dim"},
    {"axes", "dim"},           {"kernel_shape", "kernel_size"}};

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

ImportedRows read_rows(const std::filesystem::path& folder) {
  ImportedRows rows{{"nothing", {"nothing", lower_nothing}},
                    {"pass", {"pass", lower_pass, Keeps::Inputs}}};
  const Document document = Document::read(folder / "_imported_operators.yaml");
  const Node root = document.root();
  require_schema(root, "plansearch/imported-operators/v1");
  for (const std::string_view library : {"aten", "onnx"}) {
    for (const Node& group : root.at(library).items()) {
      ImportedRow row;
      const Fields fields(group);
      row.lower = group.at("rule").choice(std::span<const Choice<LowerNode*>>(kRules));
      fields.take("keep", row.keeps, kKeeps);
      fields.take("passes", row.passes, choices_of<MemoryBound, kMemoryBoundCount>());
      fields.take("inputs", row.inputs, &Node::texts);
      for (const Node& name : group.at("operators").items()) {
        row.name = name.text();
        if (!rows.emplace(fmt::format("{}.{}", library, row.name), row).second)
          name.fail(fmt::format("'{}' has a row already", row.name));
      }
    }
  }
  root.finish();
  return rows;
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
    const auto place = static_cast<std::size_t>(digits[0] - '0');
    if (place >= row.inputs.size()) continue;
    name = row.inputs[place];
    if (!list && name == "dim") name = "dim_tensor";
  }
  halve_padding(named);
  return named;
}

}  // namespace plansearch::io
